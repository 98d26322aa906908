package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// Scheduler runs the jobs of registered tasks. Make one with New, register
// tasks, then Run it. Any number of them, in any number of processes, may run
// on one database: limits hold over all of them.
type Scheduler struct {
	config  config
	store   *store.Store
	clock   clock.Clock
	log     *slog.Logger
	prepare func(queue.NewJob) (store.NewJob, error)

	tasks     map[string]*task
	schedules map[string]*schedule
	limits    []*limit  // by name
	gates     []*gate   // by name
	breakers  bool      // some gate has one
	unjudged  []outcome // that breakers are still to be told of
	counters  counters
	lane      *lane // under the fixed-window strategy
	process   store.Process

	mu      sync.Mutex // guards started and stopped
	started bool
	serving bool

	// What follows belongs to the goroutine that runs the loop.
	lines    map[store.Line]*line
	running  int                // jobs started here that have not reported
	latest   map[int64]*heldJob // the last start of each job here whose end is not written
	results  []store.Result     // reported, not yet written
	writing  context.CancelFunc // of what is written beside the loop; nil: nothing is
	besideAt time.Time          // not before
	dueAt    time.Time          // the next scheduled job, or the zero time
	leaseAt  time.Time          // the next lease to run out, or the zero time
	expiryAt time.Time          // the next job to expire, or the zero time
	surveyAt time.Time          // when to look around again
	ticks    ticks
	aside    bool // the last look left a flood out
	gaveWay  bool // the last look at a flood left it out for what had just come
	shedLog  shedLog
	trouble  trouble
	spell    atomic.Pointer[store.Spell] // the last trouble, for those who ask how this process does
	doubtful doubtful
	blocked  blocked
	pulse    pulse
	paused   map[string]struct{} // queues, as of the last survey

	joinAt      time.Time     // when this process is to say again that it runs jobs
	forgetAt    time.Time     // when it forgets others that are gone
	patience    time.Duration // with a database that does not answer, in a stop
	besideLeast int           // results that are worth to be written beside the loop
	quit        func(error)   // ends the run, and is what it returns

	mail        mail
	renewNow    chan struct{} // holds one ring: somebody's job may be lost
	sayNow      chan struct{} // holds one ring: trouble with the database is over
	held        heldJobs
	ahead       ahead
	finished    recently
	renewals    rarely // told to have failed; belongs to the goroutine that renews
	subscribers subscribers
	work        sync.WaitGroup // handlers, and what is written beside the loop
}

// New makes a scheduler for the database that client has open.
func New(client *queue.Client, opts ...Option) (*Scheduler, error) {
	if client == nil {
		return nil, errors.New("scheduler: the client is nil: open one with queue.Open")
	}
	s := &Scheduler{
		config: config{
			concurrency: DefaultConcurrency, lease: DefaultLease, grace: DefaultShutdownGrace,
			retention: DefaultRetention, logger: slog.Default(), random: randomNumber,
			strategy: TokenBucket,
		},
		store: client.Store(), prepare: client.Prepare, process: newProcess(),
		tasks: map[string]*task{}, schedules: map[string]*schedule{},
		lines: map[store.Line]*line{}, latest: map[int64]*heldJob{}, patience: abandonAfter,
		besideLeast: besideLeast,
	}
	s.clock = s.store.Clock()
	s.mail.init()
	s.renewNow, s.sayNow = make(chan struct{}, 1), make(chan struct{}, 1)
	s.held.jobs = map[store.Held]*heldJob{}
	errs := applied(opts, func(o Option) error { return o.apply(&s.config) })
	if err := about("scheduler", errs...); err != nil {
		return nil, err
	}
	s.log = s.config.logger
	if s.config.strategy == FixedWindow {
		s.lane = &lane{interval: cmp.Or(s.config.refresh, DefaultRefreshInterval)}
	}
	return s, nil
}

func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

var errNotMade = errors.New("the scheduler is none: make one with scheduler.New")

// ErrRunning is returned by Register and Run once the scheduler has been run.
var ErrRunning = errors.New("the scheduler was started already")

func (s *Scheduler) register(t *task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return fmt.Errorf("task %q: %w: register tasks before Run", t.name, ErrRunning)
	}
	if _, twice := s.tasks[t.name]; twice {
		return fmt.Errorf("task %q is registered twice: keep one", t.name)
	}
	s.tasks[t.name] = t
	return nil
}

// Describe lists the registered tasks by name.
func (s *Scheduler) Describe() []TaskInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]TaskInfo, 0, len(s.tasks))
	for _, t := range s.tasks {
		out = append(out, t.info())
	}
	slices.SortFunc(out, func(a, b TaskInfo) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Validate reports what is wrong with tasks, limits and schedules together, without
// asking the database. Run does it first.
func (s *Scheduler) Validate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.compileLimits()
	return together(err, s.checkSchedules())
}

