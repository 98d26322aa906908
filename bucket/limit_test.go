package bucket_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
)

func TestTheCapacityIsTheBurstOrElseTheCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate     string
		burst    int64
		capacity int64
		text     string
	}{
		{"100/m", 0, 100_000_000, "100/m"},
		{"100/m", 20, 20_000_000, "100/m burst 20"},
		{"100/m", 500, 500_000_000, "100/m burst 500"},
		{"1.5/s", 0, 1_500_000, "1.5/s"},
		{"1.5/s", 1, 1_000_000, "1.5/s burst 1"},
		{"60/60s", 1, 1_000_000, "60/m burst 1"},
		{"1/366d", bucket.MaxBurst, 1_000_000_000_000_000, "1/366d burst 1000000000"},
	} {
		l := limit(t, test.rate, test.burst)
		assert.Equal(t, test.capacity, l.Capacity(), test.text)
		assert.Equal(t, test.text, l.String())
	}
}

func TestALimitWithABadRateOrBurstIsRefused(t *testing.T) {
	t.Parallel()
	_, err := bucket.NewLimit("100/mo", 0)
	require.EqualError(t, err, `rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`)
	_, err = bucket.NewLimit("100/m", -1)
	require.EqualError(t, err, `burst -1: use a whole number from 1 to 1000000000, as in burst 20`)
	_, err = bucket.NewLimit("100/m", 1_000_000_001)
	require.EqualError(t, err, `burst 1000000001: use a whole number from 1 to 1000000000, as in burst 20`)
}

func TestAWrittenBurstIsFromOneToABillion(t *testing.T) {
	t.Parallel()
	for _, burst := range []int64{1, 20, 1_000_000_000} {
		assert.NoError(t, bucket.CheckBurst(burst))
	}
	for _, burst := range []int64{0, -1, 1_000_000_001, math.MaxInt64, math.MinInt64} {
		assert.Error(t, bucket.CheckBurst(burst))
	}
}

func TestABurstOutOfRangeCountsAsTheNearestInRange(t *testing.T) {
	t.Parallel()
	l := bucket.Limit{Rate: rate(t, "100/m"), Burst: math.MaxInt64}
	assert.Equal(t, bucket.MaxBurst*bucket.Token, l.Capacity())
	l.Burst = math.MinInt64
	assert.Equal(t, 100*bucket.Token, l.Capacity())
}

func TestALimitWithoutARateHoldsNothing(t *testing.T) {
	t.Parallel()
	assert.Zero(t, bucket.Limit{}.Capacity())
	assert.Zero(t, bucket.Limit{Burst: 5}.Capacity())
	assert.Empty(t, bucket.Limit{}.String())
}
