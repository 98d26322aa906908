package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

// Defaults of a Scheduler.
const (
	DefaultConcurrency   = 100
	DefaultLease         = 30 * time.Second
	DefaultShutdownGrace = 30 * time.Second
	DefaultRetention     = 24 * time.Hour
)

// Option configures a Scheduler.
type Option interface{ apply(*config) error }

// TaskOption configures one task at Register. Each may be given once.
type TaskOption interface {
	applyTask(c *taskConfig) error
	option() string // what it is called in errors
}

// LimitOption configures a queue's limit or a shared one.
type LimitOption interface{ applyLimit(*limitConfig) error }

// BothOption serves a task's own limit and the other limits alike.
type BothOption interface {
	TaskOption
	LimitOption
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type taskOption struct {
	name  string
	apply func(*taskConfig) error
}

func (o taskOption) applyTask(c *taskConfig) error { return o.apply(c) }
func (o taskOption) option() string                { return o.name }

type limitOptionFunc func(*limitConfig) error

func (f limitOptionFunc) applyLimit(c *limitConfig) error { return f(c) }

// applied applies options and returns what is wrong with them.
func applied[O any](opts []O, apply func(O) error) []error {
	errs := make([]error, 0, len(opts))
	for i, o := range opts {
		if any(o) == nil {
			errs = append(errs, fmt.Errorf("option %d is nil: leave it out", i+1))
			continue
		}
		errs = append(errs, apply(o))
	}
	return errs
}

// config is what the options of New say.
type config struct {
	concurrency int
	lease       time.Duration
	grace       time.Duration
	logger      *slog.Logger
	random      func() uint64
	elsewhere   []string
	queueCaps   map[string]int
	limits      []limitConfig // of queues, and shared ones
	middleware  []func(Handler) Handler
	retention   time.Duration
	strategy    StrategyName
	refresh     time.Duration // 0: not given

	deadRetention map[dlq.Kind]Keep
}

// limitConfig is a limit that is not a task's own.
type limitConfig struct {
	name   string // what it is called in the database
	rate   rateConfig
	tasks  []string
	queues []string
	quota  *bucket.Quota // of WindowLimit, instead of the rate
	exact  bool
}

// rateConfig is a rate as it was written, until all options are known.
type rateConfig struct {
	text     string
	set      bool
	burst    int64
	burstSet bool
	mode     DeferMode
	modeSet  bool
}

// limit reads the rate.
func (r rateConfig) limit() (bucket.Limit, error) {
	if r.burstSet {
		if err := bucket.CheckBurst(r.burst); err != nil {
			return bucket.Limit{}, err
		}
	}
	return bucket.NewLimit(r.text, r.burst)
}

// taskConfig is what the options of Register say.
type taskConfig struct {
	name       string
	rate       rateConfig
	list       []Rate // instead of rate
	excess     Excess
	queue      string
	maxRetries int
	backoff    Backoff
	timeout    time.Duration
	cap        int
	breaker    Breaker
	deadRetry  *DLQRetryInfo // nil: none
}

// Concurrency is how many handlers run at once in this process: 1 to 100,000,
// default 100.
func Concurrency(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 || n > 100_000 {
			return fmt.Errorf("concurrency %d: use 1 to 100000", n)
		}
		c.concurrency = n
		return nil
	})
}

// Lease is after how long the jobs of a process that died are handed out
// again: 1 s to 24 h, default 30 s. A living process renews its leases.
func Lease(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < time.Second || d > 24*time.Hour {
			return fmt.Errorf("lease %v: use 1s to 24h", d)
		}
		c.lease = d
		return nil
	})
}

// ShutdownGrace is how long handlers may go on after a stop: at least 0,
// default 30 s. Then their contexts are cancelled.
func ShutdownGrace(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d < 0 {
			return fmt.Errorf("shutdown grace %v: use 0 or more", d)
		}
		c.grace = d
		return nil
	})
}

