package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// writesBeside is a scheduler on PostgreSQL that writes what it can beside its loop.
func writesBeside(t *testing.T, opts ...scheduler.Option) *rig {
	t.Helper()
	t.Parallel()
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch), opts...)
	r.s.WriteAllBeside()
	return r
}

// While what has completed cannot be written, the loop goes on to claim.
func TestCompletedJobsAreWrittenBesideTheNextClaim(t *testing.T) {
	r := writesBeside(t)
	began := make(chan string, 1)
	r.task("a", nil)
	r.task("b", func(job *queue.Job[string]) error { began <- job.ID; return nil })
	writing, goOn := make(chan struct{}), make(chan struct{})
	r.faults.Before(done, 1, func() { close(writing); <-goOn })
	first := r.enqueue("a", numbered(1))[0]
	stop, ended := r.serve()
	<-writing
	second := r.enqueue("b", numbered(1))[0]
	require.Equal(t, second, <-began)
	require.Equal(t, queue.StateRunning, r.get(first).State)
	close(goOn)
	require.Eventually(t, func() bool { return len(r.jobs(queue.StateCompleted)) == 2 }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, until(r, 10*time.Millisecond, ended))
	require.EqualValues(t, 2, r.s.Stats().Completed)
}

// Few results go with the turn that claims what is next: one commit for both. So do
// any number on SQLite, which has one writer.
func TestFewResultsAreWrittenWithTheNextClaim(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		if r.db.Dialect == store.SQLite {
			r.s.WriteAllBeside()
		}
		r.task("a", nil, scheduler.RateLimit("1000/s"))
		r.enqueue("a", numbered(2))
		record := r.faults.Record()
		r.drain()
		require.Contains(t, strings.Join(record.Transaction(done), "\n"), "weir_limits")
		require.Len(t, r.jobs(queue.StateCompleted), 2)
	}, scheduler.Concurrency(1))
}

// Caps and breakers count what has ended in the transaction of the look.
func TestResultsThatAGateLooksAtAreWrittenInTheLook(t *testing.T) {
	for name, opt := range map[string]scheduler.TaskOption{
		"cap":     scheduler.Cap(1),
		"breaker": scheduler.Breaker{Failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := writesBeside(t)
			r.task("a", nil, opt)
			r.enqueue("a", numbered(2))
			record := r.faults.Record()
			r.drain()
			require.Contains(t, strings.Join(record.Transaction(done), "\n"), "weir_gates")
			require.Len(t, r.jobs(queue.StateCompleted), 2)
		})
	}
}

// What could not be written beside the loop is written by the loop, once.
func TestResultsThatCouldNotBeWrittenBesideTheLoopAreWrittenByIt(t *testing.T) {
	for name, fault := range map[string]func(*storetest.Faults){
		"it fails":            func(f *storetest.Faults) { f.Fail(done, 1) },
		"its commit fails":    func(f *storetest.Faults) { f.FailCommit(done, 1) },
		"the reply was lost":  func(f *storetest.Faults) { f.LoseReply(done, 1) },
		"it waits for a lock": nil,
	} {
		t.Run(name, func(t *testing.T) {
			r := writesBeside(t)
			events, end := r.s.Subscribe(scheduler.JobCompleted)
			defer end()
			tx, err := r.db.SQL(t).BeginTx(context.WithoutCancel(t.Context()), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = tx.Rollback() })
			locked := make(chan struct{})
			r.task("a", func(job *queue.Job[string]) error {
				switch {
				case fault != nil:
				case job.Args == "000000":
					defer close(locked)
					_, err := tx.ExecContext(t.Context(), `select 1 from weir_jobs where uid = $1 for update`, job.ID)
					return err
				default:
					<-locked
				}
				return nil
			})
			if fault != nil {
				fault(r.faults)
			}
			r.enqueue("a", numbered(3))
			wrote := r.faults.Count(done)
			stop, ended := r.serve()
			if fault == nil {
				require.Eventually(t, func() bool { r.clock.Advance(time.Millisecond); return wrote.Statements() > 1 }, time.Minute, time.Millisecond)
				require.NoError(t, tx.Rollback())
			}
			require.Eventually(t, func() bool {
				r.clock.Advance(10 * time.Millisecond)
				return len(r.jobs(queue.StateCompleted)) == 3
			}, time.Minute, time.Millisecond)
			stop()
			require.NoError(t, until(r, 10*time.Millisecond, ended))
			require.Equal(t, 3, r.count())
			require.EqualValues(t, 3, r.s.Stats().Completed)
			require.Zero(t, r.s.Stats().Refused)
			require.Len(t, events, 3)
			r.conserved(3)
		})
	}
}

