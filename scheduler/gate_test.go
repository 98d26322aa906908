package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

var quiet = scheduler.Logger(slog.New(slog.DiscardHandler))

// open opens a client until the test ends.
func open(t *testing.T, db storetest.Database, opts ...queue.Option) *queue.Client {
	t.Helper()
	db.Prepare(t)
	client, err := queue.Open(context.WithoutCancel(t.Context()), db.DSN, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// overlap measures how many handlers run at once.
type overlap struct {
	mu           sync.Mutex
	running, top int
	total        int
}

func (o *overlap) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running++
	o.total++
	o.top = max(o.top, o.running)
}

func (o *overlap) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running--
}

func TestACapIsReachedAndNeverPassedOverTwoSchedulers(t *testing.T) {
	for name, c := range map[string]struct {
		most    int
		options []scheduler.Option
		task    []scheduler.TaskOption
	}{
		"one of a task":   {1, nil, []scheduler.TaskOption{scheduler.Cap(1)}},
		"two of a task":   {2, nil, []scheduler.TaskOption{scheduler.Cap(2)}},
		"five of a task":  {5, nil, []scheduler.TaskOption{scheduler.Cap(5)}},
		"one of a queue":  {1, []scheduler.Option{scheduler.QueueCap("q", 1)}, nil},
		"two of a queue":  {2, []scheduler.Option{scheduler.QueueCap("q", 2)}, nil},
		"five of a queue": {5, []scheduler.Option{scheduler.QueueCap("q", 5)}, nil},
		"both, the lower": {2, []scheduler.Option{scheduler.QueueCap("q", 2)}, []scheduler.TaskOption{scheduler.Cap(4)}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				const jobs = 60
				ctx, stop := context.WithCancel(t.Context())
				var o overlap
				handler := func(context.Context, *queue.Job[string]) error {
					o.enter()
					defer o.leave()
					if o.mu.Lock(); o.total == jobs {
						defer stop()
					}
					o.mu.Unlock()
					wait, release := clock.System{}.Timer(2 * time.Millisecond)
					<-wait
					release()
					return nil
				}
				client := open(t, db)
				_, err := queue.Task[string]("a").EnqueueMany(ctx, client, make([]string, jobs), queue.Queue("q"))
				require.NoError(t, err)
				var both sync.WaitGroup
				for range 2 {
					s, err := scheduler.New(open(t, db), append([]scheduler.Option{quiet}, c.options...)...)
					require.NoError(t, err)
					require.NoError(t, scheduler.Register(s, "a", handler, c.task...))
					both.Go(func() { _ = s.Run(ctx) })
				}
				both.Wait()
				require.Equal(t, jobs, o.total)
				require.Equal(t, c.most, o.top)
			})
		})
	}
}

func TestAnOpenBreakerMakesJobsWaitAndProbesDecide(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		down := true
		r.task("a", func(*queue.Job[string]) error {
			if down {
				return errors.New("down")
			}
			return nil
		}, scheduler.RateLimit("1000/s"), scheduler.OnExcess(scheduler.Drop), scheduler.MaxRetries(0),
			scheduler.Breaker{Failures: 3, Window: time.Minute, Open: 30 * time.Second, Probes: 2}, scheduler.Cap(1))
		r.enqueue("a", numbered(100))

		r.at(0)
		require.Equal(t, 3, r.count(), "the third failure opens it")
		level := r.limit("task:a").Level

		r.at(29 * time.Second)
		require.Equal(t, 3, r.count())
		require.Equal(t, level, r.limit("task:a").Level, "waiting spends no token")

		r.at(30 * time.Second)
		require.Equal(t, 4, r.count(), "a probe fails and opens it again")

		down = false
		r.at(60 * time.Second)
		require.Equal(t, 100, r.count(), "a probe that succeeds closes it")
		stats, err := r.dead.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []dlq.Group{{Kind: dlq.Failed, Task: "a", Reason: "down", Count: 4}}, stats.Groups, "an open breaker sheds nothing")
	})
}

