package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	libasynq "github.com/hibiken/asynq"

	"github.com/weirq/weir/internal/bench"
)

// asynqSystem is asynq. Limits are left to the handler there: one that finds
// no token returns an error that is no failure, and the task comes again after
// a second, as asynq's wiki shows it.
type asynqSystem struct {
	redis     libasynq.RedisClientOpt
	client    *libasynq.Client
	inspector *libasynq.Inspector
}

func openAsynq(_ context.Context, s spec) (bench.System, error) {
	opt := libasynq.RedisClientOpt{Addr: s.Target}
	return &asynqSystem{opt, libasynq.NewClient(opt), libasynq.NewInspector(opt)}, nil
}

func (a *asynqSystem) Close() error { return errors.Join(a.client.Close(), a.inspector.Close()) }

const (
	asynqFree    = "free"
	asynqLimited = "limited"
	asynqQueue   = "default"
)

func (a *asynqSystem) Enqueue(ctx context.Context, job bench.Job) error {
	body, err := json.Marshal(job.Args)
	if err != nil {
		return err
	}
	kind := asynqFree
	if job.Limited {
		kind = asynqLimited
	}
	_, err = a.client.EnqueueContext(ctx, libasynq.NewTask(kind, body))
	return err
}

func (*asynqSystem) EnqueueMany(context.Context, []bench.Job) error { return errors.ErrUnsupported }

var errNoToken = errors.New("rate limited")

func (a *asynqSystem) Start(_ context.Context, w bench.Workers) (stop func() error, err error) {
	limiter, err := newLimiter(w.Rate)
	if err != nil {
		return nil, err
	}
	handle := func(task *libasynq.Task) error {
		job := bench.Job{Limited: task.Type() == asynqLimited}
		if err := json.Unmarshal(task.Payload(), &job.Args); err != nil {
			return err
		}
		if job.Limited && !limiter.Allow() {
			return errNoToken
		}
		w.Handle(job)
		return nil
	}
	server := libasynq.NewServer(a.redis, libasynq.Config{
		Concurrency: w.Count, LogLevel: libasynq.FatalLevel,
		IsFailure:      func(err error) bool { return !errors.Is(err, errNoToken) },
		RetryDelayFunc: func(int, error, *libasynq.Task) time.Duration { return time.Second },
	})
	err = server.Start(libasynq.HandlerFunc(func(_ context.Context, task *libasynq.Task) error { return handle(task) }))
	return func() error {
		server.Shutdown()
		return nil
	}, err
}

func (a *asynqSystem) Finished(context.Context, int) (bool, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return false, err
	}
	return info.Pending+info.Active+info.Scheduled+info.Retry == 0, nil
}
