package bucket_test

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
)

func TestANewBucketIsFull(t *testing.T) {
	t.Parallel()
	b := bucket.Full(limit(t, "100/m", 0), start)
	assert.Equal(t, int64(100), b.Tokens())
	assert.Equal(t, start, b.FullAt())
	_, ok := b.Take(101)
	assert.False(t, ok)
	assert.Zero(t, take(t, b, 100).Tokens())
}

func TestTenTicksOfASecondAtSixAMinuteGiveExactlyOneToken(t *testing.T) {
	t.Parallel()
	b := drained(t, "6/m", 0)
	for tick := int64(1); tick <= 9; tick++ {
		b = refill(b, start+tick*second)
		require.Zero(t, b.Tokens(), "tick %d", tick)
	}
	b = refill(b, start+10*second)
	assert.Equal(t, int64(1), b.Tokens())
	assert.Zero(t, take(t, b, 1).Level)
	assert.Zero(t, b.Remainder)
}

func TestAFullBucketCarriesNoRemainder(t *testing.T) {
	t.Parallel()
	b := drained(t, "7/m", 0)
	b = refill(b, start+1)
	require.NotZero(t, b.Remainder)
	b = refill(b, start+hour)
	assert.Equal(t, bucket.Full(b.Limit, start+hour), b)
}

func TestAFractionalCapacityIsFilledAndTakenInWholeTokens(t *testing.T) {
	t.Parallel()
	b := bucket.Full(limit(t, "1.5/s", 0), start)
	require.Equal(t, int64(1), b.Tokens())
	b = take(t, b, 1)
	require.Equal(t, bucket.Token/2, b.Level)
	at, ok := b.TimeOf(1)
	require.True(t, ok)
	require.Equal(t, start+333_334, at, "half a token at 1.5 a second, rounded up")
	_, ok = b.TimeOf(2)
	require.False(t, ok, "one and a half never become two")
}

func TestTenMillionStepsLoseNotOneToken(t *testing.T) {
	t.Parallel()
	const steps, step = 10_000_000, 997 // microseconds
	b := drained(t, "3/7s", 0)
	now, taken := start, int64(0)
	for range steps {
		now += step
		b, _ = b.Refill(now)
		if next, ok := b.Take(1); ok {
			b = next
			taken++
		}
	}
	// 3 tokens per 7 s, in millionths and 7-millionths of one.
	earned := steps * step * 3 * bucket.Token
	assert.Equal(t, earned/(7*second*bucket.Token), taken)
	assert.Equal(t, earned/(7*second), taken*bucket.Token+b.Level)
	assert.Equal(t, earned%(7*second), b.Remainder)
}

func TestStartsDoNotDependOnHowOftenTheBucketIsAsked(t *testing.T) {
	t.Parallel()
	span := simulated
	if testing.CoverMode() != "" {
		span /= 10 // counters shared by parallel tests are slow
	}
	// A burst of two seconds where the longest interval would overflow one second's.
	for _, declared := range []struct {
		rate  string
		burst int64
	}{{"1/h", 0}, {"1/m", 0}, {"7/m", 0}, {"100/m", 0}, {"10/s", 20}, {"3000/s", 6000}} {
		for _, interval := range []int64{300, millisecond, 7 * millisecond, 200 * millisecond, 999 * millisecond, 1001 * millisecond} {
			t.Run(fmt.Sprintf("%s every %d µs", declared.rate, interval), func(t *testing.T) {
				t.Parallel()
				b := drained(t, declared.rate, declared.burst)
				now, taken := start, int64(0)
				for now+interval <= start+span {
					now += interval
					b, _ = b.Refill(now)
					n := b.Tokens()
					b, _ = b.Take(n)
					taken += n
				}
				want := earned(b.Limit.Rate, now-start)
				assert.Equal(t, new(big.Int).Quo(want, units(b.Limit.Rate, bucket.Token)).Int64(), taken)
			})
		}
	}
}

func TestAPlainRatePerSecondAskedLateEarnsNoMoreThanItsCapacity(t *testing.T) {
	t.Parallel()
	b := drained(t, "10/s", 0)
	for look := int64(1); look <= 100; look++ {
		b = refill(b, start+look*1001*millisecond)
		require.Equal(t, int64(10), b.Tokens())
		b = take(t, b, 10)
	}
}

func TestRefusedAttemptsChangeNothing(t *testing.T) {
	t.Parallel()
	b := drained(t, "10/m", 0)
	now := start
	for range 100_000 { // in five seconds
		now += 50
		b = refill(b, now)
		if refused, ok := b.Take(1); ok || refused != b || b.Level < 0 || b.Stamp > now {
			t.Fatalf("at %d: %+v became %+v, %v", now, b, refused, ok)
		}
	}
	assert.Equal(t, int64(1), refill(b, start+6*second).Tokens())
	assert.Zero(t, take(t, refill(b, start+6*second), 1).Level, "exactly one")
	assert.Equal(t, int64(10), refill(b, start+minute).Tokens())
}

