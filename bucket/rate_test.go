package bucket_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/bucket"
)

func TestACanonicalStringReadsBackToTheSameRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyRate().Draw(t, "rate")
		read, err := bucket.Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, read)
		require.Equal(t, r.String(), read.String())

		_, period, _ := strings.Cut(r.String(), "/")
		require.Equal(t, period, r.PeriodString())
	})
}

func TestEqualRatesAreEqualValues(t *testing.T) {
	t.Parallel()
	assert.Equal(t, rate(t, "60/m"), rate(t, " 60.0 / 60seconds "))
	assert.NotEqual(t, rate(t, "60/m"), rate(t, "1/s"), "the same pace, another burst")
}

func TestTheZeroRateIsNoRate(t *testing.T) {
	t.Parallel()
	var none bucket.Rate
	assert.True(t, none.IsZero())
	assert.False(t, rate(t, "1/s").IsZero())
	assert.Zero(t, none.Count())
	assert.Zero(t, none.Period())
	assert.Empty(t, none.String())
	assert.Empty(t, none.PeriodString())
}

func TestFromPartsRefusesWhatParseCouldNotHaveMade(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string]struct{ count, period int64 }{
		"no count":                {0, minute},
		"a negative count":        {-100_000_000, minute},
		"a count below 1":         {999_999, minute},
		"a count above 1e9":       {1_000_000_000_000_001, minute},
		"the greatest count":      {math.MaxInt64, minute},
		"no period":               {100_000_000, 0},
		"a negative period":       {100_000_000, -minute},
		"a part of a second":      {100_000_000, second + 1},
		"less than a second":      {100_000_000, second - 1},
		"more than 366 days":      {100_000_000, 366*day + second},
		"the greatest period":     {100_000_000, math.MaxInt64},
		"the least of everything": {math.MinInt64, math.MinInt64},
	} {
		r, err := bucket.FromParts(parts.count, parts.period)
		assert.Error(t, err, name)
		assert.True(t, r.IsZero(), name)
	}
}
