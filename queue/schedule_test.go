package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// plan stores schedules as a scheduler does.
func (b *bundle) plan(t *testing.T, rows ...store.Schedule) {
	t.Helper()
	for _, row := range rows {
		require.NoError(t, b.Store().DeclareSchedules(t.Context(), []string{row.Name}, func(now int64, locked []*store.Schedule) []store.NewJob {
			row.SeenAt = now
			row.SetJob(store.NewJob{Task: "report", Args: []byte(`{"a":1}`), Priority: 3, Metadata: `{"team":"books"}`})
			*locked[0] = row
			return nil
		}))
	}
}

func (b *bundle) schedules(t *testing.T) []queue.ScheduleInfo {
	t.Helper()
	list, err := b.Schedules(t.Context())
	require.NoError(t, err)
	return list
}

func TestAScheduleIsShownWithItsNextTicksInItsZone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		next := time.Date(2030, 3, 30, 1, 30, 0, 0, time.UTC) // 02:30 in Paris, the day before the clock is put forward
		b.plan(t,
			store.Schedule{Name: "every", Cron: "@every 10m", Missed: "once", Anchor: start.UnixMicro() + 7, NextTick: start.Add(10*time.Minute).UnixMicro() + 7},
			store.Schedule{Name: "nightly", Cron: "30 2 * * *", Timezone: "Europe/Paris", Missed: "skip", NextTick: next.UnixMicro(), LastTick: start.UnixMicro()})
		list := b.schedules(t)
		require.Len(t, list, 2)
		var ticks []string
		for _, at := range append(list[0].NextTicks, list[1].NextTicks...) {
			ticks = append(ticks, at.Format(time.RFC3339))
		}
		require.Equal(t, []string{
			"2030-01-02T03:14:05Z", "2030-01-02T03:24:05Z", "2030-01-02T03:34:05Z",
			"2030-03-30T02:30:00+01:00", "2030-03-31T03:00:00+02:00", "2030-04-01T02:30:00+02:00",
		}, ticks)
		doc, err := json.Marshal(list[1])
		require.NoError(t, err)
		require.JSONEq(t, `{"name": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Paris", "missed": "skip", "task": "report", "queue": null,
"args": {"a": 1}, "priority": 3, "metadata": {"team": "books"}, "unique_key": null, "paused": false, "declared": true,
"last_tick_at": "2030-01-02T03:04:05.000000Z",
"next_ticks": ["2030-03-30T01:30:00.000000Z", "2030-03-31T01:00:00.000000Z", "2030-04-01T00:30:00.000000Z"]}`, string(doc))

		b.clock.Advance(2 * time.Minute)
		require.True(t, b.schedules(t)[0].Declared)
		b.clock.Advance(time.Second)
		require.False(t, b.schedules(t)[0].Declared)
		require.Empty(t, b.schedules(t)[0].NextTicks)
	})
}

func TestAResumedScheduleIsPlannedFromNow(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.plan(t, store.Schedule{Name: "s", Cron: "@every 10m", Anchor: start.UnixMicro(), NextTick: start.Add(10 * time.Minute).UnixMicro()})
		require.NoError(t, b.ResumeSchedule(t.Context(), "s"), "one that is not paused stays as it is")
		require.NoError(t, b.PauseSchedule(t.Context(), "s"))
		require.True(t, b.schedules(t)[0].Paused)
		b.clock.Advance(time.Hour + time.Minute)
		require.NoError(t, b.ResumeSchedule(t.Context(), "s"))
		rows, err := b.Store().Schedules(t.Context())
		require.NoError(t, err)
		require.False(t, rows[0].Paused)
		require.Equal(t, start.Add(70*time.Minute).UnixMicro(), rows[0].NextTick)
	})
}

func TestADamagedScheduleIsShownAsFarAsItCanBeRead(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.plan(t, store.Schedule{Name: "s", Cron: "* *", Timezone: "UTC", LastTick: start.UnixMicro()})
		_, err := b.db.SQL(t).ExecContext(t.Context(), `update weir_schedules set job = '{'`)
		require.NoError(t, err)
		s := b.schedules(t)[0]
		require.Equal(t, []any{"s", "* *", "", true, 0}, []any{s.Name, s.Cron, s.Task, s.Declared, len(s.NextTicks)})
		require.NoError(t, b.PauseSchedule(t.Context(), "s"))
		require.NoError(t, b.ResumeSchedule(t.Context(), "s"))
		_, err = b.RunSchedule(t.Context(), "s")
		require.ErrorContains(t, err, `schedule "s": its job cannot be read`)
	})
}

func TestATaskMakesAJobThatIsEnqueuedWithOthers(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one, err := queue.Task[string]("one").Job("x", queue.Priority(2))
		require.NoError(t, err)
		two, err := queue.Task[int]("two").Job(7)
		require.NoError(t, err)
		receipts, err := b.EnqueueMany(t.Context(), []queue.NewJob{one, two})
		require.NoError(t, err)
		require.Equal(t, []any{"one", 2, `"x"`}, []any{b.get(t, receipts[0].ID).Task, b.get(t, receipts[0].ID).Priority, string(b.get(t, receipts[0].ID).RawArgs)})
		require.Equal(t, `7`, string(b.get(t, receipts[1].ID).RawArgs))
		_, err = queue.Task[string]("one").Job("x", queue.Queue(""))
		require.EqualError(t, err, `task "one": queue "": it is empty: use 1 to 255 bytes`)
	})
}
