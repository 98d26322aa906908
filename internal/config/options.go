package config

import (
	"context"
	"errors"
	"log/slog"

	"github.com/weirq/weir/internal/target"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// Options are the scheduler's options that the file gives. Tasks come by
// Register.
func (f *File) Options() []scheduler.Option {
	var opts []scheduler.Option
	if f.Concurrency > 0 {
		opts = append(opts, scheduler.Concurrency(f.Concurrency))
	}
	if f.Lease > 0 {
		opts = append(opts, scheduler.Lease(f.Lease))
	}
	if f.ShutdownGrace != nil {
		opts = append(opts, scheduler.ShutdownGrace(*f.ShutdownGrace))
	}
	for i := range f.Tasks {
		if f.Tasks[i].Elsewhere {
			opts = append(opts, scheduler.Elsewhere(f.Tasks[i].Name))
		}
	}
	for i := range f.Queues {
		if q := &f.Queues[i]; !q.Rate.IsZero() {
			opts = append(opts, scheduler.QueueLimit(q.Name, q.Rate.Text, q.Rate.limitOptions()...))
		}
	}
	for i := range f.Limits {
		l := &f.Limits[i]
		covers := []scheduler.LimitOption{scheduler.Tasks(l.Tasks...), scheduler.Queues(l.Queues...)}
		opts = append(opts, scheduler.SharedLimit(l.Name, l.Rate.Text, append(covers, l.Rate.limitOptions()...)...))
	}
	return opts
}

// Register makes s run the tasks that the file gives a command. What the
// commands print goes to log.
func (f *File) Register(s *scheduler.Scheduler, log *slog.Logger) error {
	var errs []error
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.Exec == nil {
			continue
		}
		run := target.Exec{Command: t.Exec.Command, Dir: t.Exec.Dir, Log: log}
		handle := func(ctx context.Context, job *queue.Job[[]byte]) error {
			return run.Run(ctx, target.Call{
				JobID: job.ID, Task: job.Task, Queue: job.Queue, Attempt: job.Attempt, Args: job.RawArgs,
			})
		}
		errs = append(errs, scheduler.Register(s, queue.Task[[]byte](t.Name), handle, t.options()...))
	}
	return errors.Join(errs...)
}

func (t *Task) options() []scheduler.TaskOption {
	var opts []scheduler.TaskOption
	if !t.Rate.IsZero() {
		opts = append(opts, scheduler.RateLimit(t.Rate.Text))
		for _, o := range t.Rate.options() {
			opts = append(opts, o)
		}
	}
	if t.OnExcess != "" {
		opts = append(opts, scheduler.OnExcess(t.OnExcess))
	}
	if t.Queue != "" {
		opts = append(opts, scheduler.Queue(t.Queue))
	}
	if t.Timeout > 0 {
		opts = append(opts, scheduler.Timeout(t.Timeout))
	}
	if t.MaxRetries != nil {
		opts = append(opts, scheduler.MaxRetries(*t.MaxRetries))
	}
	if t.Backoff != nil {
		opts = append(opts, *t.Backoff)
	}
	return opts
}

// options are what the file says beside the rate itself.
func (r Rate) options() []scheduler.BothOption {
	var opts []scheduler.BothOption
	if r.Limit.Burst > 0 {
		opts = append(opts, scheduler.Burst(r.Limit.Burst))
	}
	if r.Defer != "" {
		opts = append(opts, scheduler.Defer(r.Defer))
	}
	return opts
}

func (r Rate) limitOptions() []scheduler.LimitOption {
	both := r.options()
	opts := make([]scheduler.LimitOption, len(both))
	for i, o := range both {
		opts[i] = o
	}
	return opts
}
