package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// A stamp with whatever fraction of a second, from whoever wrote it, is met to
// the microsecond: not before, once, and then.
func TestAStampOfAnyFractionIsMetToTheMicrosecond(t *testing.T) {
	fractions := []time.Duration{
		0, time.Microsecond, 123 * time.Millisecond, 123456 * time.Microsecond, 500_001 * time.Microsecond, time.Second - time.Microsecond,
	}
	const lateEvening = 12*time.Hour - time.Second // so that the last of them ends a day
	completed := func(r *rig, id string) bool {
		job, err := r.client.Get(r.t.Context(), id)
		return err == nil && job.State == queue.StateCompleted
	}
	expired := func(r *rig, id string) bool {
		e, err := r.dead.Get(r.t.Context(), id)
		return err == nil && e.Kind == dlq.Expired
	}
	kinds := []struct {
		task   string
		before func(r *rig, id string, stamp int64)
		met    func(r *rig, id string) bool
	}{
		{"the time to run at", func(r *rig, id string, stamp int64) {
			r.meddle(`update weir_jobs set state = 2, run_at = ?, first_due = ? where uid = ?`, stamp, stamp, id)
		}, completed},
		{"the end of a lease", func(r *rig, id string, stamp int64) {
			require.Len(r.t, r.claim("the end of a lease"), 1)
			r.meddle(`update weir_jobs set lease_until = ? where uid = ?`, stamp, id)
		}, completed},
		{"the end of a hold", func(r *rig, _ string, stamp int64) {
			r.meddle(`update weir_limits set held_from = ?, held_until = ? where name = 'task:the end of a hold'`, r.clock.Now().UnixMicro(), stamp)
		}, completed},
		{"the end of an open breaker", func(r *rig, _ string, stamp int64) {
			r.meddle(`update weir_gates set opened_at = ?, open_until = ? where name = 'task:the end of an open breaker'`, r.clock.Now().UnixMicro(), stamp)
		}, completed},
		{"the time to start before", func(r *rig, id string, stamp int64) {
			require.NoError(r.t, r.client.PauseLimit(r.t.Context(), "task:the time to start before"))
			r.meddle(`update weir_jobs set expires_at = ? where uid = ?`, stamp, id)
		}, expired},
	}
	each(t, func(t *testing.T, r *rig) {
		for _, k := range kinds {
			r.task(k.task, nil, scheduler.RateLimit("1/s"), scheduler.Breaker{Failures: 1})
			r.enqueue(k.task, []string{"makes the rows"})
		}
		r.drain()
		for day, f := range fractions {
			stamp := time.Duration(day)*24*time.Hour + lateEvening + f
			r.clock.Advance(stamp - 700*time.Millisecond - r.clock.Now().Sub(epoch))
			ids := make([]string, len(kinds))
			for i, k := range kinds {
				ids[i] = r.enqueue(k.task, []string{f.String()})[0]
				k.before(r, ids[i], epoch.Add(stamp).UnixMicro())
			}
			r.at(stamp - time.Microsecond)
			for i, k := range kinds {
				require.False(t, k.met(r, ids[i]), "%s, %s: too soon", k.task, f)
			}
			r.at(stamp)
			for i, k := range kinds {
				require.True(t, k.met(r, ids[i]), "%s, %s: not in time", k.task, f)
			}
		}
		require.Equal(t, len(kinds)+(len(kinds)-1)*len(fractions), r.count(), "each once")
		r.conserved(len(kinds) * (1 + len(fractions)))
	}, scheduler.Retention(0))
}
