package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// task is a registered task.
type task struct {
	taskConfig
	limit bucket.Limit // zero: none of its own
	run   func(ctx context.Context, row store.Job) error
}

// Register makes s run the jobs of a task with a handler. An error names the
// task and what to mend; nothing is registered then. Tasks are registered
// before Run.
//
// A handler that returns nil has completed its job. An error, a panic, or a
// timeout fails the attempt: the job is tried again after its back-off, up to
// its max_retries, and then becomes a dead letter. Jobs run at least once: a
// handler may see a job again whose process died before it could report.
func Register[Args any](s *Scheduler, name queue.Task[Args], handler func(context.Context, *queue.Job[Args]) error, opts ...TaskOption) error {
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
	for _, o := range opts {
		errs = append(errs, o.applyTask(&t.taskConfig))
	}
	errs = append(errs, queue.CheckName("queue", t.queue), t.readRate())
	t.run = func(ctx context.Context, row store.Job) error {
		job, err := queue.NewJobFor[Args](row)
		if err != nil {
			return err
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

func (t *task) readRate() error {
	switch {
	case t.rate.set:
		limit, err := t.rate.limit()
		t.limit = limit
		if err != nil {
			return fmt.Errorf("rate_limit: %w", err)
		}
	case t.rate.burstSet:
		return errors.New(`burst without rate_limit: add a rate, as in "100/m"`)
	}
	return nil
}

// TaskInfo says how a task is run.
type TaskInfo struct {
	Name       string        `json:"name"`
	Queue      string        `json:"queue"`
	RateLimit  string        `json:"rate_limit,omitempty"` // "" where it has none of its own
	Burst      int64         `json:"burst,omitempty"`
	OnExcess   Excess        `json:"on_excess"`
	MaxRetries int           `json:"max_retries"`
	Timeout    time.Duration `json:"timeout,omitempty"` // nanoseconds
}

func (t *task) info() TaskInfo {
	info := TaskInfo{Name: t.name, Queue: t.queue, OnExcess: t.excess, MaxRetries: t.maxRetries, Timeout: t.timeout}
	if !t.limit.Rate.IsZero() {
		info.RateLimit, info.Burst = t.limit.Rate.String(), t.limit.Burst
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