// Retention is how long completed and cancelled jobs are kept: 1 min or more,
// default 24 h; 0 keeps them for ever.
func Retention(d time.Duration) Option {
	return optionFunc(func(c *config) error {
		if d != 0 && d < time.Minute {
			return fmt.Errorf("retention %v: use 1m or more, or 0 to keep finished jobs for ever", d)
		}
		c.retention = d
		return nil
	})
}

// Logger receives what happens; default: slog.Default().
func Logger(l *slog.Logger) Option {
	return optionFunc(func(c *config) error {
		if l == nil {
			return errors.New("logger is nil: use slog.New(slog.DiscardHandler) to hear nothing")
		}
		c.logger = l
		return nil
	})
}

// Random replaces the source of claim ids and of back-off jitter, for tests.
func Random(source func() uint64) Option {
	return optionFunc(func(c *config) error {
		if source == nil {
			return errors.New("random source is nil: leave the option out for the real one")
		}
		c.random = source
		return nil
	})
}

// QueueCap is how many jobs of a queue run at once, over all processes: at least
// 1. The others wait.
func QueueCap(name string, n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("queue %q: concurrency %d: use 1 or more", name, n)
		}
		if c.queueCaps == nil {
			c.queueCaps = map[string]int{}
		}
		if _, twice := c.queueCaps[name]; twice {
			return fmt.Errorf("queue %q: its concurrency is given twice: keep one", name)
		}
		c.queueCaps[name] = n
		return queue.CheckName("queue", name)
	})
}

// Cap is how many jobs of the task run at once, over all processes: at least 1.
// The others wait.
func Cap(n int) TaskOption {
	return taskOption{"concurrency", func(c *taskConfig) error {
		if n < 1 {
			return fmt.Errorf("concurrency %d: use 1 or more", n)
		}
		c.cap = n
		return nil
	}}
}

// Elsewhere names tasks that other processes run, so that limits may cover
// them here.
func Elsewhere(names ...string) Option {
	return optionFunc(func(c *config) error {
		c.elsewhere = append(c.elsewhere, names...)
		errs := make([]error, 0, len(names))
		for _, name := range names {
			errs = append(errs, queue.CheckName("task", name))
		}
		return about("elsewhere", errs...)
	})
}

// QueueLimit limits how often jobs of a queue start, whatever their task.
func QueueLimit(name, rate string, opts ...LimitOption) Option {
	return optionFunc(func(c *config) error {
		return c.addLimit(limitConfig{name: queuePrefix + name, queues: []string{name}}, rate, opts)
	})
}

// SharedLimit is one budget for the tasks and queues that its options name. A
// job that it covers twice takes one token.
func SharedLimit(name, rate string, opts ...LimitOption) Option {
	return optionFunc(func(c *config) error {
		if err := checkSharedName(name); err != nil {
			return err
		}
		return c.addLimit(limitConfig{name: name}, rate, opts)
	})
}

func checkSharedName(name string) error {
	for _, reserved := range []string{taskPrefix, elementPrefix, queuePrefix} {
		if strings.HasPrefix(name, reserved) {
			return fmt.Errorf("limit %q: names that begin with %q are Weir's own: choose another, as in \"stripe\"", name, reserved)
		}
	}
	return nil
}

// Limits are named in the database by what they belong to.
const (
	taskPrefix    = "task:"
	elementPrefix = "task@"
	queuePrefix   = "queue:"
)

func (c *config) addLimit(l limitConfig, rate string, opts []LimitOption) error {
	l.rate = rateConfig{text: rate, set: true, mode: DeferSecond}
	errs := applied(opts, func(o LimitOption) error { return o.applyLimit(&l) })
	if _, err := l.rate.limit(); err != nil {
		errs = append(errs, err)
	}
	c.limits = append(c.limits, l)
	return about(describeLimit(l.name), errs...)
}

// faults are errors that are told together, each on a line of its own.
type faults []error

func (f faults) Error() string   { return errors.Join(f...).Error() }
func (f faults) Unwrap() []error { return f }

