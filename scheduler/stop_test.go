package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// serve runs the rig's scheduler until stop is called.
func (r *rig) serve() (stop context.CancelFunc, done <-chan error) {
	ctx, stop := context.WithCancel(context.Background())
	r.t.Cleanup(stop)
	ended := make(chan error, 1)
	go func() { ended <- r.s.Run(ctx) }()
	return stop, ended
}

func TestAStopLetsHandlersFinishWithinTheGrace(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		var log bytes.Buffer
		r.again(scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		s := r.stuck("a", scheduler.RateLimit("2/h"))
		ids := r.enqueue("a", numbered(5))
		stop, done := r.serve()
		<-s.begun
		<-s.begun
		stop()
		r.enqueue("a", []string{"comes too late"})
		s.answer <- nil
		s.answer <- nil
		require.NoError(t, <-done)
		require.Empty(t, s.cause, "nobody was cancelled")
		require.Contains(t, log.String(), `msg=stopping cause="context canceled" running=2 grace=30s`)
		require.Len(t, r.jobs(queue.StateCompleted), 2)
		require.Len(t, r.jobs(queue.StateWaiting), 4)
		require.Zero(t, r.get(ids[4]).Attempt)
		require.ErrorIs(t, r.s.Run(t.Context()), scheduler.ErrRunning)
	})
}

// The attempt counts, but not against max_retries.
func TestAtTheEndOfTheGraceHandlersAreCancelledAndTheirJobsGoBack(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		var id string
		for n := 1; n <= 6; n++ {
			r.again(scheduler.ShutdownGrace(10 * time.Second))
			s := r.stuck("a", scheduler.MaxRetries(0), scheduler.RateLimit("100/m"))
			if n == 1 {
				id = r.enqueue("a", []string{"x"})[0]
			}
			stop, done := r.serve()
			job := <-s.begun
			require.Equal(t, n, job.Attempt)
			before := r.clock.Now()
			stop()
			require.Error(t, until(r, time.Second, s.cause))
			require.GreaterOrEqual(t, r.clock.Now().Sub(before), 10*time.Second)
			s.answer <- errors.New("cut off")
			require.NoError(t, <-done)
			if n <= 5 {
				back := r.get(id)
				require.Equal(t, queue.StateWaiting, back.State)
				require.Equal(t, epoch, back.FirstDueAt.UTC(), "at its old place")
				require.Equal(t, n, back.Attempt)
				require.Empty(t, back.Errors)
			}
		}
		// The sixth counts as a failure.
		e := r.letter(id)
		require.Equal(t, dlq.Failed, e.Kind)
		require.Equal(t, "cut off by a stop, as it was 5 times before: cut off", e.Reason)
		require.Equal(t, 6, e.Attempts)
		require.EqualValues(t, 6, r.limit("task:a").Started, "each start took a token")
	})
}

func TestWhatWasCutOffByAStopHasAllItsRetriesLeft(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.again(scheduler.ShutdownGrace(0))
		s := r.stuck("a", scheduler.MaxRetries(1))
		id := r.enqueue("a", []string{"x"})[0]
		stop, done := r.serve()
		<-s.begun
		stop()
		require.Error(t, <-s.cause)
		s.answer <- errors.New("cut off")
		require.NoError(t, <-done)

		r.again()
		begin := r.clock.Now().Sub(epoch)
		r.task("a", always, scheduler.MaxRetries(1), scheduler.Backoff{Base: time.Second})
		for n := range 10 {
			r.at(begin + time.Duration(n)*time.Second)
		}
		require.Equal(t, []start{{begin, "a", "x", 2}, {begin + time.Second, "a", "x", 3}}, r.ledger())
		require.Equal(t, 3, r.letter(id).Attempts)
	})
}

// A handler that succeeds although it was cancelled has succeeded.
func TestAHandlerThatSucceedsAfterItWasCancelledHasCompletedItsJob(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.again(scheduler.ShutdownGrace(0))
		s := r.stuck("a")
		id := r.enqueue("a", []string{"x"})[0]
		stop, done := r.serve()
		<-s.begun
		stop()
		require.Error(t, <-s.cause)
		s.answer <- nil
		require.NoError(t, <-done)
		require.Equal(t, queue.StateCompleted, r.get(id).State)
	})
}

// What a renewal of its own has locked at that moment is given back as well.
func TestAStopWaitsAMomentForAJobThatIsLocked(t *testing.T) {
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch), scheduler.ShutdownGrace(0))
	s := r.stuck("a")
	id := r.enqueue("a", []string{"x"})[0]
	stop, done := r.serve()
	<-s.begun
	tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	_, err = tx.ExecContext(t.Context(), `select 1 from weir_jobs where uid = $1 for update`, id)
	require.NoError(t, err)
	r.faults.Before(`^with running as`, 3, func() { require.NoError(t, tx.Rollback()) })
	stop()
	require.Error(t, <-s.cause)
	require.ErrorContains(t, until(r, time.Second, done), "their jobs are given back")
	require.Equal(t, queue.StateWaiting, r.get(id).State)
	s.answer <- nil
}