// A job is cancelled after its handler has ended, before that is written.
func TestAResultWrittenBesideTheLoopThatComesTooLateIsRefused(t *testing.T) {
	r := writesBeside(t)
	r.task("a", nil)
	id := r.enqueue("a", numbered(1))[0]
	r.faults.Before(done, 1, func() { require.NoError(t, r.client.Cancel(context.Background(), id)) })
	r.drain()
	require.Equal(t, queue.StateCancelled, r.get(id).State)
	require.EqualValues(t, 1, r.s.Stats().Refused)
	require.Zero(t, r.s.Stats().Completed)
}

// A stop waits for what is being written, and for a database that does not answer
// no longer than for others.
func TestAStopWaitsForWhatIsWrittenBesideTheLoop(t *testing.T) {
	t.Run("which is written", func(t *testing.T) {
		r := writesBeside(t)
		r.task("a", nil)
		writing, goOn := make(chan struct{}), make(chan struct{})
		r.faults.Before(done, 1, func() { close(writing); <-goOn })
		id := r.enqueue("a", numbered(1))[0]
		stop, ended := r.serve()
		<-writing
		stop()
		require.Empty(t, ended)
		close(goOn)
		require.NoError(t, <-ended)
		require.Equal(t, queue.StateCompleted, r.get(id).State)
	})
	t.Run("which hangs", func(t *testing.T) {
		r := writesBeside(t)
		r.s.SetPatience(50 * time.Millisecond)
		r.task("a", nil)
		hangs := r.faults.Count(done)
		for nth := range 100 {
			r.faults.Hang(done, nth+1)
		}
		r.enqueue("a", numbered(1))
		stop, ended := r.serve()
		require.Eventually(t, func() bool { return hangs.Statements() > 0 }, time.Minute, time.Millisecond)
		stop()
		require.ErrorContains(t, until(r, time.Second, ended), "results not written: 1")
	})
}

// Under a clock that stands still nothing would be tried again.
func TestADrainThatIsCutShortDoesNotWaitForAResultThatIsNotWritten(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.s.WriteAllBeside()
		ctx, cancel := context.WithCancel(t.Context())
		r.task("a", nil)
		r.faults.Before(done, 1, cancel)
		mend := r.faults.FailAll(done)
		r.enqueue("a", numbered(1))
		require.ErrorIs(t, r.s.Drain(ctx), storetest.ErrInjected)
		mend()
		r.drain()
		require.Len(t, r.jobs(queue.StateCompleted), 1)
	})
}

// A Drain gives up for a turn that fails, while results are written beside it: it
// does not wait for them, and the next one knows nothing of it.
func TestADrainThatGivesUpStopsWhatIsWrittenBesideIt(t *testing.T) {
	for name, hold := range map[string]func(*storetest.Faults, chan struct{}){
		"which hangs": func(f *storetest.Faults, failed chan struct{}) { f.Hang(done, 1) },
		"which fails": func(f *storetest.Faults, failed chan struct{}) {
			f.Before(done, 1, func() { <-failed })
			f.Fail(done, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := writesBeside(t)
			r.task("a", nil)
			writing, failed := make(chan struct{}), make(chan struct{})
			r.faults.Before(done, 1, func() { close(writing) })
			hold(r.faults, failed)
			r.enqueue("a", numbered(1))
			ended := r.aside()
			<-writing
			r.faults.Before(grant, 1, func() { close(failed) })
			r.faults.Fail(grant, 1)
			r.enqueue("a", numbered(1))
			require.ErrorIs(t, <-ended, storetest.ErrInjected)
			r.drain()
			require.Len(t, r.jobs(queue.StateCompleted), 2)
			require.EqualValues(t, 2, r.s.Stats().Completed)
		})
	}
}
