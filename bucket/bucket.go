package bucket

// A Bucket is the state of a limit: how many tokens there were, and up to when time
// has been credited. These numbers are what a store keeps.
//
// A bucket whose numbers are out of range, because its row was damaged, behaves as
// the one that [Bucket.Repair] returns.
type Bucket struct {
	Limit     Limit
	Level     int64 // millionths of a token, 0 to Limit.Capacity()
	Remainder int64 // what is less than a millionth, in 1/period-ths of it (the period in microseconds): 0 to period-1, and 0 when full
	Stamp     int64 // microseconds since the epoch: up to when time was credited
}

// Full returns a full bucket. Every new bucket is: what was idle until now may
// start at once.
func Full(l Limit, now int64) Bucket {
	return Bucket{Limit: l, Level: l.Capacity(), Stamp: now}
}

// A Step says what [Bucket.Refill] found the clock to have done.
type Step int

// The steps of a clock.
const (
	StepNone  Step = iota // the clock went on, or stood still
	StepSmall             // it stepped back by up to a second: no credit, the stamp stays
	StepBack              // it stepped back by more: no credit, the stamp became now
)

// Refill credits the time from the stamp to now (microseconds since the epoch), up
// to a full bucket, and moves the stamp to now. Time that does not make up a whole
// millionth of a token is carried in the remainder, so it does not matter how often
// or how seldom it is called. A clock that stepped back credits nothing; see [Step].
func (b Bucket) Refill(now int64) (Bucket, Step) {
	b = b.mended()
	if now < b.Stamp {
		if since(now, b.Stamp) <= second {
			return b, StepSmall
		}
		b.Stamp = now
		return b, StepBack
	}

	capacity := b.Limit.Capacity()
	elapsed := min(since(b.Stamp, now), b.wait(capacity))
	b.Stamp = now
	if elapsed == 0 { // the clock stands still, or the bucket is full
		return b, StepNone
	}
	earned, rest := product(elapsed, uint64(b.Limit.Rate.count)).
		plus(uint64(b.Remainder)).
		quo(uint64(b.Limit.Rate.period))
	b.Level += int64(earned)
	b.Remainder = int64(rest)
	if b.Level >= capacity { // the last microsecond may have brought a little too much
		b.Level, b.Remainder = capacity, 0
	}
	return b, StepNone
}

// Take takes n whole tokens if they are there. If not, or if n is negative, it
// returns false and b as it was. It credits no time: call [Bucket.Refill] first.
func (b Bucket) Take(n int64) (Bucket, bool) {
	taken := b.mended()
	if n < 0 || n > taken.Level/Token {
		return b, false
	}
	taken.Level -= n * Token
	return taken, true
}

// Tokens returns how many whole tokens can be taken now, 0 to 1e9.
func (b Bucket) Tokens() int64 {
	b = b.mended()
	return b.Level / Token
}

// TimeOf returns the earliest time (microseconds since the epoch) at which k whole
// tokens are there if none is taken: the stamp if they are there already. It is
// rounded up to the microsecond, so that a refill at that time really has them. A
// time beyond the range of int64 becomes the last one in it.
//
// It returns false where the bucket can never hold k tokens.
func (b Bucket) TimeOf(k int64) (at int64, ok bool) {
	b = b.mended()
	if k > b.Limit.Capacity()/Token {
		return 0, false
	}
	return after(b.Stamp, b.wait(max(k, 0)*Token)), true
}

// FullAt returns the earliest time (microseconds since the epoch) at which the
// bucket is full if nothing is taken: the stamp if it is full already. It is
// rounded and bounded as in [Bucket.TimeOf].
func (b Bucket) FullAt() int64 {
	b = b.mended()
	return after(b.Stamp, b.wait(b.Limit.Capacity()))
}

// Switch gives the bucket another limit. The level is kept, or cut to the new
// capacity; it is never raised. The remainder is converted, rounded down. Call
// [Bucket.Refill] first, so that the time up to now is credited at the old rate.
func (b Bucket) Switch(l Limit) Bucket {
	b = b.mended()
	if b.Remainder > 0 {
		converted, _ := product(uint64(b.Remainder), uint64(l.Rate.period)).quo(uint64(b.Limit.Rate.period))
		b.Remainder = int64(converted)
	}
	b.Limit = l
	b = b.mended() // cuts the level to the new capacity
	return b
}

// Repair returns the nearest bucket that is possible, for a row whose numbers were
// damaged: a burst, level or remainder out of range becomes the nearest in range.
// It reports whether it changed anything. Every stamp is possible: one in the future
// is a clock that stepped back, for [Bucket.Refill].
func (b Bucket) Repair() (repaired Bucket, changed bool) {
	repaired = b
	repaired = repaired.mended()
	return repaired, repaired != b
}

// mended is Repair in place. Every method begins with it on its own copy, so that no
// number, wherever it came from, gets into the arithmetic unchecked.
func (b Bucket) mended() Bucket {
	b.Limit.Burst = min(max(b.Limit.Burst, 0), MaxBurst)
	capacity := b.Limit.Capacity()
	switch {
	case b.Level < 0:
		b.Level, b.Remainder = 0, 0
	case b.Level >= capacity:
		b.Level, b.Remainder = capacity, 0
	default:
		b.Remainder = min(max(b.Remainder, 0), b.Limit.Rate.period-1)
	}
	return b
}

// wait returns the microseconds, rounded up, that the bucket needs from its stamp
// until it holds level (millionths of a token, at most the capacity).
func (b Bucket) wait(level int64) uint64 {
	if level <= b.Level {
		return 0
	}
	return product(uint64(level-b.Level), uint64(b.Limit.Rate.period)).
		minus(uint64(b.Remainder)).
		quoUp(uint64(b.Limit.Rate.count))
}