func TestANegativeOrImpossibleNumberOfTokensIsRefused(t *testing.T) {
	t.Parallel()
	b := bucket.Full(limit(t, "100/m", 0), start)
	for _, n := range []int64{-1, math.MinInt64, 101, math.MaxInt64} {
		same, ok := b.Take(n)
		assert.False(t, ok, "%d", n)
		assert.Equal(t, b, same)
	}
	same, ok := b.Take(0)
	assert.True(t, ok)
	assert.Equal(t, b, same)
}

func TestOneHundredAMinuteStartsTwoHundredInTheFirstMinuteThenAHundredInEach(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(bucket.Bucket, int64) int64{
		"asked as each token comes": func(b bucket.Bucket, now int64) int64 { return b.NextHold(now) },
		"asked after each hold":     func(b bucket.Bucket, now int64) int64 { return b.HoldUntil(now, time.Second) },
		"asked each 7 ms":           func(_ bucket.Bucket, now int64) int64 { return now + 7*millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bucket.Full(limit(t, "100/m", 0), start)
			var grants []int64
			for now := start; len(grants) < 10_000; now = next(b, now) {
				b = refill(b, now)
				n := b.Tokens()
				b, _ = b.Take(n)
				for range n {
					grants = append(grants, now)
				}
			}
			assert.Equal(t, start, grants[99], "a hundred at once")
			assert.Greater(t, grants[100], start, "and not one more")
			perMinute := make([]int, 100)
			for _, at := range grants {
				perMinute[(at-start)/minute]++
			}
			assert.LessOrEqual(t, perMinute[0], 200)
			for m, n := range perMinute[1:] {
				assert.LessOrEqual(t, n, 100, "minute %d", m+1)
			}
			requireBound(t, b.Limit, grants)

			b = refill(b, grants[len(grants)-1]+30*day)
			assert.Equal(t, int64(100), b.Tokens(), "an idle month is worth one full bucket")
		})
	}
}

func TestDecadesAndTheEndsOfTimeFillABucketOnce(t *testing.T) {
	t.Parallel()
	for _, declared := range everyRate {
		l := limit(t, declared, 0)
		for _, span := range []struct{ from, to int64 }{
			{0, 130 * 365 * day},
			{-50 * 365 * day, 50 * 365 * day},
			{math.MinInt64, math.MaxInt64},
			{0, math.MaxInt64},
		} {
			b := refill(bucket.Bucket{Limit: l, Stamp: span.from}, span.to)
			assert.Equal(t, bucket.Full(l, span.to), b, "%s from %d to %d", declared, span.from, span.to)
		}
	}
}

func TestABucketThatAllOfTimeCannotFillIsCreditedExactly(t *testing.T) {
	t.Parallel()
	l := limit(t, "1/366d", bucket.MaxBurst)
	b := refill(bucket.Bucket{Limit: l, Stamp: math.MinInt64}, math.MaxInt64)

	allOfTime := new(big.Int).SetUint64(math.MaxUint64)
	want := allOfTime.Mul(allOfTime, big.NewInt(l.Rate.Count()))
	assert.Zero(t, want.Cmp(held(b)), "%v", held(b))
	assert.Equal(t, int64(math.MaxInt64), b.FullAt(), "later than the last time there is")
}

func TestAClockThatStepsBackByUpToASecondMovesNothing(t *testing.T) {
	t.Parallel()
	b := refill(drained(t, "60/m", 0), start+1234*millisecond)
	for _, back := range []int64{1, millisecond, second} {
		same, step := b.Refill(b.Stamp - back)
		assert.Equal(t, bucket.StepSmall, step)
		assert.Equal(t, b, same)
	}
	_, step := b.Refill(b.Stamp)
	assert.Equal(t, bucket.StepNone, step)
}

func TestAHundredSmallStepsBackGainNothing(t *testing.T) {
	t.Parallel()
	b := drained(t, "60/m", 0)
	now, furthest := start, start
	for range 100 {
		now += 600 * millisecond // the clock goes on, then steps back by half a second
		b = refill(b, now)
		furthest = max(furthest, now)
		now -= 500 * millisecond
		b = refill(b, now)
	}
	assert.Equal(t, (furthest-start)*60*bucket.Token/minute, b.Level, "no moment is credited twice")
}

func TestAClockThatStepsBackByHoursEarnsNothingAndThenGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	b := take(t, bucket.Full(limit(t, "60/m", 0), start), 30)
	back := start - 8*hour
	stepped, step := b.Refill(back)
	require.Equal(t, bucket.StepBack, step)
	require.Equal(t, b.Level, stepped.Level)
	require.Equal(t, back, stepped.Stamp)
	assert.Equal(t, int64(31), refill(stepped, back+second).Tokens())

	_, step = b.Refill(b.Stamp - second - 1)
	assert.Equal(t, bucket.StepBack, step, "a microsecond more than a second")
	ends, step := bucket.Bucket{Limit: b.Limit, Stamp: math.MaxInt64}.Refill(math.MinInt64)
	assert.Equal(t, bucket.StepBack, step)
	assert.Equal(t, bucket.Bucket{Limit: b.Limit, Stamp: math.MinInt64}, ends)
}

