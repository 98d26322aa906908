package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// task is a registered task.
type task struct {
	taskConfig
	limits []ownLimit
	run    func(ctx context.Context, row store.Job) error
}

// ownLimit is a limit that comes with a task.
type ownLimit struct {
	name  string // in the database
	limit bucket.Limit
}

// Register makes s run the jobs of a task with a handler. An error names the
// task and what to mend; nothing is registered then. Tasks are registered
// before Run.
//
// A handler that returns nil has completed its job. An error, a panic, or a
// timeout fails the attempt: the job is tried again after its back-off, up to
// its max_retries, and then becomes a dead letter. Jobs run at least once: a
// handler may see a job again whose process died before it could report.
//
// Handlers follow one another on a goroutine: what is bound to it or its thread,
// as by runtime.LockOSThread, is to be undone before a handler returns, or done on
// a goroutine of its own.
func Register[Args any](s *Scheduler, name queue.Task[Args], handler func(context.Context, *queue.Job[Args]) error, opts ...TaskOption) error {
	if s == nil || s.store == nil {
		return fmt.Errorf("task %q: %w", string(name), errNotMade)
	}
	t := &task{taskConfig: taskConfig{
		name:       string(name),
		rate:       rateConfig{mode: DeferSecond},
		excess:     Postpone,
		queue:      DefaultQueue,
		maxRetries: store.DefaultMaxRetries,
	}}
	_ = Backoff{}.applyTask(&t.taskConfig) // the defaults are valid
	errs := []error{queue.CheckName("task", string(name))}
	if handler == nil {
		errs = append(errs, errors.New("its handler is nil"))
	}
	given := map[string]struct{}{}
	errs = append(errs, applied(opts, func(o TaskOption) error {
		if _, twice := given[o.option()]; twice {
			return fmt.Errorf("%s is given twice: keep one", o.option())
		}
		given[o.option()] = struct{}{}
		return o.applyTask(&t.taskConfig)
	})...)
	errs = append(errs, queue.CheckName("queue", t.queue), t.readRate())
	t.run = func(ctx context.Context, row store.Job) error {
		job, err := queue.NewJobFor[Args](row)
		if err != nil {
			return Discard(err) // the next attempt would read the same bytes
		}
		return handler(ctx, job)
	}
	if err := about(fmt.Sprintf("task %q", string(name)), errs...); err != nil {
		return err
	}
	return s.register(t)
}

// DefaultQueue is where the jobs of a task wait that names no queue.
const DefaultQueue = "default"

// readRate reads the task's own limits: none, one, or a list.
func (t *task) readRate() error {
	switch {
	case t.list != nil && t.rate.set:
		return errors.New("rate_limit: one rate and a list of them: keep one")
	case t.list != nil && t.rate.burstSet:
		return errors.New("burst beside a list of rates: give each element its own")
	case t.list != nil:
		return t.readList()
	case t.rate.set:
		limit, err := t.rate.limit()
		if err != nil {
			return fmt.Errorf("rate_limit: %w", err)
		}
		t.limits = []ownLimit{{taskPrefix + t.name, limit}}
	case t.rate.burstSet:
		return errors.New(`burst without rate_limit: add a rate, as in "100/m"`)
	case t.rate.modeSet:
		return errors.New(`defer without rate_limit: add a rate, as in "100/m"`)
	}
	return nil
}

// readList names each element's bucket by its period.
func (t *task) readList() error {
	var errs []error
	seen := map[string]string{}
	for _, e := range t.list {
		limit, err := bucket.NewLimit(e.Rate, e.Burst)
		if err != nil {
			errs = append(errs, fmt.Errorf("rate_limit: %w", err))
			continue
		}
		period := limit.Rate.PeriodString()
		if other, twice := seen[period]; twice {
			errs = append(errs, fmt.Errorf("rate_limit: %q and %q have the same period: keep the smaller", other, e.Rate))
		}
		seen[period] = e.Rate
		t.limits = append(t.limits, ownLimit{"task@" + period + ":" + t.name, limit})
	}
	return errors.Join(errs...)
}

// TaskInfo says how a task is run.
type TaskInfo struct {
	Name       string        `json:"name"`
	Queue      string        `json:"queue"`
	RateLimit  string        `json:"rate_limit,omitempty"` // "" where it has none of its own; a list is joined by ", "
	Burst      int64         `json:"burst,omitempty"`      // of a single rate
	OnExcess   Excess        `json:"on_excess"`
	MaxRetries int           `json:"max_retries"`
	Timeout    time.Duration `json:"timeout,omitempty"` // nanoseconds
	// DLQRetry says how its failed jobs are retried after their death; nil: not
	// by themselves.
	DLQRetry *DLQRetryInfo `json:"dlq_retry,omitempty"`
}

// DLQRetryInfo is what [DLQRetry] was given.
type DLQRetryInfo struct {
	After time.Duration `json:"after"` // nanoseconds
	Max   int           `json:"max"`
}

func (t *task) info() TaskInfo {
	info := TaskInfo{Name: t.name, Queue: t.queue, OnExcess: t.excess, MaxRetries: t.maxRetries, Timeout: t.timeout, DLQRetry: t.deadRetry}
	switch len(t.limits) {
	case 0:
	case 1:
		info.RateLimit, info.Burst = t.limits[0].limit.Rate.String(), t.limits[0].limit.Burst
	default:
		rates := make([]string, len(t.limits))
		for i, l := range t.limits {
			rates[i] = l.limit.String()
		}
		info.RateLimit = strings.Join(rates, ", ")
	}
	return info
}

// registration is the task's row in the database.
func (t *task) registration() (store.Task, error) {
	definition, err := json.Marshal(t.info())
	if err != nil {
		return store.Task{}, fmt.Errorf("task %q: %w", t.name, err)
	}
	return store.Task{Name: t.name, Queue: t.queue, MaxRetries: t.maxRetries, Definition: string(definition)}, nil
}