// Run runs jobs until ctx ends, then stops starting, lets handlers finish
// within the grace, cancels the contexts of those that are left, and returns
// when everything is written. It returns an error where it could not start, as
// without a task or a schedule, or where handlers did not return after they were
// cancelled. A scheduler runs once.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.idle() {
		return errors.New("scheduler: no task is registered, so nothing would ever run: call scheduler.Register before Run")
	}
	if err := s.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	defer s.leave(ctx)
	return s.serve(ctx, s.loop)
}

// Drain runs what may start at this moment, and what that leads to, until
// nothing may start without time passing; then it returns. It serves tests and
// one-off programs: with queuetest's clock nothing happens between two calls.
// It may be called again and again, but not beside Run.
func (s *Scheduler) Drain(ctx context.Context) error {
	if err := s.begin(ctx); err != nil && !errors.Is(err, ErrRunning) {
		return err
	}
	if err := s.join(ctx); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return s.serve(ctx, func(ctx context.Context) error {
		if err := s.retryDead(ctx); err != nil {
			return err
		}
		s.surveyAt = time.Time{}
		return s.drain(ctx)
	})
}

// idle tells that there is nothing to run and nothing to enqueue.
func (s *Scheduler) idle() bool {
	if s == nil || s.store == nil {
		return false // which begin tells
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)+len(s.schedules) == 0
}

// begin checks and registers, once.
func (s *Scheduler) begin(ctx context.Context) error {
	if s == nil || s.store == nil {
		return errNotMade
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return ErrRunning
	}
	limits, err := s.compileLimits()
	if err := together(err, s.checkSchedules()); err != nil {
		return about("scheduler", err)
	}
	rows := make([]store.Task, 0, len(s.tasks))
	for _, t := range s.tasks {
		row, err := t.registration()
		if err != nil {
			return fmt.Errorf("scheduler: %w", err)
		}
		rows = append(rows, row)
	}
	s.limits, s.gates = limits, s.compileGates()
	s.breakers = slices.ContainsFunc(s.gates, func(g *gate) bool { return g.breaker.Failures > 0 })
	if err := s.join(ctx); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	if err := s.declare(ctx, rows); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	if kind := s.store.Remote(); kind != "" {
		s.log.Warn("database_on_network", "filesystem", kind)
	}
	if err := s.tellUndeclared(ctx); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	if err := s.declareSchedules(ctx); err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	s.started = true
	return nil
}

// declare stores what this process runs and which limits it enforces.
func (s *Scheduler) declare(ctx context.Context, tasks []store.Task) error {
	if s.lane == nil {
		return s.store.Register(ctx, tasks, declared(s.limits))
	}
	if err := s.store.Register(ctx, tasks, nil); err != nil {
		return err
	}
	return s.store.DeclareQuotas(ctx, quotas(s.limits))
}

func declared(limits []*limit) []store.Declared {
	out := make([]store.Declared, len(limits))
	for i, l := range limits {
		out[i] = l.Declared
	}
	return out
}

// serve runs a loop with what it needs beside it: news of this process's
// enqueues, and the renewal of leases. It waits for all of it.
func (s *Scheduler) serve(ctx context.Context, loop func(context.Context) error) error {
	if !s.setServing(true) {
		return ErrRunning
	}
	defer s.setServing(false)
	defer s.store.OnWake(s.news)()
	ctx, quit := context.WithCancelCause(ctx)
	defer quit(nil)
	s.quit = func(err error) { quit(quitError{err}) }
	s.ahead.begin(ctx.Done())
	var beside sync.WaitGroup
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { s.renewLeases(renewing) })
	beside.Go(func() { s.keep(renewing) })
	beside.Go(func() { s.keepRetrying(renewing) })
	beside.Go(func() { s.store.Watch(renewing, s.heard) })
	beside.Go(func() { s.stayJoined(renewing) })
	beside.Go(func() { s.keepWAL(renewing) })
	err := loop(ctx)
	stop()
	beside.Wait()
	if q, ok := errors.AsType[quitError](context.Cause(ctx)); ok {
		return fmt.Errorf("scheduler: %w", q.error)
	}
	return err
}

// setServing tells whether it changed anything.
func (s *Scheduler) setServing(serving bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed := s.serving != serving
	s.serving = serving
	return changed
}

// news passes on what somebody made ready.
func (s *Scheduler) news(w store.Wake) {
	if w.Cancelled {
		select {
		case s.renewNow <- struct{}{}:
		default:
		}
	}
	s.mail.arrive(w)
}

// quitError is why a run ends by itself.
type quitError struct{ error }