// together makes one error of those that there are; nil where there is none.
func together(errs ...error) error {
	var out faults
	for _, err := range errs {
		if many := faults(nil); errors.As(err, &many) {
			out = append(out, many...)
		} else if err != nil {
			out = append(out, err)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// about puts a place before each of several faults.
func about(place string, errs ...error) error {
	var out faults
	_ = errors.As(together(errs...), &out)
	for i, err := range out {
		out[i] = fmt.Errorf("%s: %w", place, err)
	}
	return together(out...)
}

// describeLimit names a limit for a person.
func describeLimit(name string) string {
	if q, ok := strings.CutPrefix(name, queuePrefix); ok {
		return fmt.Sprintf("queue %q", q)
	}
	return fmt.Sprintf("limit %q", name)
}

// Tasks are covered by a shared limit, in whatever queue they are.
func Tasks(names ...string) LimitOption {
	return limitOptionFunc(func(l *limitConfig) error {
		l.tasks = append(l.tasks, names...)
		return nil
	})
}

// Queues are covered by a shared limit, whatever runs in them.
func Queues(names ...string) LimitOption {
	return limitOptionFunc(func(l *limitConfig) error {
		l.queues = append(l.queues, names...)
		return nil
	})
}

type burstOption int64

func (b burstOption) applyTask(c *taskConfig) error {
	c.rate.burst, c.rate.burstSet = int64(b), true
	return nil
}

func (b burstOption) option() string { return "burst" }

func (b burstOption) applyLimit(c *limitConfig) error {
	c.rate.burst, c.rate.burstSet = int64(b), true
	return nil
}

// Burst is how many starts may come at once: 1 to 1,000,000,000, default the
// rate's count.
func Burst(n int64) BothOption { return burstOption(n) }

// DeferMode says for how long a limit that ran dry is not asked again.
type DeferMode string

// For how long a limit that ran dry is held.
const (
	// DeferSecond: for a second, or until its bucket is full. The default.
	DeferSecond DeferMode = "1s"
	// UntilToken: until its next token, which paces starts evenly.
	UntilToken DeferMode = "until_token"
)

func (m DeferMode) check() error {
	if m != DeferSecond && m != UntilToken {
		return fmt.Errorf("defer %q: use %q or leave it out", string(m), UntilToken)
	}
	return nil
}

func (m DeferMode) applyTask(c *taskConfig) error {
	c.rate.mode, c.rate.modeSet = m, true
	return m.check()
}

func (m DeferMode) option() string { return "defer" }

func (m DeferMode) applyLimit(c *limitConfig) error {
	c.rate.mode = m
	return m.check()
}

// Defer says for how long a limit that ran dry is not asked again.
func Defer(mode DeferMode) BothOption { return mode }

// RateLimit limits how often the task starts, in whatever queue its jobs are,
// over all processes: "100/m", "10/s", "5/30s", "3600/h".
func RateLimit(rate string) TaskOption {
	return taskOption{"rate_limit", func(c *taskConfig) error {
		c.rate.text, c.rate.set = rate, true
		return nil
	}}
}

// Rate is one element of a list of rates.
type Rate struct {
	Rate  string // as in RateLimit
	Burst int64  // 1 to 1,000,000,000; 0: none, the count is the capacity
}

// RateLimits limits a task by several rates at once, whose periods differ: a
// start takes a token from each, as in 5/s and 100/m. Each has a bucket of its
// own, named by its period.
func RateLimits(list ...Rate) TaskOption {
	return taskOption{"rate_limit", func(c *taskConfig) error {
		if len(list) == 0 {
			return errors.New(`rate_limit: the list is empty: name at least one rate, as in "100/m"`)
		}
		c.list = list
		return nil
	}}
}

// Excess says what happens to a job for which a limit has no token.
type Excess string

// What may happen to excess work.
const (
	// Postpone puts the job off by a second; it keeps its place. The default.
	Postpone Excess = "defer"
	// Drop dead-letters a job that was never started at once, with a reason
	// that begins with "rate_limit: ".
	Drop Excess = "drop"
)

// OnExcess says what happens to a job of the task for which a limit, its own
// or any other that covers it, has no token.
func OnExcess(what Excess) TaskOption {
	return taskOption{"on_excess", func(c *taskConfig) error {
		if what != Postpone && what != Drop {
			return fmt.Errorf("on_excess %q: use %q or %q", string(what), Postpone, Drop)
		}
		c.excess = what
		return nil
	}}
}

// Queue is where the task's jobs wait if they do not say: default "default".
func Queue(name string) TaskOption {
	return taskOption{"queue", func(c *taskConfig) error {
		c.queue = name
		return nil
	}}
}

// MaxRetries is how often a failed job is tried again: 0 to 1,000,000, default
// 3 (at most four starts).
func MaxRetries(n int) TaskOption {
	return taskOption{"max_retries", func(c *taskConfig) error {
		if n < 0 || n > 1_000_000 {
			return fmt.Errorf("max_retries %d: use 0 to 1000000", n)
		}
		c.maxRetries = n
		return nil
	}}
}

// Timeout bounds one attempt: its context ends then, and the attempt failed.
// Default 0: none.
func Timeout(d time.Duration) TaskOption {
	return taskOption{"timeout", func(c *taskConfig) error {
		if d < 0 {
			return fmt.Errorf("timeout %v: use 0 (none) or more", d)
		}
		c.timeout = d
		return nil
	}}
}

// Backoff is the time between a failed attempt and the next: Base after the
// first failure, Factor times as long after each further one, at most Max.
type Backoff struct {
	Base   time.Duration // 1 ms to 366 days; 0: 1 s
	Factor float64       // at least 1; 0: 2
	Max    time.Duration // at least Base; 0: 1 h, or Base where that is longer
	Jitter float64       // 0 to 1: up to which share of it a delay is lengthened by chance
}

// withDefaults fills in what is zero.
func (b Backoff) withDefaults() Backoff {
	if b.Base == 0 {
		b.Base = time.Second
	}
	if b.Factor == 0 {
		b.Factor = 2
	}
	if b.Max == 0 {
		b.Max = max(time.Hour, b.Base)
	}
	return b
}

func (b Backoff) applyTask(c *taskConfig) error {
	b = b.withDefaults()
	c.backoff = b
	var errs []error
	if b.Base < time.Millisecond || b.Base > 366*24*time.Hour {
		errs = append(errs, fmt.Errorf("base %v: use 1ms to 366 days", b.Base))
	}
	if math.IsNaN(b.Factor) || math.IsInf(b.Factor, 0) || b.Factor < 1 {
		errs = append(errs, fmt.Errorf("factor %v: use 1 or more, as in 2.0", b.Factor))
	}
	if b.Max < b.Base || b.Max > 366*24*time.Hour {
		errs = append(errs, fmt.Errorf("max %v: use the base (%v) or more, up to 366 days", b.Max, b.Base))
	}
	if !(b.Jitter >= 0 && b.Jitter <= 1) {
		errs = append(errs, fmt.Errorf("jitter %v: use 0 to 1", b.Jitter))
	}
	return about("retry_backoff", errs...)
}

func (b Backoff) option() string { return "retry_backoff" }

// Delay is the time between the failure of an attempt, counted from 1, and
// the next. chance, 0 to 1, is what the jitter makes of it.
func (b Backoff) Delay(attempt int, chance float64) time.Duration {
	b = b.withDefaults()
	// In floating point a great exponent is +Inf, which the ceiling bounds. It
	// leaves room for the jitter, so that waits at the ceiling differ too.
	d := float64(b.Base) * math.Pow(b.Factor, float64(max(attempt, 1)-1))
	d = min(d, max(float64(b.Max)/(1+b.Jitter), float64(b.Base)))
	d *= 1 + b.Jitter*chance
	return min(time.Duration(d), b.Max)
}
