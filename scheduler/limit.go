package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// limit is a limit that this process enforces.
type limit struct {
	store.Declared
	mode      DeferMode
	heldUntil time.Time // on this process's clock; a hint: the row decides
	switched  map[string]struct{}
	ignored   string // the override that was told to be none
	// over is the override that the last survey saw, as text; "" before the first.
	over string
	// changed: another rate is in force than before. A look brings the bucket to
	// it at once, although nothing may wait: it is filled at the old one until then.
	changed bool
	window  *window // under the fixed-window strategy
}

func byName(a, b *limit) int { return strings.Compare(a.Name, b.Name) }

// compileLimits turns what was declared into limits, sorted by name: the order
// in which their rows are locked.
func (s *Scheduler) compileLimits() ([]*limit, error) {
	var limits []*limit
	var errs []error
	for _, t := range s.tasks {
		errs = append(errs, about(fmt.Sprintf("task %q", t.name), s.checkExcess(t)))
		for _, own := range t.limits {
			l := &limit{
				Declared: store.Declared{Name: own.name, Limit: own.limit, Tasks: []string{t.name}},
				mode:     t.rate.mode,
			}
			errs = append(errs, about(fmt.Sprintf("task %q", t.name), s.compileWindow(l, limitConfig{rate: t.rate})))
			limits = append(limits, l)
		}
	}
	for _, c := range s.config.limits {
		l, err := s.compileLimit(c)
		errs = append(errs, err, about(describeLimit(c.name), s.compileWindow(l, c)))
		limits = append(limits, l)
	}
	slices.SortFunc(limits, byName)
	for i := 1; i < len(limits); i++ {
		if limits[i].Name == limits[i-1].Name {
			errs = append(errs, fmt.Errorf("%s is declared twice: keep one", describeLimit(limits[i].Name)))
		}
	}
	errs = append(errs, s.checkNames(limits))
	return limits, together(errs...)
}

func (s *Scheduler) compileLimit(c limitConfig) (*limit, error) {
	var errs []error
	var l bucket.Limit
	if c.quota == nil {
		var err error
		l, err = c.rate.limit()
		errs = append(errs, err)
	}
	if len(c.tasks)+len(c.queues) == 0 {
		errs = append(errs, errors.New(`it covers nothing: name tasks or queues`))
	}
	if !strings.HasPrefix(c.name, queuePrefix) {
		errs = append(errs, queue.CheckName("limit", c.name))
	} else if len(c.tasks)+len(c.queues) > 1 {
		errs = append(errs, errors.New("a queue's limit covers that queue alone: use SharedLimit for more"))
	}
	for _, q := range c.queues {
		errs = append(errs, queue.CheckName("queue", q))
	}
	for _, t := range c.tasks {
		if _, known := s.tasks[t]; !known && !slices.Contains(s.config.elsewhere, t) {
			errs = append(errs, fmt.Errorf("it names the task %q, which is not registered: register it, or declare it with Elsewhere if another process runs it", t))
		}
	}
	return &limit{Declared: store.Declared{Name: c.name, Limit: l, Tasks: c.tasks, Queues: c.queues}, mode: c.rate.mode}, about(describeLimit(c.name), errs...)
}

// covering lists the limits that cover a line, by name; one that covers it
// twice is there once.
func (s *Scheduler) covering(line store.Line) []*limit {
	var out []*limit
	for _, l := range s.limits {
		if slices.Contains(l.Tasks, line.Task) || slices.Contains(l.Queues, line.Queue) {
			out = append(out, l)
		}
	}
	return out
}

func names(limits []*limit) []string {
	out := make([]string, len(limits))
	for i, l := range limits {
		out[i] = l.Name
	}
	return out
}
