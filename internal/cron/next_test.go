package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/cron"
)

func spec(t testing.TB, text, zone string) cron.Spec {
	t.Helper()
	s, err := cron.Parse(text, zone)
	require.NoError(t, err)
	return s
}

const form = "2006-01-02 15:04-07:00"

// ticks are those of a spec from a date's midnight to another's.
func ticks(t testing.TB, s cron.Spec, from, until string) (out []string) {
	t.Helper()
	zone := s.In(time.Time{}).Location()
	at, err := time.ParseInLocation(time.DateOnly, from, zone)
	require.NoError(t, err)
	end, err := time.ParseInLocation(time.DateOnly, until, zone)
	require.NoError(t, err)
	for at = s.Next(at.Add(-time.Nanosecond)); at.Before(end); at = s.Next(at) {
		out = append(out, at.Format(form))
	}
	return out
}

// The clocks of these zones are changed in these days.
func TestTicksAroundChangesOfTheClock(t *testing.T) {
	t.Parallel()
	const (
		newYork  = "America/New_York"
		lordHowe = "Australia/Lord_Howe"
		saoPaulo = "America/Sao_Paulo"
	)
	for _, c := range []struct {
		name, text, zone, from, until string
		want                          []string
	}{
		{
			"a daily one that is left out comes when the clock has been put forward", "30 2 * * *", newYork, "2025-03-08", "2025-03-11",
			[]string{"2025-03-08 02:30-05:00", "2025-03-09 03:00-04:00", "2025-03-10 02:30-04:00"},
		},
		{
			"a daily one that comes twice counts the first time", "30 1 * * *", newYork, "2025-11-01", "2025-11-04",
			[]string{"2025-11-01 01:30-04:00", "2025-11-02 01:30-04:00", "2025-11-03 01:30-05:00"},
		},
		{
			"what is not touched is as ever", "30 1 * * *", newYork, "2025-03-08", "2025-03-11",
			[]string{"2025-03-08 01:30-05:00", "2025-03-09 01:30-05:00", "2025-03-10 01:30-04:00"},
		},
		{
			"an hourly one goes on evenly over the gap", "0 * * * *", newYork, "2025-03-09", "2025-03-10",
			append([]string{"2025-03-09 00:00-05:00", "2025-03-09 01:00-05:00"}, hours("2025-03-09 %H:00-04:00", 3, 23)...),
		},
		{
			"an hourly one off the hour has nothing to make up for", "30 * * 3 0", newYork, "2025-03-09", "2025-03-10",
			append([]string{"2025-03-09 00:30-05:00", "2025-03-09 01:30-05:00"}, hours("2025-03-09 %H:30-04:00", 3, 23)...),
		},
		{
			"an hourly one counts both times", "0 0-23 * * *", newYork, "2025-11-02", "2025-11-03",
			append([]string{"2025-11-02 00:00-04:00", "2025-11-02 01:00-04:00", "2025-11-02 01:00-05:00"}, hours("2025-11-02 %H:00-05:00", 2, 23)...),
		},
		{
			"one of several minutes counts both times", "*/15 1 * * *", newYork, "2025-11-02", "2025-11-03",
			[]string{
				"2025-11-02 01:00-04:00", "2025-11-02 01:15-04:00", "2025-11-02 01:30-04:00", "2025-11-02 01:45-04:00",
				"2025-11-02 01:00-05:00", "2025-11-02 01:15-05:00", "2025-11-02 01:30-05:00", "2025-11-02 01:45-05:00",
			},
		},
		{
			"several that are left out are made up for once", "*/15 2 * * *", newYork, "2025-03-09", "2025-03-10",
			[]string{"2025-03-09 03:00-04:00"},
		},
		{
			"one that is made up for where another is due is one", "30 2,3 * * *", newYork, "2025-03-09", "2025-03-10",
			[]string{"2025-03-09 03:00-04:00", "2025-03-09 03:30-04:00"},
		},
		{
			"every two hours", "0 */2 9 3 *", newYork, "2025-03-09", "2025-03-10",
			append([]string{"2025-03-09 00:00-05:00", "2025-03-09 03:00-04:00"}, "2025-03-09 04:00-04:00", "2025-03-09 06:00-04:00", "2025-03-09 08:00-04:00",
				"2025-03-09 10:00-04:00", "2025-03-09 12:00-04:00", "2025-03-09 14:00-04:00", "2025-03-09 16:00-04:00", "2025-03-09 18:00-04:00",
				"2025-03-09 20:00-04:00", "2025-03-09 22:00-04:00"),
		},
		{
			"a midnight that is left out", "0 0 * * *", saoPaulo, "2018-11-03", "2018-11-06",
			[]string{"2018-11-03 00:00-03:00", "2018-11-04 01:00-02:00", "2018-11-05 00:00-02:00"},
		},
		{
			"a midnight that comes twice", "30 23 * * *", saoPaulo, "2018-02-16", "2018-02-19",
			[]string{"2018-02-16 23:30-02:00", "2018-02-17 23:30-02:00", "2018-02-18 23:30-03:00"},
		},
		{
			"a descriptor", "@daily", saoPaulo, "2018-11-03", "2018-11-06",
			[]string{"2018-11-03 00:00-03:00", "2018-11-04 01:00-02:00", "2018-11-05 00:00-02:00"},
		},
		{
			"half an hour forward", "15 2 * * *", lordHowe, "2025-10-04", "2025-10-07",
			[]string{"2025-10-04 02:15+10:30", "2025-10-05 02:30+11:00", "2025-10-06 02:15+11:00"},
		},
		{
			"half an hour back", "45 1 * * *", lordHowe, "2025-04-05", "2025-04-08",
			[]string{"2025-04-05 01:45+11:00", "2025-04-06 01:45+11:00", "2025-04-07 01:45+10:30"},
		},
		{
			"half an hour back, in quarters", "*/15 1 * * *", lordHowe, "2025-04-06", "2025-04-07",
			[]string{
				"2025-04-06 01:00+11:00", "2025-04-06 01:15+11:00", "2025-04-06 01:30+11:00", "2025-04-06 01:45+11:00",
				"2025-04-06 01:30+10:30", "2025-04-06 01:45+10:30",
			},
		},
		{
			"half an hour forward, hourly", "0 * 5 10 *", lordHowe, "2025-10-05", "2025-10-06",
			append([]string{"2025-10-05 00:00+10:30", "2025-10-05 01:00+10:30"}, hours("2025-10-05 %H:00+11:00", 3, 23)...),
		},
		{
			"half an hour back, hourly", "0 * 6 4 *", lordHowe, "2025-04-06", "2025-04-07",
			append([]string{"2025-04-06 00:00+11:00", "2025-04-06 01:00+11:00"}, hours("2025-04-06 %H:00+10:30", 2, 23)...),
		},
		{
			"a whole day left out", "0 12 30 12 *", "Pacific/Apia", "2011-12-01", "2012-01-31",
			[]string{"2011-12-31 00:00+14:00"},
		},
		{
			// Where the time package is wrong about the bounds of a zone.
			"the last day of a leap year", "30 23 * * *", newYork, "2040-12-30", "2041-01-02",
			[]string{"2040-12-30 23:30-05:00", "2040-12-31 23:30-05:00", "2041-01-01 23:30-05:00"},
		},
		{
			"Paris, in spring and autumn", "30 2 * 3,10 sun", "Europe/Paris", "2026-03-22", "2026-11-01",
			[]string{
				"2026-03-22 02:30+01:00", "2026-03-29 03:00+02:00",
				"2026-10-04 02:30+02:00", "2026-10-11 02:30+02:00", "2026-10-18 02:30+02:00", "2026-10-25 02:30+02:00",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ticks(t, spec(t, c.text, c.zone), c.from, c.until))
		})
	}
}

