package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestTwoASecondStartsTwoAndPutsOffTheRestByOneSecond(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/s"))
		ids := r.enqueue("a", []string{"1", "2", "3", "4", "5"})

		r.at(0)
		require.ElementsMatch(t, []string{"1", "2"}, r.started(0))
		for _, id := range ids[2:] {
			r.wants(id, queue.StateWaiting, epoch.Add(time.Second), 1)
		}

		r.at(time.Second)
		require.ElementsMatch(t, []string{"3", "4"}, r.started(time.Second))
		r.wants(ids[4], queue.StateWaiting, epoch.Add(2*time.Second), 2)

		r.at(2 * time.Second)
		require.Equal(t, []string{"5"}, r.started(2*time.Second))
		r.wants(ids[4], queue.StateCompleted, epoch.Add(2*time.Second), 2)
	})
}

func TestAHundredAMinuteDefersWhatComesLateBehindWhatWaits(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("100/m"))
		first := r.enqueue("a", numbered(101))

		r.at(0)
		require.Equal(t, 100, r.count())
		r.wants(first[100], queue.StateWaiting, epoch.Add(time.Second), 1)

		r.clock.Advance(700 * time.Millisecond)
		late := r.enqueue("a", []string{"late"})
		r.at(700 * time.Millisecond)
		require.Equal(t, 100, r.count(), "the limit is on hold")
		r.wants(late[0], queue.StateWaiting, epoch.Add(700*time.Millisecond), 0)

		r.at(time.Second)
		require.Equal(t, numbered(101)[100:], r.started(time.Second))
		r.wants(late[0], queue.StateWaiting, epoch.Add(2*time.Second), 1)
	})
}

// wants checks a job's state, run_at and deferrals.
func (r *rig) wants(id string, state queue.State, runAt time.Time, deferrals int64) {
	r.t.Helper()
	job, err := r.client.Get(r.t.Context(), id)
	require.NoError(r.t, err)
	require.Equal(r.t, state, job.State)
	require.Equal(r.t, runAt, job.RunAt.UTC())
	require.Equal(r.t, deferrals, job.Deferrals)
}