// An attempt from before the breaker opened takes no probe's place, and its
// end decides nothing.
func TestOnlyProbesCountAsProbes(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		begun, answers := make(chan string, 10), map[string]chan error{}
		for _, job := range []string{"fails", "goes on", "1", "2", "3", "4", "5"} {
			answers[job] = make(chan error)
		}
		r.task("a", func(job *queue.Job[string]) error {
			begun <- job.Args
			return <-answers[job.Args]
		}, scheduler.MaxRetries(0), scheduler.Breaker{Failures: 1, Window: time.Minute, Open: 30 * time.Second, Probes: 2})
		old := r.enqueue("a", []string{"fails", "goes on"})
		stop, done := r.serve()
		<-begun
		<-begun
		answers["fails"] <- errors.New("down") // and opens it
		require.Eventually(t, func() bool { return len(r.letters()) == 1 }, time.Minute, time.Millisecond)
		r.enqueue("a", []string{"1", "2", "3", "4", "5"})
		r.pass(time.Second, r.faults.Count(renewal), func() bool { return len(begun) == 2 })
		require.ElementsMatch(t, []string{"1", "2"}, []string{<-begun, <-begun})
		require.GreaterOrEqual(t, r.clock.Now().Sub(epoch), 30*time.Second)
		r.clock.Advance(10 * time.Second)
		answers["goes on"] <- nil
		require.Eventually(t, func() bool { return r.get(old[1]).State == queue.StateCompleted }, time.Minute, time.Millisecond)
		looks := r.s.Looks()
		r.enqueue("a", []string{"5"})
		require.Eventually(t, func() bool { r.clock.Advance(100 * time.Millisecond); return r.s.Looks() > looks }, time.Minute, time.Millisecond)
		stop()
		answers["1"] <- nil
		answers["2"] <- nil
		require.NoError(t, <-done)
		require.Empty(t, begun, "no third probe")
	})
}

// A killed process frees its slots when its leases run out, and not before.
func TestTheSlotsOfAProcessThatVanishedAreFreeAfterItsLeases(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.Cap(2))
		r.enqueue("a", []string{"1", "2"})
		require.Len(t, r.claim("a"), 2)
		r.enqueue("a", []string{"3", "4"})
		r.at(0)
		r.at(30*time.Second - time.Microsecond)
		require.Zero(t, r.count())
		r.at(30 * time.Second)
		require.ElementsMatch(t, []string{"1", "2", "3", "4"}, r.started(30*time.Second))
	})
}

// Excess work that a full cap keeps back waits, whatever its task does with
// excess: only a limit sheds, and only what could run.
func TestAFullCapMakesDropWorkWait(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s := r.stuck("a", scheduler.Cap(1), scheduler.RateLimit("3/h"), scheduler.OnExcess(scheduler.Drop))
		ids := r.enqueue("a", numbered(8))
		drained := r.aside()
		for n := range 3 {
			require.Equal(t, ids[n], (<-s.begun).ID)
			other := r.beside()
			other.stuck("a", scheduler.Cap(1), scheduler.RateLimit("3/h"), scheduler.OnExcess(scheduler.Drop))
			other.drain() // sees the cap as well
			require.Empty(t, r.letters())
			for _, id := range ids[n+1:] {
				r.wants(id, queue.StateWaiting, epoch, 0)
			}
			require.Equal(t, int64(2-n)*bucket.Token, r.limit("task:a").Level, "no token is spent on who waits")
			s.answer <- nil
		}
		require.NoError(t, <-drained)
		require.Len(t, r.letters(), 5, "the slot is free, and the limit has nothing left")
		r.conserved(8)
	})
}