func TestAChangedRateKeepsTheLevelAndNeverRaisesIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to           string
		fromBurst, toBurst int64
		level, want        int64
	}{
		"a larger rate has to be earned":      {from: "100/m", to: "1000/m", level: 40, want: 40},
		"a full bucket is then not full":      {from: "100/m", to: "1000/m", level: 100, want: 100},
		"a smaller rate cuts what is over":    {from: "100/m", to: "10/m", level: 100, want: 10},
		"a smaller rate keeps what fits":      {from: "100/m", to: "10/m", level: 4, want: 4},
		"a burst cuts what is over":           {from: "100/m", to: "100/m", toBurst: 20, level: 50, want: 20},
		"a burst taken away adds nothing":     {from: "100/m", to: "100/m", fromBurst: 20, level: 20, want: 20},
		"the same limit changes nothing":      {from: "100/m", to: "100/m", level: 50, want: 50},
		"a rate taken away leaves no token":   {from: "100/m", level: 50, want: 0},
		"an empty bucket stays empty":         {from: "1/h", to: "1000000000/s", level: 0, want: 0},
		"another period is no reason to fill": {from: "60/m", to: "60/h", level: 7, want: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var to bucket.Limit
			if test.to != "" {
				to = limit(t, test.to, test.toBurst)
			}
			b := bucket.Bucket{Limit: limit(t, test.from, test.fromBurst), Level: test.level * bucket.Token, Stamp: start}
			got := b.Switch(to)
			assert.Equal(t, bucket.Bucket{Limit: to, Level: test.want * bucket.Token, Stamp: start}, got)
		})
	}
}

func TestTimeBeforeAChangeIsCreditedAtTheOldRate(t *testing.T) {
	t.Parallel()
	b := drained(t, "6/m", 0)
	b = refill(b, start+20*second).Switch(limit(t, "600/m", 0))
	require.Equal(t, int64(2), b.Tokens())
	assert.Equal(t, int64(12), refill(b, start+21*second).Tokens())
}

func TestARateChangedBackAndForthMintsNothing(t *testing.T) {
	t.Parallel()
	small, large := limit(t, "7/m", 0), limit(t, "100/h", 0)
	b := refill(drained(t, "7/m", 0), start+12_345)
	before := held(b)
	for range 1000 {
		b = b.Switch(large).Switch(small)
	}
	assert.LessOrEqual(t, held(b).Cmp(before), 0)
	lost := new(big.Int).Sub(before, held(b))
	assert.Negative(t, lost.Cmp(units(small.Rate, 1)), "and loses less than a millionth of a token")
}

func TestRepairReturnsTheNearestBucketThatIsPossible(t *testing.T) {
	t.Parallel()
	l := limit(t, "100/m", 0)
	full := l.Capacity()
	for name, test := range map[string]struct{ damaged, want bucket.Bucket }{
		"a negative level": {
			bucket.Bucket{Limit: l, Level: -5, Remainder: 9},
			bucket.Bucket{Limit: l},
		},
		"the most negative level": {
			bucket.Bucket{Limit: l, Level: math.MinInt64, Remainder: math.MinInt64},
			bucket.Bucket{Limit: l},
		},
		"a level above the capacity": {
			bucket.Bucket{Limit: l, Level: full + 1, Remainder: 9},
			bucket.Bucket{Limit: l, Level: full},
		},
		"a remainder in a full bucket": {
			bucket.Bucket{Limit: l, Level: full, Remainder: 9},
			bucket.Bucket{Limit: l, Level: full},
		},
		"a negative remainder": {
			bucket.Bucket{Limit: l, Level: 7, Remainder: -1},
			bucket.Bucket{Limit: l, Level: 7},
		},
		"a remainder of a whole millionth": {
			bucket.Bucket{Limit: l, Level: 7, Remainder: minute},
			bucket.Bucket{Limit: l, Level: 7, Remainder: minute - 1},
		},
		"a negative burst": {
			bucket.Bucket{Limit: bucket.Limit{Rate: l.Rate, Burst: -1}, Level: 7},
			bucket.Bucket{Limit: l, Level: 7},
		},
		"a burst above the greatest": {
			bucket.Bucket{Limit: bucket.Limit{Rate: l.Rate, Burst: math.MaxInt64}, Level: 7},
			bucket.Bucket{Limit: bucket.Limit{Rate: l.Rate, Burst: bucket.MaxBurst}, Level: 7},
		},
		"tokens without a rate": {
			bucket.Bucket{Level: 7, Remainder: 7},
			bucket.Bucket{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, changed := test.damaged.Repair()
			assert.Equal(t, test.want, got)
			assert.True(t, changed)
			again, changed := got.Repair()
			assert.Equal(t, got, again)
			assert.False(t, changed)
		})
	}
}
