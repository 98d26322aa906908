package bucket_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/bucket"
)

// The closed form counts in units of a millionth of a token divided by the period in
// microseconds: then a microsecond earns the rate's count, and all is whole.

// units returns an amount in millionths of a token in those units.
func units(r bucket.Rate, millionths int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(millionths), big.NewInt(r.Period().Microseconds()))
}

// held returns what a bucket holds.
func held(b bucket.Bucket) *big.Int {
	sum := units(b.Limit.Rate, b.Level)
	return sum.Add(sum, big.NewInt(b.Remainder))
}

// earned returns what a rate earns in a time.
func earned(r bucket.Rate, micros int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(micros), big.NewInt(r.Count()))
}

// credited returns held after a time at a limit.
func credited(l bucket.Limit, held *big.Int, micros int64) *big.Int {
	sum := earned(l.Rate, micros)
	sum.Add(sum, held)
	if full := units(l.Rate, l.Capacity()); sum.Cmp(full) > 0 {
		return full
	}
	return sum
}

func anyRate() *rapid.Generator[bucket.Rate] {
	return rapid.Custom(func(t *rapid.T) bucket.Rate {
		unit := rapid.SampledFrom([]int64{second, minute, hour, day}).Draw(t, "unit")
		multiplier := rapid.Int64Range(1, 366*day/unit).Draw(t, "multiplier")
		count := rapid.Int64Range(bucket.Token, 1_000_000_000*bucket.Token).Draw(t, "count")
		if rapid.Bool().Draw(t, "whole") {
			count -= count % bucket.Token
		}
		r, err := bucket.FromParts(count, multiplier*unit)
		require.NoError(t, err)
		return r
	})
}

// anyLimit draws one of the usual rates, or any, with a burst or without.
func anyLimit() *rapid.Generator[bucket.Limit] {
	return rapid.Custom(func(t *rapid.T) bucket.Limit {
		var l bucket.Limit
		if rapid.IntRange(0, 3).Draw(t, "kind of rate") == 0 {
			l.Rate = anyRate().Draw(t, "rate")
		} else {
			l.Rate, _ = bucket.Parse(rapid.SampledFrom(everyRate).Draw(t, "usual rate"))
		}
		if rapid.Bool().Draw(t, "with a burst") {
			l.Burst = rapid.Int64Range(1, bucket.MaxBurst).Draw(t, "burst")
		}
		return l
	})
}

// anyBucket draws a bucket at any level, with an ordinary stamp.
func anyBucket() *rapid.Generator[bucket.Bucket] {
	return rapid.Custom(func(t *rapid.T) bucket.Bucket {
		b := bucket.Full(anyLimit().Draw(t, "limit"), rapid.Int64Range(-100*365*day, 100*365*day).Draw(t, "stamp"))
		if level := rapid.Int64Range(0, b.Level).Draw(t, "level"); level < b.Level {
			b.Level = level
			b.Remainder = rapid.Int64Range(0, b.Limit.Rate.Period().Microseconds()-1).Draw(t, "remainder")
		}
		return b
	})
}

// anyInterval draws the time from one look to the next, 0.3 ms to a day: each order
// of magnitude as often as the others.
func anyInterval() *rapid.Generator[int64] {
	return rapid.Custom(func(t *rapid.T) int64 {
		most := rapid.SampledFrom([]int64{millisecond, 10 * millisecond, second, 10 * second, minute, hour, day}).Draw(t, "most")
		return rapid.Int64Range(300, most).Draw(t, "interval")
	})
}