// hours writes a pattern for each of some hours.
func hours(pattern string, from, to int) (out []string) {
	for h := from; h <= to; h++ {
		out = append(out, strings.ReplaceAll(pattern, "%H", fmt.Sprintf("%02d", h)))
	}
	return out
}

func TestTheDaysOfAMonthAndOfAWeekAreAskedTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, from, until string
		want                    []string
	}{
		{"either will do where both are given", "0 0 13 * fri", "2026-02-01", "2026-03-01", []string{"2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27"}},
		{"a star leaves it to the other", "0 0 * * 0", "2026-02-01", "2026-02-10", []string{"2026-02-01", "2026-02-08"}},
		{"the last day of a long month", "0 0 31 * *", "2026-01-01", "2026-06-01", []string{"2026-01-31", "2026-03-31", "2026-05-31"}},
		{"the rarest date, over a century without it", "0 0 29 2 *", "2093-01-01", "2108-12-31", []string{"2096-02-29", "2104-02-29", "2108-02-29"}},
		{"names", "0 0 1 jan-mar *", "2026-01-01", "2026-12-31", []string{"2026-01-01", "2026-02-01", "2026-03-01"}},
		{"every other day of a month", "0 0 */10 1 *", "2026-01-01", "2026-12-31", []string{"2026-01-01", "2026-01-11", "2026-01-21", "2026-01-31"}},
		{"@weekly", "@weekly", "2026-02-01", "2026-02-10", []string{"2026-02-01", "2026-02-08"}},
		{"@monthly", "@monthly", "2026-02-01", "2026-03-10", []string{"2026-02-01", "2026-03-01"}},
		{"@yearly", "@annually", "2026-02-01", "2027-03-10", []string{"2027-01-01"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i := range c.want {
				c.want[i] += " 00:00+00:00"
			}
			require.Equal(t, c.want, ticks(t, spec(t, c.text, "UTC"), c.from, c.until))
		})
	}
}

