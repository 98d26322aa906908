package bucket

import "fmt"

// MaxBurst is the greatest burst, in whole tokens.
const MaxBurst int64 = 1_000_000_000

// A Limit is what is declared: a rate, and how much may come at once.
//
// A limit without a rate has a capacity of 0: its bucket never lets anything pass.
type Limit struct {
	Rate  Rate
	Burst int64 // whole tokens, 1 to MaxBurst; 0 = none: the capacity is the rate's count
}

// NewLimit reads a limit from a rate string (see [Parse]) and a burst in whole
// tokens, 0 (none) to [MaxBurst].
func NewLimit(rate string, burst int64) (Limit, error) {
	r, err := Parse(rate)
	if err != nil {
		return Limit{}, err
	}
	if burst != 0 {
		if err := CheckBurst(burst); err != nil {
			return Limit{}, err
		}
	}
	return Limit{Rate: r, Burst: burst}, nil
}

// CheckBurst refuses a burst that somebody wrote and that is not from 1 to
// [MaxBurst]. Whoever wants none leaves it out; a written 0 is a mistake.
func CheckBurst(burst int64) error {
	if burst < 1 || burst > MaxBurst {
		return fmt.Errorf("burst %d: use a whole number from 1 to %d, as in burst 20", burst, MaxBurst)
	}
	return nil
}

// Capacity returns the most that the limit's bucket holds, in millionths of a
// token: the burst if there is one, else the rate's count, which may be a fraction
// (1.5/s holds one token and a half). It is 0 without a rate, else 1e6 to 1e15: a
// burst out of range counts as the nearest one in range.
func (l Limit) Capacity() int64 {
	switch {
	case l.Rate.IsZero():
		return 0
	case l.Burst <= 0:
		return l.Rate.count
	default:
		return min(l.Burst, MaxBurst) * Token
	}
}

// String returns the limit as people write it: "100/m", or "100/m burst 20".
func (l Limit) String() string {
	if l.Burst == 0 {
		return l.Rate.String()
	}
	return fmt.Sprintf("%s burst %d", l.Rate, l.Burst)
}
