package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// Somebody has left a transaction open that holds the limit of a and a running
// job of b.
func TestARowThatSomebodyKeepsLockedHoldsUpOnlyWhatNeedsIt(t *testing.T) {
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch))
	tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	r.task("a", nil, scheduler.RateLimit("1000/s"))
	locked := false
	r.task("b", func(job *queue.Job[string]) error {
		if locked {
			return nil
		}
		locked = true
		_, err := tx.ExecContext(t.Context(), `select 1 from weir_jobs where uid = $1 for update`, job.ID)
		return err
	}, scheduler.RateLimit("1/s"), scheduler.Burst(100))
	r.drain()
	_, err = tx.ExecContext(t.Context(), `select 1 from weir_limits where name = 'task:a' for update`)
	require.NoError(t, err)
	r.enqueue("b", numbered(1))
	require.ErrorIs(t, r.s.Drain(t.Context()), store.ErrLocked)
	r.enqueue("a", numbered(3))
	r.enqueue("b", numbered(3))
	r.at(100 * time.Millisecond)
	require.Equal(t, 4, r.tally("b"))
	require.Zero(t, r.tally("a"))
	require.Len(t, r.jobs(queue.StateCompleted), 3)

	require.NoError(t, tx.Rollback())
	r.at(time.Second)
	require.Equal(t, 4, r.tally("b"))
	require.Equal(t, 3, r.tally("a"))
	require.Len(t, r.jobs(queue.StateCompleted), 7)
	r.conserved(7)
}

// Who starts meanwhile has nothing to write to the row.
func TestAProcessStartsWhileSomebodyKeepsTheRowsOfItsLimitsLocked(t *testing.T) {
	for _, name := range []scheduler.StrategyName{scheduler.TokenBucket, scheduler.FixedWindow} {
		t.Run(string(name), func(t *testing.T) {
			r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch), scheduler.Strategy(name))
			r.strategy = name
			r.task("a", nil, scheduler.RateLimit("10/s"))
			r.drain()
			tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			_, err = tx.ExecContext(t.Context(), `update weir_limits set paused = paused`)
			require.NoError(t, err)
			r.again()
			r.task("a", nil, scheduler.RateLimit("10/s"))
			r.task("b", nil)
			r.enqueue("b", numbered(3))
			if name == scheduler.TokenBucket { // brings the bucket to its rate, and goes round it then
				require.ErrorContains(t, r.s.Drain(t.Context()), "turn: "+store.ErrLocked.Error())
				r.clock.Advance(time.Second)
			}
			r.drain()
			require.Equal(t, 3, r.tally("b"))
		})
	}
}

// The same under fixed windows: with the row locked no window opens, and starts in
// one that is open cannot be counted, which closes the limit.
func TestAWindowThatSomebodyKeepsLockedHoldsUpOnlyWhatNeedsIt(t *testing.T) {
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch), windows)
	r.task("a", nil, scheduler.RateLimit("10/s"))
	r.task("b", nil)
	r.drain()
	raw := r.db.SQL(t)
	lock := func() (release func()) {
		tx, err := raw.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(t.Context(), `select 1 from weir_limits where name = 'task:a' for update`)
		require.NoError(t, err)
		return func() { require.NoError(t, tx.Rollback()) }
	}
	release := lock()
	r.enqueue("a", numbered(2))
	require.ErrorIs(t, r.s.Drain(t.Context()), store.ErrLocked)
	r.enqueue("b", numbered(3))
	r.at(100 * time.Millisecond)
	require.Equal(t, 3, r.tally("b"))
	require.Zero(t, r.tally("a"))
	release()
	r.at(time.Second)
	require.Equal(t, 2, r.tally("a"))
	require.Zero(t, r.s.Stats().Uncounted)

	release = lock()
	r.enqueue("a", numbered(5))
	r.at(1500 * time.Millisecond)
	require.Equal(t, 2+3, r.tally("a"))
	require.EqualValues(t, 3, r.s.Stats().Uncounted)
	require.EqualValues(t, 1, r.s.Stats().Closed)
	r.enqueue("b", numbered(3))
	r.at(1800 * time.Millisecond)
	require.Equal(t, 6, r.tally("b"))
	release()
	r.at(3 * time.Second)
	require.Equal(t, 2+5, r.tally("a"))
	r.conserved(13)
}
