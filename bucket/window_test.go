package bucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
)

func TestAWindowIsOverWhenItsPeriodHasPassed(t *testing.T) {
	t.Parallel()
	opened := bucket.Window{ID: 7, From: start, Count: 3}
	for _, c := range []struct {
		name    string
		window  bucket.Window
		now     int64
		period  time.Duration
		expired bool
	}{
		{"none was opened yet", bucket.Window{}, start, time.Minute, true},
		{"none was opened yet, and the clock is at its beginning", bucket.Window{}, 0, time.Minute, true},
		{"as it opens", opened, start, time.Minute, false},
		{"a microsecond before its end", opened, start + minute - 1, time.Minute, false},
		{"at its end", opened, start + minute, time.Minute, true},
		{"an idle hour later", opened, start + hour, time.Minute, true},
		{"the clock stepped back", opened, start - 10*second, time.Minute, false},
		{"the clock stepped back by a year", opened, start - 365*day, time.Minute, false},
		{"a period with a fraction of a second", opened, start + 1500*millisecond - 1, 1500 * time.Millisecond, false},
		{"at its end", opened, start + 1500*millisecond, 1500 * time.Millisecond, true},
		{"a window at the end of time never ends before it", bucket.Window{ID: 1, From: math.MaxInt64}, math.MaxInt64 - 1, time.Minute, false},
		{"nor does one at its beginning overflow", bucket.Window{ID: 1, From: math.MinInt64}, start, 366 * 24 * time.Hour, true},
	} {
		require.Equal(t, c.expired, c.window.Expired(c.now, c.period), c.name)
	}
	require.Equal(t, start+minute, opened.Ends(time.Minute))
	require.Equal(t, int64(math.MaxInt64), bucket.Window{From: math.MaxInt64 - 1}.Ends(time.Minute))
}

func TestAWindowHasRoomForWhatWasNotCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, count, room int64 }{
		{10, 0, 10},
		{10, 9, 1},
		{10, 10, 0},
		{10, 13, 0}, // more workers than one
		{0, 0, 0},   // a pause
		{-5, 0, 0},
		{10, -3, 10}, // a damaged row lets no more pass than the limit
		{10, math.MinInt64, 10},
		{math.MaxInt64, math.MinInt64, math.MaxInt64},
	} {
		require.Equal(t, c.room, bucket.Window{ID: 1, Count: c.count}.Room(c.limit), "%+v", c)
	}
}

func TestAWindowThatIsRolledIsANewGenerationWithNothingCounted(t *testing.T) {
	t.Parallel()
	w := bucket.Window{ID: 7, From: start, Count: 12}
	require.Equal(t, bucket.Window{ID: 8, From: start + hour}, w.Rolled(start+hour))
	require.Equal(t, bucket.Window{ID: 8, From: start - hour}, w.Rolled(start-hour), "it is anchored where the clock is")
	require.Equal(t, bucket.Window{ID: 7, From: start, Count: 13}, w.Counted())
	require.Equal(t, bucket.Window{ID: 7, Count: 1}, bucket.Window{ID: 7, Count: -4}.Counted())
}

