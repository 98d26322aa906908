package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

const (
	done    = `insert into \S*weir_history`
	backOff = `update \S*weir_jobs.* set state = case`
	dead    = `insert into \S*weir_dead`
	insert  = `insert into \S*weir_jobs`
)

// unless drains until it succeeds, and returns the first error.
func (r *rig) unless() (first error) {
	r.t.Helper()
	for range 5 {
		err := r.s.Drain(r.t.Context())
		if err == nil {
			return first
		}
		if first == nil {
			first = err
		}
	}
	require.NoError(r.t, first)
	return nil
}

// The process does not know whether the jobs are its own, and finds out.
func TestAfterALostReplyToAClaimItsJobsRunOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.enqueue("a", numbered(5))
		r.faults.LoseReply(grant, 1)
		require.ErrorIs(t, r.unless(), queue.ErrOutcomeUnknown)
		require.Len(t, r.jobs(queue.StateCompleted), 3)
		require.Equal(t, 3, r.count())
		for _, x := range r.ledger() {
			require.Equal(t, 1, x.attempt)
		}
		require.EqualValues(t, 3, r.limit("task:a").Started)
		require.EqualValues(t, 3, r.s.Stats().Completed)
		require.Zero(t, r.s.Stats().Refused)
		r.at(20 * time.Second)
		require.Equal(t, 4, r.count())
	})
}

func TestAClaimThatWasNotCommittedCostsNothing(t *testing.T) {
	for name, fail := range map[string]func(*storetest.Faults){
		"the grant fails":      func(f *storetest.Faults) { f.Fail(grant, 1) },
		"the save fails":       func(f *storetest.Faults) { f.Fail(`update \S*weir_limits`, 1) },
		"the commit never ran": func(f *storetest.Faults) { f.FailCommit(grant, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("3/m"))
				r.drain()
				r.enqueue("a", numbered(5))
				before := bucketOf(r.limit("task:a"))
				fail(r.faults)
				require.ErrorIs(t, r.s.Drain(t.Context()), storetest.ErrInjected)
				require.Zero(t, r.count())
				require.Equal(t, before, bucketOf(r.limit("task:a")))
				require.Len(t, r.jobs(queue.StateWaiting), 5)
				r.drain()
				require.Equal(t, 3, r.count())
				require.EqualValues(t, 3, r.limit("task:a").Started)
			})
		})
	}
}

func TestAfterALostReplyToResultsNoneIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name, statement  string
		do               func(*queue.Job[string]) error
		completed, retry int64
		failed           int64
	}{
		{name: "completed", statement: done, completed: 4},
		{name: "to be tried again", statement: backOff, do: always, retry: 4},
		{name: "dead", statement: dead, do: always, failed: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				retries := 3
				if c.failed > 0 {
					retries = 0
				}
				r.task("a", c.do, scheduler.MaxRetries(retries), scheduler.Backoff{Base: time.Minute})
				r.enqueue("a", numbered(4))
				r.faults.Before(c.statement, 1, func() { // or giving up would interrupt the others
					assert.Eventually(t, func() bool { return r.s.Reported() == 4 }, time.Minute, time.Millisecond)
				})
				r.faults.LoseReply(c.statement, 1)
				require.ErrorIs(t, r.unless(), queue.ErrOutcomeUnknown)
				require.Equal(t, 4, r.count())
				s := r.s.Stats()
				require.Equal(t, [4]int64{c.completed, c.retry, c.failed, 0}, [4]int64{s.Completed, s.Retried, s.Failed, s.Refused})
				require.Len(t, r.jobs(queue.StateCompleted), int(c.completed))
				require.Len(t, r.jobs(queue.StateScheduled), int(c.retry))
				for _, j := range r.jobs(queue.StateScheduled) {
					require.Equal(t, 1, j.Attempt)
					require.Len(t, j.Errors, 1)
					require.Equal(t, epoch.Add(time.Minute), j.RunAt.UTC())
				}
				require.Len(t, r.letters(), int(c.failed))
				r.conserved(4)
			})
		})
	}
}

func TestResultsThatWereNotWrittenAreWrittenLater(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.enqueue("a", numbered(4))
		r.faults.Fail(done, 1)
		require.ErrorIs(t, r.unless(), storetest.ErrInjected)
		require.Equal(t, 4, r.count())
		require.Len(t, r.jobs(queue.StateCompleted), 4)
		require.EqualValues(t, 4, r.s.Stats().Completed)
	})
}

