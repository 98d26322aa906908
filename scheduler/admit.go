package scheduler

import (
	"cmp"
	"slices"

	"github.com/weirq/weir/internal/store"
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
	limits   buckets
	windows  *windows    // what decides instead, under the fixed-window strategy
	gates    []*lookGate // in the order of their names
	outcomes []outcome   // of attempts whose results this turn writes, and those left over

	now    int64
	asked  []*lookLine // those whose jobs are read, in the order of the asks
	fresh  int         // of those, the ones of which only jobs to be shed are read
	shared []budget    // that several of them share
	rounds int         // of reading

	kept     int       // slots left free for a job that may start a moment later: one at most
	direct   int       // jobs that were started in a slot; those after them, ahead
	deferred int       // jobs whose deferral was written
	unjudged []outcome // whose breakers' rows could not be read
}

// rule is what the limits of a strategy say in a look: buckets, or windows.
type rule interface {
	// open takes over the rows that are locked.
	open(now int64, locked store.Locked)
	// reach is how many jobs of a line matter to a look that has room for so many,
	// and whether only those that were never granted do. It notes in the line what
	// lets none of them start.
	reach(line *lookLine, room int) (jobs int, fresh bool)
	// admit takes what a job needs to start, or says false and tells the plan what
	// becomes of it, unless it stays where it is.
	admit(c candidate, plan *store.Plan) bool
	// allows tells whether the limits of a line let one more start.
	allows(line *lookLine) bool
	// save adds the rows that changed to a plan.
	save(plan *store.Plan)
}

func (k *look) rule() rule {
	if k.windows != nil {
		return k.windows
	}
	return k.limits
}

// lookLine is a line in a look.
type lookLine struct {
	store.Line
	drop    bool
	free    bool  // no limit and no gate
	retries int   // its task's max_retries
	limits  []int // that cover it: indexes into look.limits; none under windows
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

// Ask implements store.Admission: it brings the limits up to now and says how
// much of each line could start or is excess.
func (k *look) Ask(now int64, locked store.Locked) []store.Ask {
	k.now, k.asked, k.fresh, k.rounds = now, nil, 0, 0
	k.openGates(locked)
	rule := k.rule()
	rule.open(now, locked)
	for _, line := range k.lines {
		line.paused, line.blocked, line.dry, line.wants, line.read, line.started, line.shed = false, false, false, false, 0, 0, 0
		slots := k.slots
		if line.free {
			slots += k.ahead
		}
		if line.max, line.fresh = rule.reach(line, k.room(line, slots)); line.max == 0 {
			continue
		}
		k.asked = append(k.asked, line)
		if line.fresh {
			k.fresh++
		}
	}
	return k.firstAsks()
}

// candidate is a job that was read, with its line.
type candidate struct {
	store.Candidate
	line *lookLine
}

// Decide implements store.Admission: in the order of priority, first due and
// arrival over all lines, each job starts if there is a slot for it and the limits
// admit it. Without a slot it may be claimed ahead.
func (k *look) Decide(read [][]store.Candidate) store.Plan {
	var plan store.Plan
	rule := k.rule()
	slots, ahead, waiting := k.slots, k.ahead, k.waiting
	k.direct, k.kept = 0, 0
	for _, c := range k.inOrder(read) {
		slots, waiting = leave(slots, waiting, c.Candidate)
		line := c.line
		if slots == 0 && (ahead == 0 || k.kept > 0) {
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
		starts := rule.admit(c, &plan)
		if starts {
			for _, i := range line.gates {
				k.gates[i].free--
			}
			plan.Start = append(plan.Start, c.ID)
			line.started++
			slots--
			k.direct++
		}
		if !rule.allows(line) {
			continue
		}
		if starts && line.more() && k.room(line, 1) > 0 {
			break // nobody overtakes what was not read and may start as well
		}
		if !starts && k.kept == 0 {
			k.kept = 1
			slots--
		}
	}
	for i, line := range k.asked {
		line.read = len(read[i])
	}
	k.deferred = len(plan.Defer)
	for _, g := range k.gates {
		if g.changed {
			plan.SaveGates = append(plan.SaveGates, g.row)
		}
	}
	rule.save(&plan)
	return plan
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
