package bucket

import (
	"math"
	"math/bits"
)

// wide is a number of 128 bits: a product of a time and a rate needs more than 64.
type wide struct{ hi, lo uint64 }

// product returns a x b.
func product(a, b uint64) wide {
	hi, lo := bits.Mul64(a, b)
	return wide{hi, lo}
}

// plus returns w + n.
func (w wide) plus(n uint64) wide {
	lo, carry := bits.Add64(w.lo, n, 0)
	return wide{w.hi + carry, lo}
}

// minus returns w - n, where n is at most w.
func (w wide) minus(n uint64) wide {
	lo, borrow := bits.Sub64(w.lo, n, 0)
	return wide{w.hi - borrow, lo}
}

// quo returns w / n and the rest. A quotient beyond 64 bits becomes MaxUint64.
func (w wide) quo(n uint64) (quotient, rest uint64) {
	if w.hi >= n { // bits.Div64 would panic
		return math.MaxUint64, 0
	}
	return bits.Div64(w.hi, w.lo, n)
}

// quoUp returns w / n rounded up, or MaxUint64 where that is beyond 64 bits.
func (w wide) quoUp(n uint64) uint64 {
	quotient, rest := w.quo(n)
	if rest > 0 && quotient < math.MaxUint64 {
		quotient++
	}
	return quotient
}

// since returns the microseconds from one time to a later one. The difference of
// two int64 always fits a uint64, even where it does not fit an int64.
func since(from, to int64) uint64 { return uint64(to) - uint64(from) }

// after returns the time that lies micros after at, or the last there is.
func after(at int64, micros uint64) int64 {
	if micros > since(at, math.MaxInt64) {
		return math.MaxInt64
	}
	return int64(uint64(at) + micros)
}
