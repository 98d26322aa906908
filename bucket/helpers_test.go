package bucket_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
)

const (
	millisecond int64 = 1_000 // in microseconds, as all times of the package
	second            = 1_000 * millisecond
	minute            = 60 * second
	hour              = 60 * minute
	day               = 24 * hour
)

// start is an ordinary moment: noon UTC on 1 March 2026.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC).UnixMicro()

// simulated is how long the longest simulation goes on, in simulated time.
var simulated = hour

// everyRate is the set of rates that properties are checked at: slow and fast, even
// and odd, whole and fractional.
var everyRate = []string{"1/h", "7/m", "100/m", "3/7s", "1.5/s", "10/s", "3000/s", "1000000000/s", "1/366d"}

func rate(t testing.TB, s string) bucket.Rate {
	t.Helper()
	r, err := bucket.Parse(s)
	require.NoError(t, err)
	return r
}

func limit(t testing.TB, rate string, burst int64) bucket.Limit {
	t.Helper()
	l, err := bucket.NewLimit(rate, burst)
	require.NoError(t, err)
	return l
}

// drained returns a bucket that was emptied, to the last millionth, at start.
func drained(t testing.TB, rate string, burst int64) bucket.Bucket {
	t.Helper()
	return bucket.Bucket{Limit: limit(t, rate, burst), Stamp: start}
}

func refill(b bucket.Bucket, now int64) bucket.Bucket {
	b, _ = b.Refill(now)
	return b
}

func take(t testing.TB, b bucket.Bucket, n int64) bucket.Bucket {
	t.Helper()
	b, ok := b.Take(n)
	require.True(t, ok, "%d tokens", n)
	return b
}