func TestAStopDoesNotWaitForAHandlerThatIgnoresIt(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.again(scheduler.ShutdownGrace(time.Second))
		s := r.stuck("a")
		good := r.stuck("good")
		id := r.enqueue("a", []string{"x"})[0]
		done1 := r.enqueue("good", []string{"y"})[0]
		stop, done := r.serve()
		<-s.begun
		<-good.begun
		stop()
		require.Error(t, <-r.afterwards(s.cause))
		good.answer <- nil
		err := until(r, time.Second, done)
		require.ErrorContains(t, err, "handlers that did not return after their contexts were cancelled: 1; their jobs are given back")
		back := r.get(id)
		require.Equal(t, queue.StateWaiting, back.State)
		require.Equal(t, 1, back.Attempt)
		require.Equal(t, queue.StateCompleted, r.get(done1).State)
		s.answer <- nil
		require.Equal(t, queue.StateWaiting, r.get(id).State, "what it says now is not heard")
	})
}

func TestAStopDoesNotWaitForADatabaseThatHangs(t *testing.T) {
	for name, fault := range map[string]func(*storetest.Faults){
		"in a claim": func(f *storetest.Faults) { f.Hang(grant, 1) },
		"in the question for a claim whose reply was lost": func(f *storetest.Faults) {
			f.LoseReply(grant, 1)
			f.FailAll(`where lease_until is not null and claim =`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				r.again(scheduler.Lease(24 * time.Hour))
				r.s.SetPatience(time.Millisecond)
				r.task("a", nil)
				claims := r.faults.Count(grant)
				fault(r.faults)
				id := r.enqueue("a", []string{"x"})[0]
				stop, done := r.serve()
				require.Eventually(t, func() bool { return claims.Statements() > 0 }, time.Minute, time.Millisecond)
				stop()
				if err := until(r, 100*time.Millisecond, done); err != nil { // it had begun to ask
					require.ErrorContains(t, err, "the reply to a claim was lost, and what it started is not known")
				}
				require.Zero(t, r.count())
				require.NotEqual(t, queue.StateCompleted, r.get(id).State)
			})
		})
	}
}

// afterwards passes on what comes, letting time pass until it does.
func (r *rig) afterwards(ch <-chan error) <-chan error {
	out := make(chan error, 1)
	out <- until(r, 100*time.Millisecond, ch)
	return out
}

func TestNoGoroutineOutlivesTheScheduler(t *testing.T) {
	eachAlone(t, func(t *testing.T, r *rig) {
		before := goleak.IgnoreCurrent()
		r.task("a", nil, scheduler.RateLimit("3/s"))
		r.task("b", always)
		r.enqueue("a", numbered(10))
		r.enqueue("b", numbered(10))
		stop, done := r.serve()
		require.Eventually(t, func() bool { return r.s.Stats().Retried == 10 }, time.Minute, time.Millisecond)
		stop()
		require.NoError(t, <-done)
		require.NoError(t, goleak.Find(before, connections))
		r.drain()
		require.NoError(t, goleak.Find(before, connections))
	})
}

// connections are what database/sql keeps for those that are open.
var connections = goleak.IgnoreAnyFunction("database/sql.(*DB).connectionCleaner")

// Whenever it is stopped, a job has run and is completed, or waits as it did.
func TestAStopAtAnyMomentLosesAndRepeatsNothing(t *testing.T) {
	eachAlone(t, func(t *testing.T, r *rig) {
		const rounds, more = 50, 6
		before := goleak.IgnoreCurrent()
		for round := range rounds {
			r.enqueue("a", numbered(more))
			r.again(scheduler.Concurrency(1 + rand.IntN(3)))
			n := make(chan struct{}, rounds*more)
			r.task("a", func(*queue.Job[string]) error {
				n <- struct{}{}
				return nil
			}, scheduler.RateLimit("1000000/h"))
			stop, done := r.serve()
			for range rand.IntN(more) {
				select {
				case <-n:
				case err := <-done:
					require.NoError(t, err)
				}
			}
			stop()
			require.NoError(t, <-done)
			require.Empty(t, r.jobs(queue.StateRunning), "round %d", round)
			require.Len(t, r.jobs(queue.StateCompleted), r.count())
			for _, j := range r.jobs(queue.StatePending) {
				require.Zero(t, j.Attempt)
			}
		}
		require.NoError(t, goleak.Find(before, connections))
		require.EqualValues(t, r.count(), r.limit("task:a").Started, "no token was spent in vain")
		r.drain()
		require.Equal(t, rounds*more, r.count())
		r.conserved(rounds * more)
	})
}

func TestARunThatIsStoppedBeforeItBeginsDoesNothing(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.enqueue("a", numbered(3))
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, r.s.Run(ctx))
		require.Zero(t, r.count())
	})
}
