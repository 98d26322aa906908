package scheduler

import (
	"cmp"
	"slices"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// How much one look does at most for jobs it does not start.
const (
	deferBatch = 100 // a limit puts off so many jobs, once a second
	shedBatch  = 100 // whoever comes during a look that sheds waits for its end
)

const second = 1_000_000 // microseconds

// look decides who may start, on values: no clock, no database. It is what a
// process brings to store.Turn, which runs it between the locks and the
// commit. The order of what is asked is: pauses, the free slots of the process,
// breakers and caps, then the limits; a refusal by an earlier one leaves the
// later ones untouched.
type look struct {
	slots    int
	ahead    int               // how many more jobs may be claimed ahead
	waiting  []store.Candidate // that were claimed ahead and want those slots too, in order
	lines    []*lookLine
	limits   []*lookLimit // in the order of their names, as they are locked
	gates    []*lookGate  // in the order of their names too
	outcomes []outcome    // of attempts whose results this turn writes, and those left over

	now    int64
	asked  []*lookLine // those whose jobs are read, in the order of the asks
	fresh  int         // of those, the ones of which only jobs to be shed are read
	shared []budget    // that several of them share
	rounds int         // of reading

	direct   int       // jobs that were started in a slot; those after them, ahead
	deferred int       // jobs whose deferral was written
	unjudged []outcome // whose breakers' rows could not be read

	window *windowLook // what decides instead, under the fixed-window strategy
}

// lookLine is a line in a look.
type lookLine struct {
	store.Line
	drop    bool
	free    bool  // no limit and no gate
	retries int   // its task's max_retries
	limits  []int // that cover it: indexes into look.limits
	gates   []int // that it passes: indexes into look.gates
	share   int   // how many jobs to read at least, where a budget is shared
	line    *line // whose view this is

	// What the look found.
	max     int  // how many jobs may matter
	ask     int  // how many were asked for
	dry     bool // there are fewer tokens than slots
	further bool // more are to be read
	jobs    []store.Candidate
	paused  bool
	wants   bool // its next job cannot be claimed ahead: it waits for a slot
	blocked bool // by a cap, an open breaker or a busy row: it waits for a slot, or the time
	fresh   bool // only jobs that were never granted were read
	read    int
	started int
	shed    int
}

// more tells whether the line may have jobs that this look did not read.
func (l *lookLine) more() bool { return l.max > 0 && l.read == l.ask }

// left tells whether jobs that were read are still in line.
func (l *lookLine) left() bool { return l.read > l.started+l.shed }

// lookLimit is a limit in a look.
type lookLimit struct {
	declared bucket.Limit
	mode     DeferMode
	limit    *limit // whose view this is

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

// Ask implements store.Admission: it brings the buckets up to now and says how
// much of each line could start or is excess.
func (k *look) Ask(now int64, locked store.Locked) []store.Ask {
	k.now, k.asked, k.fresh, k.rounds = now, nil, 0, 0
	for i, l := range k.limits {
		l.open(now, locked.Limits[i])
	}
	k.openGates(locked)
	for _, line := range k.lines {
		line.paused, line.blocked, line.dry, line.wants, line.read, line.started, line.shed = false, false, false, false, 0, 0, 0
		if line.max, line.fresh = k.reach(line); line.max == 0 {
			continue
		}
		k.asked = append(k.asked, line)
		if line.fresh {
			k.fresh++
		}
	}
	return k.firstAsks()
}

// open reads a locked row: credits the time, switches to the rate that is in
// force, and tells whether the limit is on hold.
func (l *lookLimit) open(now int64, row store.Limit) {
	*l = lookLimit{declared: l.declared, mode: l.mode, limit: l.limit, row: row}
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

// reach is how many jobs of a line matter to this look.
func (k *look) reach(line *lookLine) (jobs int, fresh bool) {
	slots := k.slots
	if line.free {
		slots += k.ahead
	}
	room := k.room(line, slots)
	held, tokens, puts := false, int64(room), 0
	for _, i := range line.limits {
		l := k.limits[i]
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

// candidate is a job that was read, with its line.
type candidate struct {
	store.Candidate
	line *lookLine
}

// Decide implements store.Admission: in the order of priority, first due and
// arrival over all lines, each job starts if a slot and a token of every limit
// that covers it are there; else it is excess. Without a slot it may be claimed
// ahead.
func (k *look) Decide(read [][]store.Candidate) store.Plan {
	var plan store.Plan
	slots, ahead, waiting := k.slots, k.ahead, k.waiting
	k.direct = 0
	for _, c := range k.inOrder(read) {
		slots, waiting = leave(slots, waiting, c.Candidate)
		line := c.line
		if slots == 0 && ahead == 0 {
			break
		}
		if slots == 0 {
			if line.joins(c.Candidate) {
				plan.Start = append(plan.Start, c.ID)
				ahead--
			}
			continue
		}
		if line.blocked = line.blocked || k.room(line, slots) == 0; line.blocked {
			continue // it waits, and nobody waits for it
		}
		line.read++
		refusing := k.refusing(line)
		switch {
		case len(refusing) == 0:
			for _, i := range line.limits {
				k.limits[i].take()
			}
			for _, i := range line.gates {
				k.gates[i].free--
			}
			plan.Start = append(plan.Start, c.ID)
			line.started++
			slots--
			k.direct++
		case line.drop && !c.Granted:
			plan.Shed = append(plan.Shed, store.Shed{ID: c.ID, Reason: k.shed(refusing[0])})
			line.shed++
		case k.putOff(refusing, line.drop):
			plan.Defer = append(plan.Defer, c.ID)
		}
		if line.more() && len(k.refusing(line)) == 0 {
			// What comes after this line's last job that was read may have
			// to wait for one that was not: nobody overtakes.
			break
		}
	}
	for i, line := range k.asked {
		line.read = len(read[i])
	}
	k.deferred = len(plan.Defer)
	k.save(&plan)
	return plan
}

// save adds the rows that changed to a plan.
func (k *look) save(plan *store.Plan) {
	for _, l := range k.limits {
		if l.close(k.now) {
			plan.Save = append(plan.Save, l.row)
		}
	}
	for _, g := range k.gates {
		if g.changed {
			plan.SaveGates = append(plan.SaveGates, g.row)
		}
	}
}

func (k *look) inOrder(read [][]store.Candidate) []candidate {
	n, lines := 0, 0
	for _, jobs := range read {
		if n += len(jobs); len(jobs) > 0 {
			lines++
		}
	}
	all := make([]candidate, 0, n)
	for i, jobs := range read {
		for _, c := range jobs {
			all = append(all, candidate{c, k.asked[i]})
		}
	}
	if lines > 1 {
		slices.SortFunc(all, func(a, b candidate) int { return byPlace(a.Candidate, b.Candidate) })
	}
	return all
}

// byPlace orders jobs by priority, first due and arrival.
func byPlace(a, b store.Candidate) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.FirstDue, b.FirstDue), cmp.Compare(a.ID, b.ID))
}

// refusing lists the limits that have no token for a job of the line, by name.
func (k *look) refusing(line *lookLine) []int {
	var out []int
	for _, i := range line.limits {
		if l := k.limits[i]; l.held || l.bucket.Tokens() < 1 {
			out = append(out, i)
		}
	}
	return out
}

func (k *look) shed(limit int) (reason string) {
	l := k.limits[limit]
	l.shed++
	return shedReason + l.row.Name + " " + l.bucket.Limit.Rate.String()
}

// shedReason begins the reason of every shed.
const shedReason = "rate_limit: "

// putOff makes the refusing limits wait, and tells whether the deferral is
// written into the job: the first of a limit are, once a second.
func (k *look) putOff(refusing []int, paced bool) bool {
	write := false
	for _, i := range refusing {
		l := k.limits[i]
		l.paced = l.paced || paced
		l.refused = l.refused || !paced
		write = write || l.deferrals > 0
	}
	if !write {
		return false
	}
	for _, i := range refusing {
		if l := k.limits[i]; l.deferrals > 0 {
			l.deferrals--
			l.row.Deferred++
			l.row.DeferredAt = k.now
		}
	}
	return true
}

func (l *lookLimit) take() {
	b, ok := l.bucket.Take(1)
	if ok { // refusing made sure of it
		l.bucket = b
		l.taken++
	}
}

// close writes what the look did into the row and tells whether it must be
// saved. A refused attempt leaves level, remainder and stamp as they were.
func (l *lookLimit) close(now int64) bool {
	if l.taken > 0 || l.changed {
		l.row.SetBucket(l.bucket)
	}
	l.row.Started += l.taken
	l.row.Shed += l.shed
	if until := l.holdUntil(now); until > 0 {
		l.row.HeldFrom, l.row.HeldUntil = now, until
	}
	return l.taken > 0 || l.shed > 0 || l.changed || l.refused || l.paced
}

// holdUntil is when a limit that put jobs off is asked again; 0: it put none
// off.
func (l *lookLimit) holdUntil(now int64) int64 {
	if !l.refused && !l.paced {
		return 0
	}
	until := l.bucket.HoldUntil(now, store.DeferFor)
	if l.paced || l.mode == UntilToken {
		next := l.bucket.NextHold(now)
		if l.refused && l.mode == UntilToken {
			return next
		}
		until = min(until, next)
	}
	return until
}
