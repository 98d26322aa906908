package queue_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

func (b *bundle) stats(t *testing.T) *queue.Stats {
	t.Helper()
	s, err := b.Stats(t.Context())
	require.NoError(t, err)
	return s
}

func (b *bundle) add(t *testing.T, task string, n int, opts ...queue.EnqueueOption) []queue.Receipt {
	t.Helper()
	out, err := queue.Task[int](task).EnqueueMany(t.Context(), b.Client, make([]int, n), opts...)
	require.NoError(t, err)
	return out
}

func TestStatsCountEveryJobWhereItStands(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		empty := b.stats(t)
		require.Equal(t, &queue.Stats{At: start, Queues: []queue.QueueInfo{}, Processes: []queue.ProcessInfo{}}, empty)

		b.add(t, "ends", 4)
		b.finish(t, b.start(t, "ends", "default")[:3], store.Done, "")
		b.add(t, "fails", 2)
		b.finish(t, b.start(t, "fails", "default"), store.Dead, "no")
		cancelled := b.add(t, "cancelled", 1)[0].ID
		require.NoError(t, b.Cancel(t.Context(), cancelled))
		b.add(t, "later", 5, queue.Delay(time.Hour))
		b.add(t, "now", 6, queue.Queue("q"))

		s := b.stats(t)
		require.Equal(t, []int64{6, 0, 0, 5, 1, 3, 1}, []int64{s.Waiting, s.Throttled, s.Paused, s.Scheduled, s.Running, s.Completed, s.Cancelled})
		require.Equal(t, queue.Dead{Failed: 2}, s.Dead)
		require.Equal(t, []queue.QueueInfo{{Name: "default", Scheduled: 5, Running: 1}, {Name: "q", Waiting: 6, OldestWaitingAt: start}}, s.Queues)
	})
}

// Of the jobs that wait, those are told apart that something holds up.
func TestStatsTellThrottledAndPausedJobsFromTheRest(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		limit, err := bucket.NewLimit("1/m", 0)
		require.NoError(t, err)
		var declared []store.Declared
		for _, task := range []string{"free", "empty", "held", "paused"} {
			declared = append(declared, store.Declared{Name: "task:" + task, Limit: limit, Tasks: []string{task}})
		}
		require.NoError(t, b.Store().Register(t.Context(), nil, declared))
		for _, change := range []string{
			`update weir_limits set level = 999999 where name = 'task:empty'`,
			`update weir_limits set held_from = stamp, held_until = stamp + 1000000 where name = 'task:held'`,
		} {
			_, err := b.db.SQL(t).ExecContext(t.Context(), change)
			require.NoError(t, err)
		}
		require.NoError(t, b.PauseLimit(t.Context(), "task:paused"))
		require.NoError(t, b.PauseQueue(t.Context(), "stopped"))
		b.add(t, "unlimited", 1)
		b.add(t, "free", 2)
		b.add(t, "empty", 4)
		b.add(t, "held", 8)
		b.add(t, "paused", 16)
		b.add(t, "empty", 32, queue.Queue("stopped"))

		s := b.stats(t)
		require.EqualValues(t, 63, s.Waiting)
		require.EqualValues(t, 4+8, s.Throttled)
		require.EqualValues(t, 16+32, s.Paused)

		b.clock.Advance(time.Minute)
		require.Zero(t, b.stats(t).Throttled)
	})
}

func TestUnderFixedWindowsAFullWindowThrottles(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		_, err := b.SwitchStrategy(ctx, store.FixedWindow)
		require.NoError(t, err)
		require.NoError(t, b.Store().DeclareQuotas(ctx, []store.DeclaredQuota{
			{Name: "full", Quota: bucket.Quota{Count: 2, Period: time.Minute}, Tasks: []string{"a"}},
			{Name: "none", Quota: bucket.Quota{Count: 0, Period: time.Minute}, Tasks: []string{"b"}},
			{Name: "room", Quota: bucket.Quota{Count: 2, Period: time.Minute}, Tasks: []string{"c"}},
		}))
		_, err = b.db.SQL(t).ExecContext(ctx, `update weir_limits set window_id = 1, window_count = 2, window_from = `+strconv.FormatInt(start.UnixMicro(), 10)+` where name = 'full'`)
		require.NoError(t, err)
		b.add(t, "a", 1)
		b.add(t, "b", 2)
		b.add(t, "c", 4)
		s := b.stats(t)
		require.Equal(t, store.FixedWindow, s.Strategy)
		require.EqualValues(t, 7, s.Waiting)
		require.EqualValues(t, 3, s.Throttled)
	})
}

