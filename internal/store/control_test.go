package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestAnOperatorsWordOnALimitIsStoredAndEndsItsHold(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{declared(t, "l", "1/s"), declared(t, "other", "1/s")}))
		looks := 0
		defer b.OnWake(func(w store.Wake) {
			require.Equal(t, store.Wake{Look: true}, w)
			looks++
		})()
		want := b.limit(t, "l")
		for _, step := range []struct {
			do     func() (bool, error)
			change func()
		}{
			{func() (bool, error) {
				return b.SetOverride(t.Context(), "l", store.Override{Rate: "5/m", Burst: 7, For: 9 * second, Reason: "sale"})
			}, func() {
				want.Rate, want.OverBurst, want.OverUntil, want.OverReason = text("5/m"), number(7), number(b.now()+9*second), text("sale")
			}},
			{func() (bool, error) { return b.PauseLimit(t.Context(), "l", true) }, func() { want.Paused = true }},
			{func() (bool, error) {
				return b.SetOverride(t.Context(), "l", store.Override{Rate: "6/m"})
			}, func() {
				want.Rate, want.OverBurst, want.OverUntil, want.OverReason = text("6/m"), noNumber, noNumber, noText
			}},
			{func() (bool, error) { return b.PauseLimit(t.Context(), "l", false) }, func() { want.Paused = false }},
			{func() (bool, error) { return b.UnsetOverride(t.Context(), "l") }, func() { want.Rate = noText }},
		} {
			b.exec(t, `update weir_limits set held_from = 1, held_until = 2`)
			there, err := step.do()
			require.NoError(t, err)
			require.True(t, there)
			step.change()
			require.Equal(t, want, b.limit(t, "l"))
			require.EqualValues(t, 2, b.limit(t, "other").HeldUntil)
		}
		require.Equal(t, 5, looks)
		for _, do := range []func() (bool, error){
			func() (bool, error) { return b.SetOverride(t.Context(), "gone", store.Override{Rate: "1/s"}) },
			func() (bool, error) { return b.UnsetOverride(t.Context(), "gone") },
			func() (bool, error) { return b.PauseLimit(t.Context(), "gone", true) },
		} {
			there, err := do()
			require.NoError(t, err)
			require.False(t, there)
		}
	})
}

func TestAPausedQueueIsSeenByEverySurvey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		paused := func() map[string]struct{} {
			got, err := b.Survey(t.Context(), nil, nil)
			require.NoError(t, err)
			return got.Paused
		}
		require.Empty(t, paused())
		for range 2 {
			require.NoError(t, b.PauseQueue(t.Context(), "q", true))
			require.NoError(t, b.PauseQueue(t.Context(), "Q", false))
			require.Equal(t, map[string]struct{}{"q": {}}, paused())
		}
		queues, err := b.Queues(t.Context())
		require.NoError(t, err)
		require.Equal(t, []store.QueueStats{{Queue: "q", Paused: true}}, queues)
		require.NoError(t, b.PauseQueue(t.Context(), "q", false))
		require.Empty(t, paused())
	})
}

func TestRunNowBringsAScheduledJobIntoLineAndNoOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := full("a")
		job.Delay = 3600 * second
		b.insert(t, job)
		var wakes []store.Wake
		defer b.OnWake(func(w store.Wake) { wakes = append(wakes, w) })()
		want := b.stored(t, job.UID)
		b.clock.Advance(time.Second)
		run := func(uid string) bool {
			was, err := b.RunNow(t.Context(), uid)
			require.NoError(t, err)
			return was
		}
		require.True(t, run(job.UID))
		want.State, want.RunAt, want.FirstDue = store.Waiting, b.now(), b.now()
		require.Equal(t, want, b.stored(t, job.UID))
		require.Equal(t, []store.Wake{{Lines: []store.Line{{Task: "a", Queue: "q"}}}}, wakes)
		require.False(t, run(job.UID), "it waits already")
		b.grant(t, 1, "a", 1)
		require.False(t, run(job.UID), "it runs")
		require.False(t, run(newID()))
		require.Len(t, wakes, 1)
	})
}
