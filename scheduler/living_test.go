package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// A machine that slept, or whose clock was set, wakes up with leases that all
// look as if they had run out.
func TestAStepOfTheClockTakesNoLivingJobAway(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a", scheduler.MaxRetries(0))
		id := r.enqueue("a", []string{"x"})[0]
		stop, done := r.serve()
		<-s.begun
		asked := r.faults.Count(`with recursive l`)
		for range 3 {
			r.clock.Step(10 * time.Minute)
			before := asked.Statements() // it looks, and sweeps if it would
			r.pass(250*time.Millisecond, asked, func() bool { return asked.Statements() >= before+3 })
		}
		r.clock.Step(-time.Hour)
		later := r.clock.Now().Add(20 * time.Second) // leases are taken back again
		r.pass(time.Second, asked, func() bool { return r.clock.Now().After(later) })
		s.answer <- nil
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
		require.Equal(t, queue.StateCompleted, r.get(id).State)
		require.Equal(t, 1, r.get(id).Attempt)
		require.Empty(t, s.cause)
	})
}

func TestACancelledJobsHandlerHearsOfItAtOnce(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a", scheduler.Cap(1))
		ids := r.enqueue("a", numbered(2))
		stop, done := r.serve()
		require.Equal(t, ids[0], (<-s.begun).ID)
		require.NoError(t, r.client.Cancel(t.Context(), ids[0]))
		require.ErrorIs(t, <-s.cause, scheduler.ErrLeaseLost) // no time has passed
		s.answer <- nil
		require.Equal(t, ids[1], until(r, 100*time.Millisecond, s.begun).ID)
		s.answer <- nil
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
	})
}

// A handler has done its work, and the database refuses to hear of it for longer
// than the lease.
func TestAFinishedJobWhoseResultCannotBeWrittenIsNotStartedAgain(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.MaxRetries(0))
		other := r.beside()
		other.task("a", nil, scheduler.MaxRetries(0))
		mend := r.faults.FailAll(`insert into \S*weir_history`)
		id := r.enqueue("a", []string{"x"})[0]
		stop, done := r.serve()
		renewals := r.faults.Count(renewal)
		r.pass(2*time.Second, renewals, func() bool { return r.count() == 1 })
		r.pass(2*time.Second, renewals, func() bool { return renewals.Statements() >= 10 })
		other.drain()
		require.Zero(t, other.count())
		mend()
		r.pass(2*time.Second, renewals, func() bool { return r.get(id).State == queue.StateCompleted })
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
		require.Equal(t, 1, r.get(id).Attempt)
	})
}

// The first job of a line comes while its queue is paused.
func TestALineThatIsNewUnderAPauseWaits(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		require.NoError(t, r.client.PauseQueue(t.Context(), "held"))
		stop, done := r.serve()
		r.enqueue("a", numbered(1))
		require.Eventually(t, func() bool { return r.count() == 1 }, time.Minute, time.Millisecond)
		r.enqueue("a", []string{"held"}, queue.Queue("held"))
		r.enqueue("a", []string{"free"})
		require.Eventually(t, func() bool { return r.count() == 2 }, time.Minute, time.Millisecond)
		require.Equal(t, []string{"000000", "free"}, startedOf(r, "a"))
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
		require.Len(t, r.jobs(queue.StateWaiting), 1)
	})
}

// Another process's sweep has it in hand.
func TestASweepThatCanTakeNothingDoesNotSpin(t *testing.T) {
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch))
	r.task("a", nil)
	r.drain()
	r.enqueue("a", []string{"x"}, queue.Delay(time.Second))
	tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), `select 1 from weir_jobs for update`)
	require.NoError(t, err)
	turns := r.faults.Count(`set state = 0`)
	r.at(2 * time.Second)
	require.LessOrEqual(t, turns.Statements(), int64(2))
	require.NoError(t, tx.Rollback())
	r.at(3 * time.Second)
	require.Equal(t, 1, r.count())
}

func TestDrainAndRunDoNotGoTogether(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a")
		r.enqueue("a", []string{"x"})
		stop, done := r.serve()
		<-s.begun
		require.ErrorIs(t, r.s.Drain(context.Background()), scheduler.ErrRunning)
		s.answer <- nil
		stop()
		require.NoError(t, <-done)
	})
}

// The host's clock is set while the server's is right, and so are the leases.
func TestAStepOfTheHostsClockAloneTakesNoJobAway(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				host := clock.NewFake(epoch)
				r.client = queue.From(r.db.Open(t, store.Options{Clock: r.clock, HostClock: host, Wrap: r.faults.Wrap}))
				r.again()
				s := r.stuck("a", scheduler.MaxRetries(0))
				ids := r.enqueue("a", numbered(3))
				done := r.aside()
				for range ids {
					<-s.begun
				}
				host.Step(step)
				// Each makes this process look at its leases. The second look begins
				// when the first has ended.
				for _, id := range ids[1:] {
					require.NoError(t, r.client.Cancel(t.Context(), id))
					require.ErrorIs(t, <-s.cause, scheduler.ErrLeaseLost)
				}
				require.Equal(t, 2, r.s.Lost(), "those that were cancelled")
				for range ids {
					s.answer <- nil
				}
				require.NoError(t, <-done)
				require.Empty(t, s.cause)
				require.Equal(t, queue.StateCompleted, r.get(ids[0]).State)
			})
		})
	}
}
