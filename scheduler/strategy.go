package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// StrategyName says how limits let jobs start.
type StrategyName string

// The strategies. A database has one, for all its processes.
const (
	// TokenBucket spends a token of a bucket for each start, in the transaction of
	// the grant. The default.
	TokenBucket StrategyName = store.TokenBucket
	// FixedWindow counts starts in windows: each process claims by itself, and
	// counts afterwards in one row per limit.
	FixedWindow StrategyName = store.FixedWindow
)

// ErrStrategy is returned by Run and Drain where the jobs of the database run
// under another strategy. `weir migrate strategy` switches it.
var ErrStrategy = store.ErrStrategy

// Strategy says how limits let jobs start; default TokenBucket. The first process
// that runs jobs gives it to the database.
func Strategy(name StrategyName) Option {
	return optionFunc(func(c *config) error {
		if name != TokenBucket && name != FixedWindow {
			return fmt.Errorf("strategy %q: use %q or %q", string(name), TokenBucket, FixedWindow)
		}
		c.strategy = name
		return nil
	})
}

// DefaultRefreshInterval is for how long what was read of the limits serves.
const DefaultRefreshInterval = 250 * time.Millisecond

// RefreshInterval is for how long what was read of the limits serves claims that
// turn out to take nothing that a limit covers: 1 ms to 1 min, default 250 ms. Only
// under FixedWindow.
func RefreshInterval(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < time.Millisecond || d > time.Minute {
			return fmt.Errorf("refresh interval %v: use 1ms to 1m", d)
		}
		c.refresh = d
		return nil
	})
}

// WindowLimit is one budget for the tasks and queues that its options name: limit
// starts (0 to 1,000,000,000) in each window of per (1 s to 366 days). A limit of 0
// lets nothing start. Only under FixedWindow.
func WindowLimit(name string, limit int64, per time.Duration, opts ...LimitOption) Option {
	return optionFunc(func(c *config) error {
		if err := checkSharedName(name); err != nil {
			return err
		}
		quota, err := bucket.NewQuota(limit, per)
		l := limitConfig{name: name, quota: &quota}
		errs := applied(opts, func(o LimitOption) error { return o.applyLimit(&l) })
		c.limits = append(c.limits, l)
		return about(describeLimit(name), append(errs, err)...)
	})
}

// Exact makes claim and count of a limit one transaction, under the lock of its
// row: no window has more starts than the limit, whatever the number of processes.
// Only under FixedWindow.
func Exact() LimitOption {
	return limitOptionFunc(func(l *limitConfig) error {
		l.exact = true
		return nil
	})
}

// compileWindow gives a limit what the strategy needs, and refuses what belongs to
// the other one.
func (s *Scheduler) compileWindow(l *limit, c limitConfig) error {
	if s.config.strategy != FixedWindow {
		switch {
		case c.quota != nil:
			return errors.New("WindowLimit belongs to the fixed-window strategy: use SharedLimit, or Strategy(FixedWindow)")
		case c.exact:
			return errors.New("Exact belongs to the fixed-window strategy: a token bucket is exact anyway")
		}
		return nil
	}
	l.window = &window{exact: c.exact}
	var errs []error
	if c.rate.burstSet {
		errs = append(errs, errors.New("burst: a fixed window has none: leave it out"))
	}
	if c.rate.mode == UntilToken {
		errs = append(errs, fmt.Errorf("defer %q: what a fixed window refuses waits for the next one: leave it out", UntilToken))
	}
	if c.quota != nil {
		l.window.quota = *c.quota
		return errors.Join(errs...)
	}
	// What is no rate at all has been told.
	if _, err := bucket.Parse(c.rate.text); err == nil {
		quota, err := bucket.ParseQuota(c.rate.text)
		l.window.quota = quota
		errs = append(errs, err)
	}
	return together(errs...)
}

// checkExcess refuses what only token buckets can do for a task.
func (s *Scheduler) checkExcess(t *task) error {
	if s.config.strategy != FixedWindow {
		return nil
	}
	var errs []error
	if t.excess == Drop {
		errs = append(errs, fmt.Errorf("on_excess %q: what a fixed window refuses stays where it is: leave it out", Drop))
	}
	if t.list != nil {
		errs = append(errs, errors.New("a list of rates: under fixed windows a task has one: declare a limit of its own for each of the others"))
	}
	return together(errs...)
}

// checkNames refuses names of which people could not say which is meant.
func (s *Scheduler) checkNames(limits []*limit) error {
	if s.config.strategy != FixedWindow {
		if s.config.refresh != 0 {
			return errors.New("RefreshInterval belongs to the fixed-window strategy: leave it out, or use Strategy(FixedWindow)")
		}
		return nil
	}
	var errs []error
	for i, l := range limits {
		for _, other := range limits[:i] {
			if l.Name != other.Name && strings.EqualFold(l.Name, other.Name) {
				errs = append(errs, fmt.Errorf("%s and %s differ only by case: name them apart", describeLimit(other.Name), describeLimit(l.Name)))
			}
		}
	}
	return together(errs...)
}

// quotas are what a process declares under the fixed-window strategy.
func quotas(limits []*limit) []store.DeclaredQuota {
	out := make([]store.DeclaredQuota, len(limits))
	for i, l := range limits {
		out[i] = store.DeclaredQuota{Name: l.Name, Quota: l.window.quota, Tasks: l.Tasks, Queues: l.Queues}
	}
	return out
}
