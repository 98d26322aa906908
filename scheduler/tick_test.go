package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/cron"
	"github.com/weirq/weir/internal/store"
)

// micros is a time on the first of January 2026, or with a date before it.
func micros(t testing.TB, text string) int64 {
	t.Helper()
	if len(text) < len("01-01 00:00:00") {
		text = "01-01 " + text
	}
	at, err := time.Parse(time.DateTime, "2026-"+text)
	require.NoError(t, err)
	return at.UnixMicro()
}

// What becomes of a schedule that was last looked after at one time, at another.
func TestTicksThatAreDueAreFiredOrMissed(t *testing.T) {
	t.Parallel()
	const every5s, hourly, daily = "@every 5s", "0 * * * *", "30 6 * * *"
	for _, c := range []struct {
		name, cron string
		missed     MissedTicks
		last       string // tick that was fired; the row was planned then
		now        string
		paused     bool
		fire       []string
		miss       [2]string
		next       string
		replanned  bool
	}{
		{name: "before its time", cron: hourly, last: "12:00:00", now: "12:59:59", next: "13:00:00"},
		{name: "on time", cron: hourly, last: "12:00:00", now: "13:00:00", fire: []string{"13:00:00"}, next: "14:00:00"},
		{name: "a little late", cron: hourly, last: "12:00:00", now: "13:00:59", fire: []string{"13:00:00"}, next: "14:00:00"},
		{name: "a minute late", cron: hourly, last: "12:00:00", now: "13:01:00", miss: [2]string{"13:00:00", "13:00:00"}, next: "14:00:00"},
		{
			name: "a minute late, once", cron: hourly, missed: Once, last: "12:00:00", now: "13:01:00",
			fire: []string{"13:00:00"}, miss: [2]string{"13:00:00", "13:00:00"}, next: "14:00:00",
		},
		{
			name: "several that are a little late", cron: every5s, last: "12:00:00", now: "12:00:19",
			fire: []string{"12:00:05", "12:00:10", "12:00:15"}, next: "12:00:20",
		},
		{
			name: "a jump of eight hours", cron: hourly, last: "12:00:00", now: "20:30:00",
			miss: [2]string{"13:00:00", "20:00:00"}, next: "21:00:00",
		},
		{
			name: "a jump of eight hours, once", cron: hourly, missed: Once, last: "12:00:00", now: "20:30:00",
			fire: []string{"20:00:00"}, miss: [2]string{"13:00:00", "20:00:00"}, next: "21:00:00",
		},
		{
			name: "a jump of eight hours, each five seconds", cron: every5s, last: "12:00:00", now: "20:00:03",
			fire: []string{"20:00:00"}, miss: [2]string{"12:00:05", "20:00:00"}, next: "20:00:05",
		},
		{
			name: "a jump onto a tick", cron: hourly, last: "12:00:00", now: "15:00:00",
			fire: []string{"15:00:00"}, miss: [2]string{"13:00:00", "15:00:00"}, next: "16:00:00",
		},
		{
			name: "a month of days, once", cron: daily, missed: Once, last: "01-01 06:30:00", now: "02-01 06:00:00",
			fire: []string{"01-31 06:30:00"}, miss: [2]string{"01-02 06:30:00", "01-31 06:30:00"}, next: "02-01 06:30:00",
		},
		{name: "paused", cron: hourly, last: "12:00:00", now: "15:30:00", paused: true, next: "13:00:00"},
		{name: "a step back by eight hours", cron: hourly, last: "12:00:00", now: "04:00:00", next: "13:00:00"},
		{name: "a step back by a day and more", cron: hourly, last: "01-03 12:00:00", now: "01-02 11:59:59", next: "01-02 12:00:00", replanned: true},
		{name: "a step back of an interval", cron: "@every 10m", last: "12:00:00", now: "04:00:00", next: "04:10:00", replanned: true},
		{name: "a small step back of an interval", cron: "@every 10m", last: "12:00:00", now: "11:59:30", next: "12:10:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spec, err := cron.Parse(c.cron, "UTC")
			require.NoError(t, err)
			last := micros(t, c.last)
			row := &store.Schedule{Missed: string(c.missed), LastTick: last, Paused: c.paused}
			replan(row, spec, last)
			out := planTicks(row, spec, micros(t, c.now))

			want := planned{replanned: c.replanned}
			for _, text := range c.fire {
				want.fire = append(want.fire, micros(t, text))
			}
			if c.miss[0] != "" {
				want.missed, want.missedUntil = micros(t, c.miss[0]), micros(t, c.miss[1])
			}
			require.Equal(t, want, out)
			require.Equal(t, micros(t, c.next), row.NextTick, "next %s", time.UnixMicro(row.NextTick).UTC())
			require.Equal(t, micros(t, c.now), row.SeenAt)
			if n := len(want.fire); n > 0 {
				last = want.fire[n-1]
			}
			if len(c.last) == len("12:00:00") && !c.replanned {
				require.Equal(t, last, row.LastTick)
			}
		})
	}
}

// A plan that was made while the clock was ahead is made again when it is right.
func TestAPlanOfAClockThatWasWrongIsMadeAnew(t *testing.T) {
	t.Parallel()
	for text, wanted := range map[string]string{"0 * * * *": "13:00:00", "@every 10m": "12:10:00"} {
		spec, err := cron.Parse(text, "UTC")
		require.NoError(t, err)
		row := &store.Schedule{}
		replan(row, spec, micros(t, "02-07 12:00:00"))
		require.True(t, planTicks(row, spec, micros(t, "12:00:00")).replanned)
		require.Equal(t, micros(t, wanted), row.NextTick, text)
		require.False(t, planTicks(row, spec, micros(t, "12:00:30")).replanned)
		require.Equal(t, micros(t, wanted), row.NextTick, text)
	}
}

// Whatever the clock does, no tick of a cron spec comes twice within a day, none
// comes before its time, and where it goes on in small steps from the latest that
// was fired, none is left out.
func TestNoTickComesTwiceOrTooSoon(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec, err := cron.Parse(rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 * * * *", "30 1 * * *"}).Draw(t, "cron"), "America/New_York")
		require.NoError(t, err)
		now := time.Date(2025, 11, 2, 3, 0, 0, 0, time.UTC).UnixMicro()
		row := &store.Schedule{Missed: rapid.SampledFrom([]string{"skip", "once"}).Draw(t, "missed")}
		replan(row, spec, now)
		fired := map[int64]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			before := now
			now += rapid.OneOf(rapid.Int64Range(0, 59*second), rapid.Int64Range(-3*3600*second, 6*3600*second)).Draw(t, "step")
			planFrom, last := row.NextTick, row.LastTick
			out := planTicks(row, spec, now)
			for _, tick := range out.fire {
				require.False(t, fired[tick], "%s is fired twice", time.UnixMicro(tick).UTC())
				require.LessOrEqual(t, tick, now)
				require.Equal(t, tick, next(spec, tick-1), "it is a tick")
				fired[tick] = true
			}
			require.Greater(t, row.NextTick, now)
			if now >= before && now-before < 60*second && planFrom > before && last <= before {
				for tick := next(spec, before); tick <= now; tick = next(spec, tick) {
					require.True(t, fired[tick], "%s is left out", time.UnixMicro(tick).UTC())
				}
			}
		}
	})
}