// Who waits behind a full cap is not asked for, whatever else ends beside it.
func TestAFullCapCostsOthersOfItsQueueNothing(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a", scheduler.Cap(1))
		r.task("other", nil)
		r.enqueue("a", numbered(2))
		drained := r.aside()
		<-s.begun
		completed := func(n int) func() bool {
			return func() bool { return r.s.Stats().Completed == int64(n) }
		}
		r.enqueue("other", numbered(1))
		require.Eventually(t, completed(1), time.Minute, time.Millisecond)
		r.enqueue("other", numbered(1))
		require.Eventually(t, completed(2), time.Minute, time.Millisecond)
		asked := r.faults.Count(`weir_gates`)
		for n := range 5 {
			r.enqueue("other", numbered(1))
			require.Eventually(t, completed(3+n), time.Minute, time.Millisecond)
		}
		require.Zero(t, asked.Statements())
		s.answer <- nil
		<-s.begun
		s.answer <- nil
		require.NoError(t, <-drained)
	})
}

// However many processes look when a breaker is half open, and however many
// jobs wait: the probes are as many as there may be over all of them.
func TestAHalfOpenBreakerLetsItsProbesThroughOverAllProcesses(t *testing.T) {
	for _, excess := range []scheduler.Excess{scheduler.Postpone, scheduler.Drop} {
		t.Run(string(excess), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				const jobs = 120
				opts := []scheduler.TaskOption{
					scheduler.RateLimit("1000/d"), scheduler.OnExcess(excess), scheduler.MaxRetries(0),
					scheduler.Breaker{Failures: 3, Window: time.Minute, Open: 30 * time.Second, Probes: 2},
				}
				r.enqueue("a", make([]string, jobs))
				r.task("a", always, opts...)
				r.drain()
				require.Equal(t, 3, r.count(), "the third failure opens it")

				begun, answer, ended := make(chan struct{}, jobs), make(chan error), make(chan error, 9)
				procs := []*rig{r.beside(), r.beside(), r.beside()}
				for _, p := range procs {
					p.task("a", func(*queue.Job[string]) error {
						begun <- struct{}{}
						return <-answer
					}, opts...)
				}
				look := func() {
					for _, p := range procs {
						go func() { ended <- p.s.Drain(context.Background()) }()
					}
				}
				r.clock.Advance(29 * time.Second)
				look()
				for range procs {
					require.NoError(t, <-ended)
				}
				waiting := r.jobs(queue.StateWaiting)
				require.Len(t, waiting, jobs-3)
				for _, j := range waiting {
					require.Zero(t, j.Attempt)
					require.Zero(t, j.Deferrals)
				}
				require.Equal(t, (1000-3)*bucket.Token, r.limit("task:a").Level)

				// Half open: two begin, and no third.
				r.clock.Advance(time.Second)
				look()
				<-begun
				<-begun
				require.NoError(t, <-ended, "a process that got no probe")
				require.Len(t, r.jobs(queue.StateRunning), 2)

				// One fails, so it is open again, whatever the other one says.
				answer <- errAlways
				require.Eventually(t, func() bool { return len(r.letters()) == 4 }, time.Minute, time.Millisecond)
				answer <- nil
				require.NoError(t, <-ended)
				require.NoError(t, <-ended)
				require.Empty(t, begun)
				require.Len(t, r.jobs(queue.StateCompleted), 1)

				// The next ones go well, and the backlog is let through.
				r.clock.Advance(30 * time.Second)
				look()
				<-begun
				<-begun
				require.Len(t, r.jobs(queue.StateRunning), 2)
				close(answer)
				for range procs {
					require.NoError(t, <-ended)
				}
				require.Len(t, r.jobs(queue.StateCompleted), jobs-4)
				require.Len(t, r.letters(), 4, "nothing was shed")
			}, scheduler.Concurrency(1))
		})
	}
}

// A breaker is asked before the limits: what it keeps back waits although the
// limit has no token left for it.
func TestAnOpenBreakerShedsNothingWhereTheLimitIsDry(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", always, scheduler.RateLimit("3/d"), scheduler.OnExcess(scheduler.Drop), scheduler.MaxRetries(0),
			scheduler.Breaker{Failures: 3, Window: time.Minute, Open: 30 * time.Second})
		r.enqueue("a", numbered(10))
		r.at(0)
		r.at(29 * time.Second)
		require.Zero(t, r.tokens("task:a"))
		require.Len(t, r.jobs(queue.StateWaiting), 7)
		r.at(30 * time.Second) // half open: one could run, and the limit refuses
		require.Empty(t, r.jobs(queue.StateWaiting))
		require.EqualValues(t, 7, r.limit("task:a").Shed)
	}, scheduler.Concurrency(1))
}

