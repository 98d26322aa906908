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
	if f.Strategy != "" {
		opts = append(opts, scheduler.Strategy(f.Strategy))
	}
	if f.Refresh > 0 {
		opts = append(opts, scheduler.RefreshInterval(f.Refresh))
	}
	if f.Concurrency > 0 {
		opts = append(opts, scheduler.Concurrency(f.Concurrency))
	}
	if f.Lease > 0 {
		opts = append(opts, scheduler.Lease(f.Lease))
	}
	if f.ShutdownGrace != nil {
		opts = append(opts, scheduler.ShutdownGrace(*f.ShutdownGrace))
	}
	if f.Retention != nil {
		opts = append(opts, scheduler.Retention(*f.Retention))
	}
	for _, r := range f.DeadRetention {
		opts = append(opts, scheduler.DeadRetention(r.Kind, r.Keep))
	}
	for i := range f.Tasks {
		if f.Tasks[i].Elsewhere {
			opts = append(opts, scheduler.Elsewhere(f.Tasks[i].Name))
		}
	}
	for i := range f.Queues {
		q := &f.Queues[i]
		if !q.Rate.IsZero() {
			opts = append(opts, scheduler.QueueLimit(q.Name, q.Rate.Text, q.Rate.limitOptions()...))
		}
		if q.Concurrency > 0 {
			opts = append(opts, scheduler.QueueCap(q.Name, q.Concurrency))
		}
	}
	for i := range f.Limits {
		opts = append(opts, f.Limits[i].option())
	}
	return opts
}

func (l *Limit) option() scheduler.Option {
	more := append([]scheduler.LimitOption{scheduler.Tasks(l.Tasks...), scheduler.Queues(l.Queues...)}, l.Rate.limitOptions()...)
	if l.Exact {
		more = append(more, scheduler.Exact())
	}
	if l.Rate.Windowed() {
		return scheduler.WindowLimit(l.Name, l.Rate.Quota.Count, l.Rate.Quota.Period, more...)
	}
	return scheduler.SharedLimit(l.Name, l.Rate.Text, more...)
}

// Register makes s run the tasks that the file gives a command or a URL, and
// fire its schedules. What the commands print goes to log.
func (f *File) Register(s *scheduler.Scheduler, log *slog.Logger) error {
	var errs []error
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if !t.Here() {
			continue
		}
		run := t.target(log)
		handle := func(ctx context.Context, job *queue.Job[[]byte]) error {
			return run(ctx, target.Call{
				JobID: job.ID, Task: job.Task, Queue: job.Queue, Attempt: job.Attempt, Args: job.RawArgs,
			})
		}
		errs = append(errs, scheduler.Register(s, queue.Task[[]byte](t.Name), handle, t.options()...))
	}
	for i := range f.Schedules {
		c := &f.Schedules[i]
		errs = append(errs, scheduler.Schedule(s, c.Name, c.Spec.Cron(), queue.Task[[]byte](c.Task), c.Args, c.options()...))
	}
	return errors.Join(errs...)
}

// target is what runs a job of the task.
func (t *Task) target(log *slog.Logger) func(context.Context, target.Call) error {
	if t.Exec != nil {
		return target.Exec{Command: t.Exec.Command, Dir: t.Exec.Dir, Log: log}.Run
	}
	post := target.HTTP{URL: t.HTTP.URL, Headers: t.HTTP.Headers}
	return func(ctx context.Context, call target.Call) error {
		err := post.Run(ctx, call)
		if status, ok := errors.AsType[*target.StatusError](err); ok && status.Timed {
			return scheduler.RetryAfter(status.RetryAfter, err)
		}
		return err
	}
}

func (t *Task) options() []scheduler.TaskOption {
	opts := t.rateOptions()
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
	if t.Concurrency > 0 {
		opts = append(opts, scheduler.Cap(t.Concurrency))
	}
	if t.Breaker != nil {
		opts = append(opts, *t.Breaker)
	}
	if t.DLQRetry != nil {
		opts = append(opts, scheduler.DLQRetry(t.DLQRetry.After, t.DLQRetry.Max))
	}
	return opts
}

func (t *Task) rateOptions() []scheduler.TaskOption {
	var opts []scheduler.TaskOption
	switch {
	case len(t.Rates) > 0:
		list := make([]scheduler.Rate, len(t.Rates))
		for i, r := range t.Rates {
			list[i] = scheduler.Rate{Rate: r.Text, Burst: r.Limit.Burst}
		}
		opts = append(opts, scheduler.RateLimits(list...))
		if mode := t.Rates[0].Defer; mode != "" { // all have the same
			opts = append(opts, scheduler.Defer(mode))
		}
	case !t.Rate.IsZero():
		opts = append(opts, scheduler.RateLimit(t.Rate.Text))
		for _, o := range t.Rate.options() {
			opts = append(opts, o)
		}
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
