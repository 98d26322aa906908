package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// The statements that faults are put before.
const (
	renewal = `set lease_until = `
	grant   = `update \S*weir_jobs set state = 1`
)

func TestAJobWhoseProcessVanishedComesBackAtItsOldPlace(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"))
		r.drain()
		first := r.enqueue("a", []string{"first"})[0]
		r.claim("a") // by hand: with no token, and a lease of 30 s
		r.at(time.Second)
		r.enqueue("a", []string{"second", "third"})
		r.drain()
		require.Equal(t, []string{"second"}, r.started(time.Second))

		r.at(30*time.Second - time.Microsecond)
		require.Equal(t, queue.StateRunning, r.get(first).State)
		r.at(30 * time.Second)
		job := r.get(first)
		require.Equal(t, queue.StateWaiting, job.State)
		require.Equal(t, epoch, job.FirstDueAt.UTC())
		require.Equal(t, 1, job.Attempt)
		require.Equal(t, "lease lost", job.LastError)

		r.at(time.Minute)
		r.at(61 * time.Second)
		require.Equal(t, []start{{time.Second, "a", "second", 1}, {61 * time.Second, "a", "first", 2}}, r.ledger())
		require.Equal(t, queue.StateCompleted, r.get(first).State)
	})
}

func TestOutOfStartsALostLeaseIsADeadLetter(t *testing.T) {
	for _, c := range []struct {
		name    string
		task    int
		job     []queue.EnqueueOption
		handOut int
	}{
		{"none by the task", 0, nil, 1},
		{"two by the task", 2, nil, 3},
		{"one by the job", 9, []queue.EnqueueOption{queue.MaxRetries(1)}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.MaxRetries(c.task))
				r.task("other", nil)
				r.drain()
				id := r.enqueue("a", []string{"x"}, c.job...)[0]
				var log bytes.Buffer
				other := r.scheduler(scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil)))) // serves nothing, but its sweep is everybody's
				require.NoError(t, scheduler.Register(other, "other", func(context.Context, *queue.Job[string]) error { return nil }))
				for n := range c.handOut {
					job := r.claim("a")
					require.Len(t, job, 1)
					require.Equal(t, n+1, job[0].Attempt)
					r.clock.Advance(30 * time.Second)
					require.NoError(t, other.Drain(t.Context()))
				}
				e := r.letter(id)
				require.Equal(t, dlq.Failed, e.Kind)
				require.Equal(t, "lease lost", e.Reason)
				require.Contains(t, log.String(), `msg=job_dead job_id=`+id+` task=a reason="lease lost"`)
				require.Equal(t, c.handOut, e.Attempts)
				require.Len(t, e.Errors, c.handOut)
				require.Zero(t, r.count())
			})
		})
	}
}

// stuck registers a task whose handler returns what it is told to, when it is
// told, and shows the cause with which its context ended.
type stuck struct {
	begun  chan *queue.Job[string]
	cause  chan error
	answer chan error
}

func (r *rig) stuck(task string, opts ...scheduler.TaskOption) *stuck {
	r.t.Helper()
	s := &stuck{make(chan *queue.Job[string], 100), make(chan error, 100), make(chan error)}
	require.NoError(r.t, scheduler.Register(r.s, queue.Task[string](task), func(ctx context.Context, job *queue.Job[string]) error {
		s.begun <- job
		stop := context.AfterFunc(ctx, func() { s.cause <- context.Cause(ctx) })
		defer stop()
		select {
		case err := <-s.answer:
			return err
		case <-r.t.Context().Done(): // the test has failed
			return nil
		}
	}, opts...))
	return s
}

// aside drains in the background: the result comes when nothing runs any more.
func (r *rig) aside() <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.s.Drain(context.Background()) }()
	return done
}

// until lets time pass, in steps, until something arrives.
func until[T any](r *rig, step time.Duration, ch <-chan T) (got T) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		select {
		case got = <-ch:
			return true
		default:
			r.clock.Advance(step)
			return false
		}
	}, time.Minute, 2*time.Millisecond)
	return got
}

// pass moves the clock on in steps until it is so. After each it waits for the
// process to make one of the statements, for a moment: time that runs ahead of a
// process takes its leases away.
func (r *rig) pass(step time.Duration, statements *storetest.Count, so func() bool) {
	r.t.Helper()
	seen, waits := int64(-1), 0
	require.Eventually(r.t, func() bool {
		if n := statements.Statements(); n != seen || waits == 20 {
			seen, waits = n, 0
			r.clock.Advance(step)
		}
		waits++
		return so()
	}, time.Minute, time.Millisecond)
}

