package bench_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/weirq/weir/internal/bench"
)

func TestASummaryHasTheMiddleAndTheEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   bench.Summary
	}{
		{[]float64{3}, bench.Summary{Median: 3, Min: 3, Max: 3, Runs: 1}},
		{[]float64{4, 1}, bench.Summary{Median: 2.5, Min: 1, Max: 4, Runs: 2}},
		{[]float64{9, 1, 2}, bench.Summary{Median: 2, Min: 1, Max: 9, Runs: 3}},
	} {
		assert.Equal(t, c.want, bench.Summarize(c.values))
	}
}

func TestRunsAreSteadyUpToTheBound(t *testing.T) {
	t.Parallel()
	assert.True(t, bench.Summarize([]float64{10, 13}).Steady())
	assert.False(t, bench.Summarize([]float64{10, 13.1}).Steady())
}

func TestAQuantileIsAValueThatWasSeen(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{hundred, 0.99, 99},
		{hundred, 0.5, 50},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{[]float64{7, 5}, 0.99, 7},
		{[]float64{7, 5}, 0.5, 5},
		{[]float64{7}, 0.99, 7},
	} {
		assert.InDelta(t, c.want, bench.Quantile(c.values, c.q), 0, "%v of %v", c.q, c.values)
	}
}