func TestAnySequenceOfRefillsTakesAndChangesFollowsTheClosedForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket().Draw(t, "bucket")
		want, stamp := held(b), b.Stamp
		t.Repeat(map[string]func(*rapid.T){
			"refill": func(t *rapid.T) {
				elapsed := anyInterval().Draw(t, "elapsed")
				want, stamp = credited(b.Limit, want, elapsed), stamp+elapsed
				var step bucket.Step
				b, step = b.Refill(stamp)
				require.Equal(t, bucket.StepNone, step)
			},
			"decades": func(t *rapid.T) {
				elapsed := rapid.Int64Range(0, 50*365*day).Draw(t, "elapsed")
				want, stamp = credited(b.Limit, want, elapsed), stamp+elapsed
				b = refill(b, stamp)
			},
			"small step back": func(t *rapid.T) {
				var step bucket.Step
				b, step = b.Refill(stamp - rapid.Int64Range(1, second).Draw(t, "back"))
				require.Equal(t, bucket.StepSmall, step)
			},
			"step back": func(t *rapid.T) {
				stamp -= rapid.Int64Range(second+1, 365*day).Draw(t, "back")
				var step bucket.Step
				b, step = b.Refill(stamp)
				require.Equal(t, bucket.StepBack, step)
			},
			"take": func(t *rapid.T) {
				n := rapid.Int64Range(0, b.Tokens()+1).Draw(t, "tokens")
				rest := new(big.Int).Sub(want, units(b.Limit.Rate, n*bucket.Token))
				before := b
				var ok bool
				b, ok = b.Take(n)
				require.Equal(t, rest.Sign() >= 0, ok)
				if ok {
					want = rest
				} else {
					require.Equal(t, before, b)
				}
			},
			"switch": func(t *rapid.T) {
				l := anyLimit().Draw(t, "limit")
				// held x new period / old period, rounded down, is level and remainder at once.
				want.Mul(want, big.NewInt(l.Rate.Period().Microseconds()))
				want.Quo(want, big.NewInt(b.Limit.Rate.Period().Microseconds()))
				want = credited(l, want, 0)
				b = b.Switch(l)
			},
			"": func(t *rapid.T) {
				require.Zero(t, want.Cmp(held(b)), "want %v, holds %v", want, held(b))
				require.Equal(t, stamp, b.Stamp)
				requireValid(t, b)
			},
		})
	})
}

func TestAnyPollIntervalGivesTheStartsOfTheClosedForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket().Draw(t, "bucket")
		interval := anyInterval().Draw(t, "interval")
		polls := rapid.Int64Range(1, 300).Draw(t, "polls")
		total := held(b)
		total.Add(total, earned(b.Limit.Rate, interval*polls))

		begin, taken, clamped := b.Stamp, int64(0), false
		for poll := int64(1); poll <= polls; poll++ {
			b = refill(b, begin+poll*interval)
			clamped = clamped || b.Level == b.Limit.Capacity()
			n := b.Tokens()
			b, _ = b.Take(n)
			taken += n
		}
		spent := new(big.Int).Mul(big.NewInt(taken), units(b.Limit.Rate, bucket.Token))
		spent.Add(spent, held(b))
		if clamped {
			require.LessOrEqual(t, spent.Cmp(total), 0, "more was spent than earned")
		} else {
			require.Zero(t, spent.Cmp(total), "spent and left %v, earned %v", spent, total)
		}
	})
}

func TestManyRefillsEqualTheOneThatSpansThem(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket().Draw(t, "bucket")
		often, now := b, b.Stamp
		for _, elapsed := range rapid.SliceOfN(anyInterval(), 1, 100).Draw(t, "intervals") {
			now += elapsed
			often = refill(often, now)
		}
		require.Equal(t, refill(b, now), often)
	})
}

func TestNoIntervalHasMoreStartsThanTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := anyLimit().Draw(t, "limit")
		l.Burst = min(l.Burst, 50) // few enough starts to list them
		if l.Capacity() > 1000*bucket.Token {
			l.Burst = 50
		}
		b := bucket.Full(l, start)
		var grants []int64
		now := start
		for _, elapsed := range rapid.SliceOfN(anyInterval(), 1, 100).Draw(t, "intervals") {
			b = refill(b, now)
			n := rapid.Int64Range(0, b.Tokens()).Draw(t, "starts")
			b, _ = b.Take(n)
			for range n {
				grants = append(grants, now)
			}
			now += elapsed
		}
		requireBound(t, l, grants)
	})
}

// requireBound checks starts <= capacity + L x rate for every pair of grant times,
// which must be in order. One sweep does it: a grant is further above the line of the
// rate than an earlier one by at most the capacity, so the lowest so far is enough.
func requireBound(t require.TestingT, l bucket.Limit, grants []int64) {
	if len(grants) == 0 {
		return
	}
	capacity := units(l.Rate, l.Capacity())
	above := func(starts int, at int64) *big.Int {
		sum := units(l.Rate, int64(starts)*bucket.Token)
		return sum.Sub(sum, earned(l.Rate, at-grants[0]))
	}
	lowest := above(0, grants[0])
	for i, at := range grants {
		if before := above(i, at); before.Cmp(lowest) < 0 {
			lowest = before
		}
		excess := above(i+1, at)
		require.LessOrEqual(t, excess.Sub(excess, lowest).Cmp(capacity), 0, "start %d, at %d", i+1, at)
	}
}

