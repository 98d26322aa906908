package bench

import "slices"

// A Figure is what one run measured.
type Figure struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Detail is what was measured beside it, by name.
	Detail map[string]float64 `json:"detail,omitempty"`
}

// Units of figures.
const (
	JobsPerSecond = "jobs/s"
	Milliseconds  = "ms"
)

// SteadyWithin is the bound for the largest figure over the smallest, fixed
// before anything was measured. Runs further apart are marked: the machine was
// not steady enough to tell more than the order of size.
const SteadyWithin = 1.3

// A Summary is what several runs of the same work show.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// Summarize sums up at least one value.
func Summarize(values []float64) Summary {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return Summary{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], Runs: n}
}

// Steady tells whether the runs are close enough to be compared.
func (s Summary) Steady() bool { return s.Max <= s.Min*SteadyWithin }

// Quantile is the smallest of the values that at least a share q of them does
// not exceed.
func Quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	i := int(q * float64(len(v)))
	if float64(i) < q*float64(len(v)) {
		i++
	}
	return v[max(i-1, 0)]
}