func TestALateResultChangesNothingAndIsCounted(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		other := r.beside()
		s := r.stuck("a")
		other.task("a", func(*queue.Job[string]) error { return errAlways }, scheduler.MaxRetries(1))
		id := r.enqueue("a", []string{"x"})[0]
		drained := r.aside()
		require.Equal(t, 1, (<-s.begun).Attempt)

		// It cannot renew, and knows when its lease is over.
		r.faults.FailAll(renewal)
		require.ErrorIs(t, until(r, time.Second, s.cause), scheduler.ErrLeaseLost)
		other.drain()
		require.Equal(t, 1, other.count(), "one more start for a lost lease")
		require.Equal(t, 2, other.ledger()[0].attempt)
		before := r.letter(id)
		require.Equal(t, "it never works", before.Reason)

		s.answer <- nil
		require.NoError(t, <-drained)
		require.Equal(t, before, r.letter(id), "the dead letter follows the second run")
		require.EqualValues(t, 1, r.s.Stats().Refused)
		require.Zero(t, r.s.Stats().Completed)
		r.conserved(1)
	})
}

// The same where both runs are in one process.
func TestBothRunsOfAJobMayBeInOneProcess(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a")
		r.task("wake", nil)
		id := r.enqueue("a", []string{"x"})[0]
		drained := r.aside()
		require.Equal(t, 1, (<-s.begun).Attempt)
		r.faults.FailAll(renewal)
		require.ErrorIs(t, until(r, time.Second, s.cause), scheduler.ErrLeaseLost)
		r.enqueue("wake", []string{"look around"})
		require.Equal(t, 2, (<-s.begun).Attempt)
		s.answer <- nil
		s.answer <- nil
		require.NoError(t, <-drained)
		job := r.get(id)
		require.Equal(t, queue.StateCompleted, job.State)
		require.Equal(t, 2, job.Attempt)
		require.EqualValues(t, 1, r.s.Stats().Refused)
		require.EqualValues(t, 2, r.s.Stats().Completed, "the second run, and the one that woke it")
	})
}

// The late result comes together with one that counts and has the same fencing
// token as the second run.
func TestALateResultIsNotTakenForTheSecondRuns(t *testing.T) {
	for _, c := range []struct {
		name       string
		late       error
		second     error
		state      queue.State
		retried    int64
		atOnce     bool // the second run ends in the same batch
		completed  int64
		wantErrors int
	}{
		{name: "while it runs", second: errAlways, state: queue.StateScheduled, retried: 1, completed: 1 + 2, wantErrors: 2},
		{name: "as it fails", second: errAlways, atOnce: true, state: queue.StateScheduled, retried: 1, completed: 1 + 2, wantErrors: 2},
		{name: "as it succeeds", late: errAlways, atOnce: true, state: queue.StateCompleted, completed: 1 + 2 + 1, wantErrors: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				begun, lost := make(chan int), make(chan error, 9)
				answers := map[int]chan error{1: make(chan error), 2: make(chan error)}
				require.NoError(t, scheduler.Register(r.s, "a", func(ctx context.Context, job *queue.Job[string]) error {
					begun <- job.Attempt
					stop := context.AfterFunc(ctx, func() { lost <- context.Cause(ctx) })
					defer stop()
					select {
					case err := <-answers[job.Attempt]:
						return err
					case <-t.Context().Done(): // the test has failed
						return nil
					}
				}))
				y := r.stuck("y")
				r.task("wake", nil)
				// Both leases run out at the same time, so both jobs come back
				// into line together.
				r.enqueue("y", []string{"y"})
				r.claim("y")
				id := r.enqueue("a", []string{"x"})[0]
				r.faults.FailAll(renewal)
				drained := r.aside()
				require.Equal(t, 1, <-begun)
				require.ErrorIs(t, until(r, time.Second, lost), scheduler.ErrLeaseLost)
				r.enqueue("wake", []string{"look around"})
				require.Equal(t, 2, <-begun)
				<-y.begun
				var claims int
				require.NoError(t, r.db.SQL(t).QueryRowContext(t.Context(),
					`select count(distinct claim) from weir_jobs where state = 1 and task <> 'wake'`).Scan(&claims))
				require.Equal(t, 1, claims, "the second run and y were granted together")

				// The loop is busy while both end.
				entered, busy := make(chan struct{}), make(chan struct{})
				r.faults.Before(grant, 1, func() {
					close(entered)
					<-busy
				})
				r.enqueue("wake", []string{"be busy"})
				<-entered
				answers[1] <- c.late
				y.answer <- nil
				if c.atOnce {
					answers[2] <- c.second
				}
				require.Eventually(t, func() bool { return r.s.Delivered() >= 2 }, time.Minute, time.Millisecond)
				close(busy)
				if !c.atOnce {
					require.Eventually(t, func() bool { return r.s.Stats().Completed == 3 }, time.Minute, time.Millisecond)
					require.Equal(t, queue.StateRunning, r.get(id).State)
					answers[2] <- c.second
				}
				require.NoError(t, <-drained)
				job := r.get(id)
				require.Equal(t, c.state, job.State)
				require.Equal(t, 2, job.Attempt)
				require.Len(t, job.Errors, c.wantErrors, "the lost lease, and what the second run says")
				require.EqualValues(t, 1, r.s.Stats().Refused)
				require.Equal(t, c.completed, r.s.Stats().Completed)
				require.Equal(t, c.retried, r.s.Stats().Retried)
			})
		})
	}
}