// An enqueue is repeated by itself under the same id, and answers the same.
func TestAfterALostReplyToAnEnqueueThereIsOneJob(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		task := queue.Task[string]("a")
		r.faults.LoseReply(insert, 1)
		one, err := task.Enqueue(t.Context(), r.client, "one")
		require.NoError(t, err)
		require.False(t, one.Existed)
		require.False(t, one.Duplicate)

		r.faults.LoseReply(insert, 1)
		unique, err := task.Enqueue(t.Context(), r.client, "unique", queue.UniqueKey("k"))
		require.NoError(t, err)
		require.False(t, unique.Duplicate, "it is its own rival")

		r.faults.LoseReply(insert, 1)
		many, err := task.EnqueueMany(t.Context(), r.client, numbered(1200))
		require.NoError(t, err)
		require.Len(t, r.jobs(), 1202)
		for _, id := range []string{one.ID, unique.ID, many[0].ID, many[1199].ID} {
			require.Equal(t, queue.StateWaiting, r.get(id).State)
		}

		// Every repeat is lost too: the caller learns that, and the id.
		for range 3 {
			r.faults.LoseReply(insert+`|select uid`, 1)
		}
		lost, err := task.Enqueue(t.Context(), r.client, "lost")
		if err != nil {
			require.ErrorIs(t, err, queue.ErrOutcomeUnknown)
			again, err := task.Enqueue(t.Context(), r.client, "lost", queue.ID(lost.ID))
			require.NoError(t, err)
			require.Equal(t, queue.Receipt{ID: lost.ID, Existed: true}, again)
		}
		require.Len(t, r.jobs(), 1203)

		r.task("a", nil)
		r.drain()
		require.Equal(t, 1203, r.count())
	})
}

// The same while it serves: no Drain that gives up, a loop that goes on.
func TestARunningSchedulerOutlivesLostRepliesAndErrors(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1000/s"))
		r.faults.LoseReply(grant, 1)
		r.faults.LoseReply(done, 2)
		r.faults.FailCommit(grant, 3)
		r.faults.LoseReply(grant, 4)
		stop, ended := r.serve()
		ids := []string{}
		for range 50 {
			ids = append(ids, r.enqueue("a", numbered(3))...)
			r.clock.Advance(20 * time.Millisecond)
		}
		require.Eventually(t, func() bool {
			r.clock.Advance(100 * time.Millisecond)
			return len(r.jobs(queue.StateCompleted)) == 150
		}, time.Minute, 5*time.Millisecond)
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, ended))
		require.Equal(t, 150, r.count())
		for _, id := range ids {
			require.Equal(t, 1, r.get(id).Attempt)
		}
		require.EqualValues(t, 150, r.limit("task:a").Started)
		require.EqualValues(t, 150, r.s.Stats().Completed)
	})
}

func TestADatabaseThatWasAwayIsUsedAgain(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		stop, ended := r.serve()
		require.Eventually(t, func() bool { return len(r.tasks()) == 1 }, time.Minute, time.Millisecond)
		mend := r.faults.FailAll(`weir_jobs`)
		asked := r.faults.Count(`weir_jobs`)
		require.Eventually(t, func() bool {
			r.clock.Advance(100 * time.Millisecond)
			return asked.Statements() >= 5
		}, time.Minute, time.Millisecond)
		mend()
		r.enqueue("a", numbered(3))
		require.Eventually(t, func() bool {
			r.clock.Advance(100 * time.Millisecond)
			return r.count() == 3
		}, time.Minute, time.Millisecond)
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, ended))
		require.Len(t, r.jobs(queue.StateCompleted), 3)
	})
}

func (r *rig) tasks() []queue.TaskInfo {
	r.t.Helper()
	list, err := r.client.Tasks(context.Background())
	require.NoError(r.t, err)
	return list
}

// The database is away for a moment in the middle of a claim, and a stop comes:
// what was claimed was never handed over.
func TestAStopGivesBackWhatALostReplyClaimed(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		s := r.stuck("a")
		id := r.enqueue("a", []string{"x"})[0]
		asked := r.faults.Count(lookUp)
		back := r.faults.FailAll(lookUp)
		r.faults.LoseReply(grant, 1)
		stop, done := r.serve()
		require.Eventually(t, func() bool { return asked.Statements() > 0 }, time.Minute, time.Millisecond)
		stop()
		back()
		require.NoError(t, until(r, 10*time.Millisecond, done))
		require.Empty(t, s.begun)
		require.Equal(t, queue.StateWaiting, r.get(id).State)
		require.Zero(t, r.get(id).Attempt)
	})
}
