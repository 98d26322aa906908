package bucket

import "time"

const (
	// minHold keeps a limit of a very high rate from being asked without a pause.
	minHold = time.Millisecond

	// slack is how late a look may come without costing starts, where the bucket
	// has room for what it earns meanwhile.
	slack = 20 * time.Millisecond
)

// HoldUntil returns the end of the ordinary hold (microseconds since the epoch) of
// a limit that ran dry at now: after the deferral, or when the bucket is full if
// that is sooner, so that slow and odd rates get all they are due. It lies at least
// 1 ms after now. Call [Bucket.Refill] with the same now first.
func (b Bucket) HoldUntil(now int64, deferral time.Duration) int64 {
	return max(min(after(now, micros(deferral)), b.FullAt()), after(now, micros(minHold)))
}

// NextHold returns the end of a hold until the next token (microseconds since the
// epoch), which paces starts evenly. It lies at least 1 ms after now, and may lie a
// whole period away. Call [Bucket.Refill] with the same now first.
func (b Bucket) NextHold(now int64) int64 {
	soonest := after(now, micros(minHold))
	if at, ok := b.TimeOf(1); ok {
		return max(at, soonest)
	}
	return soonest
}

// Hold returns how long an ordinary hold of the limit lasts while more work waits
// than it lets pass: the deferral, or the time in which its bucket earns the whole
// tokens it has room for if that is less, and at least 1 ms.
func (l Limit) Hold(deferral time.Duration) time.Duration {
	_, fill := l.worth(l.wholeCapacity())
	return max(min(deferral, fill), minHold)
}

// TokenHold returns how long a hold until the next token lasts while more work
// waits than the limit lets pass: the time of one token, and at least 1 ms.
func (l Limit) TokenHold() time.Duration {
	_, token := l.worth(Token)
	return max(token, minHold)
}

// Share returns which part of the rate, 0 to 1, the limit lets start while more
// work waits than it lets pass, if each of its holds ([Limit.Hold] or
// [Limit.TokenHold]) is followed by a look that comes late by lateness.
//
// It is 1 where the bucket has room for what it earns during a hold and the slack of
// 20 ms after it. Elsewhere the bucket is full at the end of some holds and earns
// nothing while the look is late, at most once in the time in which it fills, so the
// share is fill / (fill + lateness): 0.998 for a plain 10/s at 2 ms, and next to 1
// for a token in 15 minutes. It is less only where the bucket is full before the hold
// ends, which happens to holds that had to be stretched to 1 ms.
func (l Limit) Share(hold, lateness time.Duration) float64 {
	if l.Rate.IsZero() {
		return 0
	}
	hold, lateness = max(hold, minHold), max(lateness, 0)
	// One token less than the capacity: parts of one may be left when the hold begins.
	room, _ := l.worth(l.Capacity() - Token)
	if room-hold >= max(lateness, slack) {
		return 1
	}
	fill := float64(l.wholeCapacity()) / float64(l.Rate.count) * l.Rate.Period().Seconds()
	return fill / (max(fill, hold.Seconds()) + lateness.Seconds())
}

// Narrow reports whether the capacity is worth less than 20 ms of the rate. Ordinary
// delays then cost a good part of it, and a larger burst is the mend.
func (l Limit) Narrow() bool {
	worth, _ := l.worth(l.Capacity())
	return worth < slack && !l.Rate.IsZero()
}

// wholeCapacity returns the whole tokens of the capacity, in millionths. What is
// beyond them (half a token, at 1.5/s) stays in a bucket that was taken dry.
func (l Limit) wholeCapacity() int64 { return l.Capacity() / Token * Token }

// worth returns the time in which the rate earns an amount (millionths of a token,
// 0 to 1e15), rounded down and up to the microsecond. It is 0 without a rate, and at
// most some 290 years.
func (l Limit) worth(amount int64) (down, up time.Duration) {
	if l.Rate.IsZero() {
		return 0, 0
	}
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	total := product(uint64(amount), uint64(l.Rate.period))
	floor, _ := total.quo(uint64(l.Rate.count))
	ceiling := total.quoUp(uint64(l.Rate.count))
	return time.Duration(min(floor, most)) * time.Microsecond,
		time.Duration(min(ceiling, most)) * time.Microsecond
}

// micros returns a duration in whole microseconds, 0 for a negative one.
func micros(d time.Duration) uint64 { return uint64(max(d.Microseconds(), 0)) }