// A probe that never reports keeps the others back until its lease is over.
func TestAProbeThatVanishesFreesItsPlace(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", always, scheduler.MaxRetries(0), scheduler.Breaker{Failures: 3, Window: time.Minute, Open: 30 * time.Second})
		r.enqueue("a", numbered(4))
		r.at(0)
		require.Equal(t, 3, r.count())
		r.clock.Advance(30 * time.Second)
		require.Len(t, r.claim("a"), 1, "the probe of a process that is then killed")
		r.enqueue("a", numbered(5), queue.Priority(1))
		r.at(59 * time.Second)
		require.Equal(t, 3, r.count())
		r.at(60 * time.Second)
		require.Equal(t, 4, r.count(), "a probe, which fails")
	}, scheduler.Concurrency(1))
}

// A result that is written again, because the reply to its commit was lost, is
// one failure: two of them leave a breaker of three closed.
func TestABreakerIsToldOfAnAttemptOnce(t *testing.T) {
	for name, statement := range map[string]string{"a dead letter": dead, "a retry": backOff} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				opts := []scheduler.TaskOption{scheduler.Breaker{Failures: 3, Window: time.Minute, Open: 30 * time.Second}}
				if statement == dead {
					opts = append(opts, scheduler.MaxRetries(0))
				}
				r.task("a", always, opts...)
				for range 2 {
					r.enqueue("a", numbered(1))
					r.faults.LoseReply(statement, 1)
					require.ErrorIs(t, r.unless(), queue.ErrOutcomeUnknown)
				}
				require.Equal(t, 2, r.count())
				require.Equal(t, []int64{2, 0}, r.breaker("a"))
				r.enqueue("a", numbered(2))
				r.drain()
				require.Equal(t, 3, r.count())
				require.Equal(t, []int64{0, epoch.Add(30 * time.Second).UnixMicro()}, r.breaker("a"))
			}, scheduler.Concurrency(1))
		})
	}
}

// Somebody has the breaker's row locked when an attempt ends that fails: the
// breaker is told when the row is free.
func TestABreakerWhoseRowIsLockedIsToldLater(t *testing.T) {
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch), scheduler.Concurrency(1))
	tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	r.task("a", func(*queue.Job[string]) error {
		if r.count() == 1 {
			_, err := tx.ExecContext(t.Context(), `select 1 from weir_gates where name = 'task:a' for update`)
			require.NoError(t, err)
		}
		return errAlways
	}, scheduler.MaxRetries(0), scheduler.Breaker{Failures: 2, Window: time.Minute, Open: 30 * time.Second})
	r.enqueue("a", numbered(5))
	require.ErrorIs(t, r.s.Drain(t.Context()), store.ErrLocked)
	r.at(100 * time.Millisecond)
	require.Len(t, r.letters(), 1, "the result is written, the breaker is not told")
	require.Equal(t, 1, r.count())

	require.NoError(t, tx.Rollback())
	r.at(time.Second)
	require.Equal(t, 2, r.count(), "the second failure opens it")
	require.Equal(t, []int64{0, epoch.Add(31 * time.Second).UnixMicro()}, r.breaker("a"))
}

// breaker is a task's count of failures, and until when it is open, in the database.
func (r *rig) breaker(task string) []int64 {
	r.t.Helper()
	var failures, until int64
	row := r.db.SQL(r.t).QueryRowContext(r.t.Context(), `select failures, open_until from weir_gates where name = 'task:`+task+`'`)
	require.NoError(r.t, row.Scan(&failures, &until))
	return []int64{failures, until}
}
