package bucket_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
)

const ms = time.Millisecond

func TestAHoldEndsAfterTheDeferralOrWhenTheBucketIsFull(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rate          string
		burst         int64
		deferral      time.Duration
		hold, perStep int64 // microseconds
	}{
		"a large bucket":                {"100/m", 0, time.Second, second, 600 * millisecond},
		"a bucket full sooner":          {"10/s", 5, time.Second, 500 * millisecond, 100 * millisecond},
		"a slow rate":                   {"1/h", 0, time.Second, second, hour},
		"an odd rate, rounded up":       {"3/7s", 1, 10 * time.Second, 2_333_334, 2_333_334},
		"a fast rate, at least 1 ms":    {"1000000000/s", 1, time.Second, millisecond, millisecond},
		"no deferral, at least 1 ms":    {"100/m", 0, 0, millisecond, 600 * millisecond},
		"a negative one, at least 1 ms": {"100/m", 0, math.MinInt64, millisecond, 600 * millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := drained(t, test.rate, test.burst)
			assert.Equal(t, start+test.hold, b.HoldUntil(start, test.deferral))
			assert.Equal(t, start+test.perStep, b.NextHold(start))
		})
	}
}

func TestAHoldUntilTheNextTokenIsShortWhereATokenIsThere(t *testing.T) {
	t.Parallel()
	b := bucket.Full(limit(t, "1/h", 0), start)
	assert.Equal(t, start+millisecond, b.NextHold(start))
}

func TestALimitWithoutARateIsHeldAsBrieflyAsCanBe(t *testing.T) {
	t.Parallel()
	var b bucket.Bucket
	assert.Equal(t, start+millisecond, b.HoldUntil(start, time.Second))
	assert.Equal(t, start+millisecond, b.NextHold(start))
	assert.Equal(t, -start+millisecond, b.NextHold(-start))
	assert.Equal(t, ms, b.Limit.Hold(time.Second))
	assert.Equal(t, ms, b.Limit.TokenHold())
	assert.Zero(t, b.Limit.Share(time.Second, 0))
	assert.False(t, b.Limit.Narrow())
}

// requireHolds checks what is true of the holds of any bucket at any time.
func requireHolds(t require.TestingT, b bucket.Bucket, now int64) {
	least := int64(math.MaxInt64)
	if now < math.MaxInt64-millisecond {
		least = now + millisecond
	}
	for _, deferral := range []time.Duration{math.MinInt64, 0, time.Second, math.MaxInt64} {
		until := b.HoldUntil(now, deferral)
		require.GreaterOrEqual(t, until, least)
		require.LessOrEqual(t, until, max(b.FullAt(), least))
	}
	require.GreaterOrEqual(t, b.NextHold(now), least)
}

func TestTheShareOfALimitAtALatenessOfTwoMilliseconds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rate             string
		burst            int64
		hold, tokenHold  time.Duration
		share, evenShare float64
		narrow           bool
	}{
		"a rate per minute loses nothing":     {"100/m", 0, time.Second, 600 * ms, 1, 1, false},
		"an odd rate loses nothing":           {"3/7s", 0, time.Second, 2333334 * time.Microsecond, 1, 1, false},
		"a plain rate per second is late":     {"10/s", 0, time.Second, 100 * ms, 1000.0 / 1002, 1, false},
		"a burst with room loses nothing":     {"10/s", 12, time.Second, 100 * ms, 1, 1, false},
		"a burst without room is late":        {"10/s", 11, time.Second, 100 * ms, 1100.0 / 1102, 1, false},
		"a burst of one is late":              {"10/s", 1, 100 * ms, 100 * ms, 100.0 / 102, 100.0 / 102, false},
		"a fraction beside a token is kept":   {"1.5/s", 0, 666667 * time.Microsecond, 666667 * time.Microsecond, 2000.0 / 2006, 2000.0 / 2006, false},
		"a rate per hour is late once":        {"1/h", 0, time.Second, time.Hour, 3600e3 / (3600e3 + 2), 3600e3 / (3600e3 + 2), false},
		"a token in 15 minutes, too":          {"1/15m", 0, time.Second, 15 * time.Minute, 900e3 / (900e3 + 2), 900e3 / (900e3 + 2), false},
		"a bucket that fills in two seconds":  {"1/s", 2, time.Second, time.Second, 2000.0 / 2002, 2000.0 / 2002, false},
		"a fast rate":                         {"3000/s", 0, time.Second, ms, 1000.0 / 1002, 1, false},
		"the fastest rate":                    {"1000000000/s", 0, time.Second, ms, 1000.0 / 1002, 1, false},
		"a burst worth 5 ms is narrow":        {"1000/s", 5, 5 * ms, ms, 5.0 / 7, 5.0 / 7, true},
		"a burst worth 19 ms is narrow":       {"1000/s", 19, 19 * ms, ms, 19.0 / 21, 19.0 / 21, true},
		"a burst worth 20 ms is not":          {"1000/s", 20, 20 * ms, ms, 20.0 / 22, 20.0 / 22, false},
		"a burst full before a hold can end":  {"10000/s", 1, ms, ms, 0.1 / 3, 0.1 / 3, true},
		"a burst of more than anyone can use": {"1/366d", bucket.MaxBurst, time.Second, 366 * 24 * time.Hour, 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := limit(t, test.rate, test.burst)
			assert.Equal(t, test.hold, l.Hold(time.Second), "hold")
			assert.Equal(t, test.tokenHold, l.TokenHold(), "hold until the next token")
			assert.InDelta(t, test.share, l.Share(l.Hold(time.Second), 2*ms), 1e-6)
			assert.InDelta(t, test.evenShare, l.Share(l.TokenHold(), 2*ms), 1e-6)
			assert.Equal(t, test.narrow, l.Narrow())
		})
	}
}