func TestALivingProcessKeepsItsJobsThroughMissedRenewals(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		const lease = 8 * time.Second
		other := r.beside(scheduler.Lease(lease))
		s := r.stuck("a")
		other.task("a", nil)
		id := r.enqueue("a", []string{"x"})[0]
		drained := r.aside()
		<-s.begun
		raw := r.db.SQL(t)
		left := func() time.Duration {
			var at int64
			require.NoError(t, raw.QueryRowContext(t.Context(), `select lease_until from weir_jobs`).Scan(&at))
			return time.UnixMicro(at).Sub(r.clock.Now())
		}
		for step := range 24 {
			if step%10 == 5 {
				r.faults.Fail(renewal, 1)
				r.faults.Fail(renewal, 2)
			}
			r.clock.Advance(lease / 8)
			if step%2 == 0 {
				require.Eventually(t, func() bool {
					if left() > lease*5/8 {
						return true
					}
					r.clock.Advance(lease / 64)
					return false
				}, time.Minute, 40*time.Millisecond) // a renewal takes real time meanwhile
			}
			other.drain()
			require.Zero(t, other.count())
		}
		s.answer <- nil
		require.NoError(t, <-drained)
		require.Equal(t, 1, r.get(id).Attempt)
		require.Empty(t, s.cause)
	}, scheduler.Lease(8*time.Second))
}

func TestCancellingAPendingJobKeepsItFromStarting(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"))
		ids := r.enqueue("a", []string{"1", "2", "3"})
		delayed := r.enqueue("a", []string{"4"}, queue.Delay(time.Second))[0]
		r.at(0)
		for _, id := range []string{ids[1], delayed} {
			require.NoError(t, r.client.Cancel(t.Context(), id))
			require.Equal(t, queue.StateCancelled, r.get(id).State)
		}
		r.at(time.Minute)
		require.Equal(t, []string{"3"}, r.started(time.Minute))
		r.at(time.Hour)
		require.Equal(t, 2, r.count())
		require.Zero(t, r.get(ids[1]).Attempt)
	})
}

func TestCancellingARunningJobCancelsItsHandler(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a")
		id := r.enqueue("a", []string{"x"})[0]
		drained := r.aside()
		<-s.begun
		require.NoError(t, r.client.Cancel(t.Context(), id))
		require.ErrorIs(t, until(r, time.Second, s.cause), scheduler.ErrLeaseLost)
		s.answer <- errors.New("cut off")
		require.NoError(t, <-drained)
		job := r.get(id)
		require.Equal(t, queue.StateCancelled, job.State)
		require.Empty(t, job.Errors)
		require.EqualValues(t, 1, r.s.Stats().Refused)
		require.Zero(t, r.s.Stats().Retried)
	})
}

// A process that was suspended between the grant and the hand-over does not
// begin what may run elsewhere by now. The attempt is refunded, the token not.
func TestWhatWasNeverHandedOverIsGivenBackUnspent(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/d"), scheduler.MaxRetries(0))
		id := r.enqueue("a", []string{"x"})[0]
		r.faults.Before(grant, 1, func() { r.clock.Advance(time.Minute) })
		r.drain()
		require.Equal(t, []start{{time.Minute, "a", "x", 1}}, r.ledger())
		job := r.get(id)
		require.Equal(t, queue.StateCompleted, job.State)
		require.Equal(t, 1, job.Attempt)
		require.Empty(t, job.Errors)
		require.EqualValues(t, 2, r.limit("task:a").Started)
		require.EqualValues(t, 2, r.s.Stats().Started)
	})
}

func TestALeaseIsWhatTheOptionSays(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a")
		r.enqueue("a", []string{"x"})
		drained := r.aside()
		<-s.begun
		var at int64
		require.NoError(t, r.db.SQL(t).QueryRowContext(t.Context(), `select lease_until from weir_jobs`).Scan(&at))
		require.Equal(t, epoch.Add(90*time.Second).UnixMicro(), at)
		s.answer <- nil
		require.NoError(t, <-drained)
	}, scheduler.Lease(90*time.Second))
}

var _ store.Admission = wholeLine{}
