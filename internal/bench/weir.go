package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// The tasks of Weir.
const (
	free    = queue.Task[Args]("free")
	limited = queue.Task[Args]("limited")
)

// Weir is Weir as a [System].
type Weir struct {
	Client *queue.Client
	// Shared: other processes work on the database as well, so that the store
	// is asked what is left.
	Shared bool

	scheduler atomic.Pointer[scheduler.Scheduler]
}

// OpenWeir opens Weir on a database, as queue.Open does by default.
func OpenWeir(ctx context.Context, dsn string) (*Weir, error) {
	client, err := queue.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	return &Weir{Client: client}, nil
}

// Close implements System.
func (w *Weir) Close() error { return w.Client.Close() }

// Enqueue implements System.
func (w *Weir) Enqueue(ctx context.Context, job Job) error {
	_, err := taskOf(job).Enqueue(ctx, w.Client, job.Args, func(j *queue.NewJob) error {
		j.Queue, j.Priority = job.Queue, job.Priority
		return nil
	})
	return err
}

func taskOf(job Job) queue.Task[Args] {
	if job.Limited {
		return limited
	}
	return free
}

// EnqueueMany implements System.
func (w *Weir) EnqueueMany(ctx context.Context, jobs []Job) error {
	list := make([]queue.NewJob, len(jobs))
	for i, job := range jobs {
		args, err := queue.Encode(job.Args)
		if err != nil {
			return err
		}
		list[i] = queue.NewJob{Task: string(taskOf(job)), Queue: job.Queue, Priority: job.Priority, Args: args}
	}
	_, err := w.Client.EnqueueMany(ctx, list)
	return err
}

// Start implements System.
func (w *Weir) Start(ctx context.Context, work Workers) (stop func() error, err error) {
	s, err := scheduler.New(w.Client, scheduler.Concurrency(work.Count), scheduler.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	handler := func(isLimited bool) func(context.Context, *queue.Job[Args]) error {
		return func(_ context.Context, job *queue.Job[Args]) error {
			work.Handle(Job{Limited: isLimited, Priority: job.Priority, Queue: job.Queue, Args: job.Args, Granted: job.StartedAt})
			return nil
		}
	}
	if err := errors.Join(
		scheduler.Register(s, free, handler(false)),
		scheduler.Register(s, limited, handler(true), scheduler.RateLimit(work.Rate)),
	); err != nil {
		return nil, err
	}
	w.scheduler.Store(s)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// Finished implements System.
func (w *Weir) Finished(ctx context.Context, n int) (bool, error) {
	if !w.Shared {
		return w.scheduler.Load().Stats().Completed >= int64(n), nil
	}
	page, err := w.Client.List(ctx, queue.Filter{States: []queue.State{queue.StatePending, queue.StateRunning}, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("look for jobs that are left: %w", err)
	}
	return len(page.Items) == 0, nil
}

// Looks is how many transactions the scheduler made.
func (w *Weir) Looks() int64 { return w.scheduler.Load().Stats().Looks }