func TestALatenessBeyondTheSlackCountsWhereTheBucketHasNoRoomForIt(t *testing.T) {
	t.Parallel()
	l := limit(t, "10/s", 13) // room for 1.2 s
	assert.InDelta(t, 1, l.Share(time.Second, 200*ms), 0)
	assert.InDelta(t, 1300.0/1501, l.Share(time.Second, 201*ms), 1e-9)
	assert.InDelta(t, 1, l.Share(time.Second, -time.Second), 0, "nothing comes early")
}

func TestASimulatedBacklogGetsTheShare(t *testing.T) {
	t.Parallel()
	for _, declared := range []struct {
		rate  string
		burst int64
	}{
		{"1/h", 0},
		{"1/15m", 0},
		{"7/m", 0},
		{"7/m", 1},
		{"7/m", 2},
		{"1.25/s", 2},
		{"1/s", 2},
		{"10/s", 11},
		{"100/m", 0},
		{"100/m", 1},
		{"3/7s", 0},
		{"1.5/s", 0},
		{"10/s", 0},
		{"10/s", 1},
		{"10/s", 12},
		{"3000/s", 0},
		{"3000/s", 100},
		{"3000/s", 1},
		{"1000000000/s", 0},
		{"1000000000/s", 1},
	} {
		l := limit(t, declared.rate, declared.burst)
		for _, lateness := range []time.Duration{0, 2 * ms} {
			hold := func(b bucket.Bucket, now int64) int64 { return b.HoldUntil(now, time.Second) }
			want := l.Share(l.Hold(time.Second), lateness)
			assertShare(t, want, simulateShare(l, hold, lateness), "%s, %v late", l, lateness)

			want = l.Share(l.TokenHold(), lateness)
			assertShare(t, want, simulateShare(l, bucket.Bucket.NextHold, lateness), "%s until the next token, %v late", l, lateness)
		}
	}
}

// assertShare checks that a backlog got 99 % of what was promised, and not more than
// its rate.
func assertShare(t *testing.T, want, got float64, message string, args ...any) {
	t.Helper()
	assert.GreaterOrEqual(t, got, 0.99*want, append([]any{message}, args...)...)
	assert.LessOrEqual(t, got, 1+1e-9, append([]any{message}, args...)...)
}

// simulateShare serves a standing backlog, from an empty bucket on, for the time of
// 120 tokens and a minute at least, and returns the part of the rate that started.
func simulateShare(l bucket.Limit, hold func(bucket.Bucket, int64) int64, lateness time.Duration) float64 {
	perToken := float64(l.Rate.Period().Microseconds()) / (float64(l.Rate.Count()) / float64(bucket.Token))
	end := start + max(minute, int64(120*perToken))
	b := bucket.Bucket{Limit: l, Stamp: start}
	now, starts := start, int64(0)
	for now < end {
		b = refill(b, now)
		n := b.Tokens()
		b, _ = b.Take(n)
		starts += n
		now = hold(b, now) + lateness.Microseconds()
	}
	return float64(starts) * perToken / float64(b.Stamp-start)
}
