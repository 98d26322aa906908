package bucket

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWideArithmeticAgreesWithBigIntegers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		w, want := product(a, b), new(big.Int).Mul(bigOf(a), bigOf(b))
		require.Zero(t, want.Cmp(w.big()))

		// MaxUint64 squared leaves room for one more uint64, twice.
		n := rapid.Uint64().Draw(t, "n")
		w, want = w.plus(n), want.Add(want, bigOf(n))
		require.Zero(t, want.Cmp(w.big()))
		w, want = w.minus(n/2), want.Sub(want, bigOf(n/2))
		require.Zero(t, want.Cmp(w.big()))

		d := rapid.Uint64Min(1).Draw(t, "d")
		quotient, rest := w.quo(d)
		up := w.quoUp(d)
		wantQuotient, wantRest := new(big.Int).QuoRem(want, bigOf(d), new(big.Int))
		if !wantQuotient.IsUint64() {
			require.Equal(t, uint64(math.MaxUint64), quotient)
			require.Equal(t, uint64(math.MaxUint64), up)
			return
		}
		require.Equal(t, wantQuotient.Uint64(), quotient)
		require.Equal(t, wantRest.Uint64(), rest)
		if rest > 0 && quotient < math.MaxUint64 {
			quotient++
		}
		require.Equal(t, quotient, up)
	})
}

func TestADivisionByZeroIsTheGreatestQuotient(t *testing.T) {
	t.Parallel()
	quotient, rest := product(3, 5).quo(0)
	require.Equal(t, uint64(math.MaxUint64), quotient)
	require.Zero(t, rest)
	require.Equal(t, uint64(math.MaxUint64), product(math.MaxUint64, 2).plus(1).quoUp(2),
		"rounding up does not wrap round")
}

func TestTimesAtTheEndsOfInt64AreAddedAndSubtracted(t *testing.T) {
	t.Parallel()
	require.Equal(t, uint64(math.MaxUint64), since(math.MinInt64, math.MaxInt64))
	require.Equal(t, uint64(5), since(-2, 3))
	require.Equal(t, int64(math.MaxInt64), after(math.MinInt64, math.MaxUint64))
	require.Equal(t, int64(math.MaxInt64), after(0, math.MaxUint64))
	require.Equal(t, int64(math.MaxInt64), after(math.MaxInt64, 1))
	require.Equal(t, int64(3), after(-2, 5))
}

func (w wide) big() *big.Int {
	n := new(big.Int).Lsh(bigOf(w.hi), 64)
	return n.Add(n, bigOf(w.lo))
}

func bigOf(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