func TestAnIntervalCountsFromItsAnchor(t *testing.T) {
	t.Parallel()
	anchor := time.Date(2026, 1, 1, 12, 0, 0, 7_000, time.UTC)
	s := spec(t, "@every 10m", "Europe/Paris").From(anchor)
	for after, want := range map[time.Duration]time.Duration{
		-time.Microsecond:                    0,
		0:                                    10 * time.Minute,
		time.Nanosecond:                      10 * time.Minute,
		10*time.Minute - 1:                   10 * time.Minute,
		10 * time.Minute:                     20 * time.Minute,
		3*time.Hour + 7*time.Minute:          3*time.Hour + 10*time.Minute,
		-25 * time.Minute:                    -20 * time.Minute,
		365*24*time.Hour + time.Microsecond:  365*24*time.Hour + 10*time.Minute,
		-365*24*time.Hour - time.Microsecond: -365 * 24 * time.Hour,
	} {
		require.Equal(t, want, s.Next(anchor.Add(after)).Sub(anchor), "after %v", after)
	}
	require.Equal(t, 50*time.Minute, s.Latest(anchor, anchor.Add(59*time.Minute)).Sub(anchor))
	require.Equal(t, "13:10", s.Next(anchor).Format("15:04"))
}

// Next is the first of those that Next finds one by one, from wherever it
// starts, and Latest the last.
func TestNextAndLatestAgreeWithAWalkOverAllTicks(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "America/St_Johns", "Africa/Casablanca", "Pacific/Apia"}
	specs := []string{"* * * * *", "30 2 * * *", "30 1 * * *", "*/15 1 * * *", "0 * * * *", "59 23 * * *", "0 0,12 1 * *", "17 3 29 2 *", "* * 1 1 *"}
	rapid.Check(t, func(t *rapid.T) {
		s, err := cron.Parse(rapid.SampledFrom(specs).Draw(t, "cron"), rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		start := time.Unix(rapid.Int64Range(500_000_000, 2_200_000_000).Draw(t, "start"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		walk := []time.Time{s.Next(start)}
		for range 50 {
			last := walk[len(walk)-1]
			next := s.Next(last)
			require.True(t, next.After(last))
			walk = append(walk, next)
		}
		i := rapid.IntRange(1, len(walk)-1).Draw(t, "i")
		between := time.Duration(rapid.Int64Range(0, int64(walk[i].Sub(walk[i-1])-1)).Draw(t, "between"))
		require.Equal(t, walk[i], s.Next(walk[i-1].Add(between)))
		require.Equal(t, walk[i-1], s.Latest(walk[0], walk[i-1].Add(between)))
	})
}

// On a clock that is never changed, and for daily entries on any, there is one
// tick for each date that is named.
func TestADailyEntryHasOneTickADay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Africa/Casablanca", "Europe/Dublin"}).Draw(t, "zone")
		minute, hour := rapid.IntRange(0, 59).Draw(t, "minute"), rapid.IntRange(0, 23).Draw(t, "hour")
		s, err := cron.Parse(fmt.Sprintf("%d %d * * *", minute, hour), zone)
		require.NoError(t, err)
		date := time.Date(rapid.IntRange(1990, 2040).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		at := s.Next(time.Date(date.Year(), 1, 1, 0, 0, 0, -1, s.In(date).Location()))
		for range 366 {
			require.Equal(t, date.Format(time.DateOnly), at.Format(time.DateOnly), "at %s", at)
			date, at = date.AddDate(0, 0, 1), s.Next(at)
		}
	})
}

func BenchmarkTheRarestDate(b *testing.B) {
	s, at := spec(b, "0 0 29 2 *", "America/New_York"), time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		s.Next(at)
	}
}