func TestWhatIsManyIsCountedNoFurtherThanTheBound(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const many = queue.CountBound + 1
		for range 3 {
			b.add(t, "a", many/2)
		}
		for range 11 {
			b.finish(t, b.start(t, "a", "default"), store.Done, "")
		}
		b.add(t, "a", many)
		b.add(t, "later", many, queue.Delay(time.Hour))
		s := b.stats(t)
		require.Equal(t, []int64{queue.CountBound, queue.CountBound, queue.CountBound}, []int64{s.Waiting, s.Scheduled, s.Completed})
		require.Equal(t, []bool{true, true, true, true}, []bool{s.WaitingCapped, s.ScheduledCapped, s.CompletedCapped, s.CancelledCapped})
		require.False(t, s.RunningCapped)
	})
}

func TestStatsShowTheProcessesAndWhatTheirDatabaseAnswered(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx := t.Context()
		well := store.Process{ID: "1", Host: "a", PID: 1, Slots: 10, Running: 3}
		failing := store.Process{ID: "2", Host: "b", PID: 2, Spell: store.Spell{Error: "disk full", From: start.UnixMicro()}}
		failed := store.Process{ID: "3", Host: "c", PID: 3, Spell: store.Spell{Error: "gone", From: start.UnixMicro(), Until: start.Add(time.Second).UnixMicro()}}
		for _, p := range []store.Process{failed, well, failing} {
			require.NoError(t, b.Store().Join(ctx, p, store.TokenBucket, time.Minute))
		}
		b.clock.Advance(time.Second)
		stayed, err := b.Store().Stay(ctx, well, time.Minute)
		require.NoError(t, err)
		require.True(t, stayed)

		s := b.stats(t)
		require.Equal(t, store.TokenBucket, s.Strategy)
		require.Equal(t, []queue.ProcessInfo{
			{Host: "a", PID: 1, StartedAt: start, SeenAt: start.Add(time.Second), Slots: 10, Running: 3},
			{Host: "b", PID: 2, StartedAt: start, SeenAt: start, Error: "disk full", ErrorFrom: start},
			{Host: "c", PID: 3, StartedAt: start, SeenAt: start, Error: "gone", ErrorFrom: start, ErrorUntil: start.Add(time.Second)},
		}, s.Processes)

		b.clock.Advance(time.Minute)
		require.Empty(t, b.stats(t).Processes)
	})
}

func TestStatsAreJSONWithStableNames(t *testing.T) {
	doc, err := json.Marshal(queue.Stats{At: start, WaitingCapped: true, Processes: []queue.ProcessInfo{{Host: "a", PID: 1, StartedAt: start, SeenAt: start}}, Queues: []queue.QueueInfo{}})
	require.NoError(t, err)
	require.JSONEq(t, `{"at": "2030-01-02T03:04:05.000000Z", "strategy": null, "waiting": 0, "waiting_capped": true, "throttled": 0, "paused": 0,
		"scheduled": 0, "running": 0, "completed": 0, "cancelled": 0, "dead": {"failed": 0, "expired": 0, "shed": 0}, "queues": [],
		"processes": [{"host": "a", "pid": 1, "started_at": "2030-01-02T03:04:05.000000Z", "seen_at": "2030-01-02T03:04:05.000000Z",
			"slots": 0, "running": 0, "error": null, "error_from": null, "error_until": null}]}`, string(doc))
}