func TestAQuotaIsWrittenAsARateWithAWholeCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bucket.Quota{
		"100/m": {100, time.Minute}, "1/s": {1, time.Second}, "10 / 30s": {10, 30 * time.Second},
		"2.000/h": {2, time.Hour}, "1000000000/366d": {bucket.MaxQuota, 366 * 24 * time.Hour},
	} {
		q, err := bucket.ParseQuota(text)
		require.NoError(t, err, text)
		require.Equal(t, want, q)
		again, err := bucket.ParseQuota(q.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	_, err := bucket.ParseQuota("1.5/s")
	require.EqualError(t, err, `rate "1.5/s": fixed windows count whole starts: use a whole number, as in "1/s"`)
	_, err = bucket.ParseQuota("100/mo")
	require.EqualError(t, err, `rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`)
	for _, text := range []string{"0/m", " 00 / 30s"} {
		_, err = bucket.ParseQuota(text)
		require.ErrorContains(t, err, `is below 1: to let nothing start, use "weir limits pause", or an entry under "limits" with a limit of 0 and a per`)
	}
	_, err = bucket.ParseQuota("0.5/m")
	require.ErrorContains(t, err, `use at least 1 and a longer period, as in "1/15m"`)
	_, err = bucket.ParseQuota("10/1500ms")
	require.EqualError(t, err, `rate "10/1500ms": unknown period "1500ms": use an entry under "limits" with a limit of 10 and a per of 1500ms`)
	for _, text := range []string{"10/500ms", "x/1500ms", "0/mo", "/1500ms"} {
		_, want := bucket.Parse(text)
		_, err = bucket.ParseQuota(text)
		require.Equal(t, want, err, "no period can be that short, and no count that")
	}
	require.Equal(t, "60/m", bucket.Quota{Count: 60, Period: time.Minute}.String())
	require.Equal(t, "0/m", bucket.Quota{Period: time.Minute}.String())
	require.Equal(t, "5/1.5s", bucket.Quota{Count: 5, Period: 1500 * time.Millisecond}.String())
	require.Empty(t, bucket.Quota{}.String())
}

func TestAQuotaHasACountAndAPeriodOfASecondOrMore(t *testing.T) {
	t.Parallel()
	q, err := bucket.NewQuota(0, 1500*time.Millisecond+7)
	require.NoError(t, err)
	require.Equal(t, bucket.Quota{Period: 1500 * time.Millisecond}, q)
	for _, c := range []struct {
		count  int64
		period time.Duration
	}{
		{-1, time.Minute},
		{bucket.MaxQuota + 1, time.Minute},
		{1, time.Second - 1},
		{1, 0},
		{1, -time.Minute},
		{1, 366*24*time.Hour + time.Microsecond},
	} {
		_, err := bucket.NewQuota(c.count, c.period)
		require.Error(t, err, "%+v", c)
	}
}

func TestAnotherCountKeepsThePeriod(t *testing.T) {
	t.Parallel()
	q := bucket.Quota{Count: 100, Period: time.Minute}
	for text, count := range map[string]int64{"50/m": 50, "500/60s": 500, "7 / 1m": 7} {
		other, err := q.WithCount(text)
		require.NoError(t, err, text)
		require.Equal(t, bucket.Quota{Count: count, Period: time.Minute}, other)
	}
	odd := bucket.Quota{Count: 5, Period: 1500 * time.Millisecond}
	for _, text := range []string{"8/1.5s", "8/1500ms", "8 / 1s500ms"} {
		other, err := odd.WithCount(text)
		require.NoError(t, err)
		require.Equal(t, bucket.Quota{Count: 8, Period: odd.Period}, other)
	}
	for _, text := range []string{"8/2s", "8/s", "8/2500ms"} {
		_, err := odd.WithCount(text)
		require.EqualError(t, err, `rate "`+text+`": the period of a window stays: use a count per 1.5s, as in "100/1.5s"`)
	}
	_, err := bucket.Quota{Count: 1, Period: time.Second}.WithCount("8/1500ms")
	require.EqualError(t, err, `rate "8/1500ms": the period of a window stays: use a count per s, as in "100/s"`)
	_, err = q.WithCount("50/s")
	require.EqualError(t, err, `rate "50/s": the period of a window stays: use a count per m, as in "100/m"`)
	for _, text := range []string{"50", "0/m", "1.5/m", "x/m", "", "/m"} {
		_, err := q.WithCount(text)
		require.Error(t, err, text)
	}
}

func TestTheBoundAndBothSizingRules(t *testing.T) {
	t.Parallel()
	quota := func(n int64) bucket.Quota { return bucket.Quota{Count: n, Period: time.Minute} }
	require.EqualValues(t, 100, quota(100).Bound(1))
	require.EqualValues(t, 103, quota(100).Bound(4))
	require.EqualValues(t, 100, quota(100).Bound(0), "there is a worker")
	require.Zero(t, quota(0).Bound(16), "a pause lets nothing start")
	require.EqualValues(t, 97, bucket.ForWindow(100, 4))
	require.EqualValues(t, 47, bucket.ForInterval(100, 4))
	require.EqualValues(t, 100, quota(bucket.ForWindow(100, 4)).Bound(4))
	require.EqualValues(t, 100, 2*quota(bucket.ForInterval(100, 4)).Bound(4))
	require.Zero(t, bucket.ForWindow(3, 8))
	require.Zero(t, bucket.ForInterval(3, 8))
}
