package scheduler

import (
	"slices"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// How much one look does at most for jobs it does not start.
const (
	deferBatch = 100 // a limit puts off so many jobs, once a second
	shedBatch  = 100 // whoever comes during a look that sheds waits for its end
)

// buckets is the rule of token buckets: a job starts if every limit that covers it
// has a token; else it is excess. They stand in the order of their names, as they are
// locked.
type buckets []*lookLimit

// lookLimit is a limit in a look.
type lookLimit struct {
	declared bucket.Limit
	mode     DeferMode
	limit    *limit // whose view this is

	now    int64
	row    store.Limit // Busy: not read; what it covers waits
	bucket bucket.Bucket
	held   bool

	changed     bool // rate, stamp or a damaged row: saved although nothing started
	switched    bucket.Limit
	steppedBack bool
	repaired    bool
	ignored     string // an override that is no rate
	taken       int64
	shed        int64
	deferrals   int  // how many it may still write
	refused     bool // an ordinary job was put off
	paced       bool // a job was put off until the next token
}

func (b buckets) open(now int64, locked store.Locked) {
	for i, l := range b {
		l.open(now, locked.Limits[i])
	}
}

// open reads a locked row: credits the time, switches to the rate that is in
// force, and tells whether the limit is on hold.
func (l *lookLimit) open(now int64, row store.Limit) {
	*l = lookLimit{declared: l.declared, mode: l.mode, limit: l.limit, now: now, row: row}
	if row.Busy {
		return
	}
	b, err := row.Bucket()
	if err != nil {
		b = bucket.Bucket{Limit: l.declared, Level: row.Level, Stamp: row.Stamp}
	}
	b, _ = b.Repair()
	l.repaired = err != nil || b.Level != row.Level || b.Remainder != row.Remainder || b.Limit.Burst != row.Burst
	if l.row.OverUntil.Valid && b.Stamp < l.row.OverUntil.Int64 && l.row.OverUntil.Int64 < now && b.Limit != l.declared {
		// An override that has ended earns nothing for the time since.
		b, _ = b.Refill(l.row.OverUntil.Int64)
		b, l.switched = b.Switch(l.declared), b.Limit
	}
	b, step := b.Refill(now)
	l.steppedBack = step == bucket.StepBack || now < row.HeldFrom-second
	if inForce := l.inForce(now); b.Limit != inForce {
		l.switched = b.Limit
		b = b.Switch(inForce)
	}
	l.bucket = b
	if row.HeldUntil > now+longestHold(l.bucket.Limit) {
		l.repaired, l.row.HeldUntil = true, 0
	}
	l.held = now < l.row.HeldUntil && !l.steppedBack
	if l.steppedBack {
		l.row.HeldFrom, l.row.HeldUntil, l.row.DeferredAt = 0, 0, min(l.row.DeferredAt, now)
	}
	l.changed = l.repaired || l.steppedBack || !l.switched.Rate.IsZero()
	if now-l.row.DeferredAt >= second {
		l.deferrals = deferBatch
	}
}

// inForce is the limit that counts: an operator's, until it ends, or the one
// that was declared.
func (l *lookLimit) inForce(now int64) bucket.Limit {
	if !l.row.Rate.Valid || l.row.OverUntil.Valid && l.row.OverUntil.Int64 <= now {
		return l.declared
	}
	over, err := bucket.NewLimit(l.row.Rate.String, l.row.OverBurst.Int64)
	if err != nil {
		l.ignored = l.row.Rate.String // told, and not obeyed
		return l.declared
	}
	return over
}

// longestHold is how far off the end of a hold can be, in microseconds: a
// second, or the time of a token, and the second by which a clock may have
// stepped back since. What is longer was damaged.
func longestHold(l bucket.Limit) int64 {
	return max(store.DeferFor, l.TokenHold()).Microseconds() + second
}

func (b buckets) reach(line *lookLine, room int) (jobs int, fresh bool) {
	held, tokens, puts := false, int64(room), 0
	for _, i := range line.limits {
		l := b[i]
		if l.row.Busy {
			line.blocked = true
			return 0, false
		}
		if l.row.Paused {
			line.paused = true
			return 0, false
		}
		held = held || l.held
		tokens = min(tokens, l.bucket.Tokens())
		if l.bucket.Tokens() < int64(room) {
			line.dry = true
			puts = max(puts, l.deferrals)
		}
	}
	switch {
	case room == 0:
		line.blocked = true
		return 0, false
	case held && line.drop:
		// The limit has work waiting, and drop work never waits.
		return shedBatch, true
	case held:
		return 0, false
	case !line.dry:
		return room, false
	case line.drop:
		return int(tokens) + shedBatch, false
	}
	// One more than there are tokens for shows that work is left waiting.
	return int(tokens) + max(puts, 1), false
}

func (b buckets) admit(c candidate, plan *store.Plan) bool {
	line := c.line
	refusing := slices.IndexFunc(line.limits, b.refuses)
	switch {
	case refusing < 0:
		for _, i := range line.limits {
			b[i].take()
		}
		return true
	case line.drop && !c.Granted:
		plan.Shed = append(plan.Shed, store.Shed{ID: c.ID, Reason: b[line.limits[refusing]].shedOne()})
		line.shed++
	case b.putOff(line):
		plan.Defer = append(plan.Defer, c.ID)
	}
	return false
}

func (b buckets) allows(line *lookLine) bool { return !slices.ContainsFunc(line.limits, b.refuses) }

func (b buckets) refuses(limit int) bool { return b[limit].held || b[limit].bucket.Tokens() < 1 }

// putOff makes the limits that refuse a job of the line wait, and tells whether the
// deferral is written into the job: the first of a limit are, once a second.
func (b buckets) putOff(line *lookLine) (write bool) {
	for _, i := range line.limits {
		if !b.refuses(i) {
			continue
		}
		l := b[i]
		l.paced = l.paced || line.drop
		l.refused = l.refused || !line.drop
		if l.deferrals > 0 {
			write = true
			l.deferrals--
			l.row.Deferred++
			l.row.DeferredAt = l.now
		}
	}
	return write
}

func (b buckets) save(plan *store.Plan) {
	for _, l := range b {
		if l.close() {
			plan.Save = append(plan.Save, l.row)
		}
	}
}

// shedReason begins the reason of every shed.
const shedReason = "rate_limit: "

func (l *lookLimit) shedOne() (reason string) {
	l.shed++
	return shedReason + l.row.Name + " " + l.bucket.Limit.Rate.String()
}

func (l *lookLimit) take() {
	b, ok := l.bucket.Take(1)
	if ok { // admit made sure of it
		l.bucket = b
		l.taken++
	}
}

// close writes what the look did into the row and tells whether it must be
// saved. A refused attempt leaves level, remainder and stamp as they were.
func (l *lookLimit) close() bool {
	if l.taken > 0 || l.changed {
		l.row.SetBucket(l.bucket)
	}
	l.row.Started += l.taken
	l.row.Shed += l.shed
	if until := l.holdUntil(); until > 0 {
		l.row.HeldFrom, l.row.HeldUntil = l.now, until
	}
	return l.taken > 0 || l.shed > 0 || l.changed || l.refused || l.paced
}

// holdUntil is when a limit that put jobs off is asked again; 0: it put none
// off.
func (l *lookLimit) holdUntil() int64 {
	if !l.refused && !l.paced {
		return 0
	}
	until := l.bucket.HoldUntil(l.now, store.DeferFor)
	if l.paced || l.mode == UntilToken {
		next := l.bucket.NextHold(l.now)
		if l.refused && l.mode == UntilToken {
			return next
		}
		until = min(until, next)
	}
	return until
}