func TestTheTimeOfATokenIsTheEarliestAtWhichItIsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket().Draw(t, "bucket")
		most := b.Limit.Capacity() / bucket.Token
		k := rapid.Int64Range(1, most).Draw(t, "tokens")
		at, ok := b.TimeOf(k)
		require.True(t, ok)
		requireEarliest(t, b, at, func(b bucket.Bucket) bool { return b.Tokens() >= k })
		requireEarliest(t, b, b.FullAt(), func(b bucket.Bucket) bool { return b.Level == b.Limit.Capacity() })

		_, ok = b.TimeOf(rapid.Int64Min(most+1).Draw(t, "too many"))
		require.False(t, ok)
		at, ok = b.TimeOf(rapid.Int64Max(0).Draw(t, "none"))
		require.True(t, ok)
		require.Equal(t, b.Stamp, at)
	})
}

// requireEarliest checks that there is true of b refilled at a time, and not a
// microsecond before.
func requireEarliest(t require.TestingT, b bucket.Bucket, at int64, there func(bucket.Bucket) bool) {
	require.GreaterOrEqual(t, at, b.Stamp)
	if at < math.MaxInt64 {
		require.True(t, there(refill(b, at)), "sufficient")
	}
	if at > b.Stamp {
		require.False(t, there(refill(b, at-1)), "minimal")
	}
}

func TestNoNumbersMakeABucketPanicOrLeaveItsRange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		extreme := rapid.OneOf(
			rapid.Int64(),
			rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -second - 1, -second, -1, 0, 1, second, math.MaxInt64 - 1, math.MaxInt64}),
		)
		l := bucket.Limit{Burst: extreme.Draw(t, "burst")}
		if rapid.Bool().Draw(t, "has a rate") {
			l.Rate = anyRate().Draw(t, "rate")
		}
		damaged := bucket.Bucket{
			Limit:     l,
			Level:     extreme.Draw(t, "level"),
			Remainder: extreme.Draw(t, "remainder"),
			Stamp:     extreme.Draw(t, "stamp"),
		}
		repaired, _ := damaged.Repair()
		requireValid(t, repaired)

		now, n := extreme.Draw(t, "now"), extreme.Draw(t, "n")
		refilled, step := damaged.Refill(now)
		requireValid(t, refilled)
		want, wantStep := repaired.Refill(now)
		require.Equal(t, want, refilled, "damaged behaves as repaired")
		require.Equal(t, wantStep, step)
		if step == bucket.StepNone {
			require.Equal(t, now, refilled.Stamp)
		}

		if taken, ok := damaged.Take(n); ok {
			requireValid(t, taken)
			require.Equal(t, repaired.Level-n*bucket.Token, taken.Level)
		} else {
			require.Equal(t, damaged, taken)
		}
		requireValid(t, damaged.Switch(bucket.Limit{Rate: anyRate().Draw(t, "new rate"), Burst: extreme.Draw(t, "new burst")}))
		requireValid(t, damaged.Switch(bucket.Limit{}))

		require.GreaterOrEqual(t, damaged.FullAt(), damaged.Stamp)
		if at, ok := damaged.TimeOf(n); ok {
			require.GreaterOrEqual(t, at, damaged.Stamp)
		}
		requireHolds(t, damaged, now)
	})
}

// requireValid checks that the numbers of a bucket are in range.
func requireValid(t require.TestingT, b bucket.Bucket) {
	capacity := b.Limit.Capacity()
	require.GreaterOrEqual(t, b.Limit.Burst, int64(0))
	require.LessOrEqual(t, b.Limit.Burst, bucket.MaxBurst)
	require.GreaterOrEqual(t, b.Level, int64(0))
	require.LessOrEqual(t, b.Level, capacity)
	require.GreaterOrEqual(t, b.Remainder, int64(0))
	if b.Level == capacity {
		require.Zero(t, b.Remainder)
	} else {
		require.Less(t, b.Remainder, b.Limit.Rate.Period().Microseconds())
	}
}
