package scheduler

import (
	"slices"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// window is what a limit has under the fixed-window strategy: what is declared,
// what was last read of its row, and what became of the counts.
type window struct {
	quota bucket.Quota
	exact bool

	row    store.Window // as it was read
	over   bool         // its window was over then, and is still to be rolled
	lost   int64        // the latest generation that another process opened instead
	stuck  bool         // it did not: the row is locked
	count  int64        // how many starts a window has: an operator's word, or the quota's
	odd    string       // the override that is none
	ends   time.Time    // when its window is over, on this process's clock
	losses losses
}

// id names the generation that was read.
func (w *window) id(limit string) store.WindowID { return store.WindowID{Name: limit, ID: w.row.ID} }

// read takes over a row that was read when this process's clock said at.
func (w *window) read(row store.Window, at time.Time) {
	w.row, w.stuck = row, false
	w.over = row.State().Expired(row.Now, w.quota.Period)
	w.ends = local(row.State().Ends(w.quota.Period), row.Now, at)
	w.count = w.inForce(&row)
}

// inForce is the count that holds: an operator's, or the declared one. An operator
// changes the count, never the period.
func (w *window) inForce(row *store.Window) int64 {
	quota, _, err := row.InForce(w.quota)
	if w.odd = ""; err != nil {
		w.odd = row.Rate.String
	}
	return quota.Count
}

// rolled takes over a window that this process opened when its clock said at.
func (w *window) rolled(from int64, at time.Time) {
	w.row.SetState(w.row.State().Rolled(from))
	w.over = false
	w.ends = at.Add(w.quota.Period)
}

// lose notes that another process opens the next window. The view that was read
// stays, unless the row is locked: by a session that was not waited for, or by one
// that still has not opened it.
func (w *window) lose(skipped bool) {
	next := w.row.ID + 1
	w.over, w.stuck, w.lost = false, skipped || w.lost == next, next
}

// stopped tells whether the limit lets nothing start, whatever its window has room
// for: it is paused, its count is 0, its counter does not record, or the row is
// locked.
func (w *window) stopped() bool { return w.row.Paused || w.count == 0 || w.losses.closed || w.stuck }

// room tells whether one more may start, as far as was read.
func (w *window) room() bool {
	return !w.stopped() && (w.over || w.row.State().Room(w.count) > 0)
}

// outlived tells whether a window that had no room is over by now, so that it has
// to be read again.
func (w *window) outlived(now time.Time) bool {
	return !w.stopped() && !w.room() && !w.ends.After(now)
}

// tooMany is how many starts that were not counted, in a row or within one
// window, close a limit: a counter that never advances is no limit.
const tooMany = 3

// losses is what a process knows of starts that a limit's counter did not record.
type losses struct {
	run    int   // in a row
	window int64 // the generation of the last one
	within int   // how many in that generation
	closed bool
}

// add notes a start that was not counted in a generation, and tells whether that
// closes the limit.
func (l *losses) add(window int64) (closes bool) {
	if window != l.window {
		l.window, l.within = window, 0
	}
	l.run++
	l.within++
	closes = !l.closed && (l.run >= tooMany || l.within >= tooMany)
	l.closed = l.closed || closes
	return closes
}

// landed notes a start that was counted: it alone ends the run.
func (l *losses) landed() { l.run = 0 }

// windowLook decides who may start under the fixed-window strategy, on values: all
// that no limit covers, and at most one job that limits cover. The lines of limits
// without room were left out before: they are not asked.
type windowLook struct {
	*look

	exact []*limit // that cover a line, by name: their rows are locked
	busy  []string // of those, the ones that other sessions have locked
	views map[*limit]*view
	// admitted is the line of the start that limits cover; nil: there is none.
	admitted *line
}

// view is a limit's window in a look.
type view struct {
	bucket.Window

	count  int64
	paused bool
	busy   bool // locked by another session, and not read
}

func (v *view) room() bool { return !v.paused && !v.busy && v.Room(v.count) > 0 }

// Ask implements store.Admission.
func (k *windowLook) Ask(now int64, locked store.Locked) []store.Ask {
	k.now, k.asked, k.rounds, k.admitted = now, nil, 0, nil
	k.openGates(locked)
	k.openWindows(locked.Windows)
	for _, line := range k.lines {
		line.paused, line.blocked, line.wants, line.max, line.read, line.started = false, false, false, 0, 0, 0
		limits := line.line.limits
		if line.blocked = slices.ContainsFunc(limits, k.isBusy); line.blocked || !k.roomIn(limits) {
			continue
		}
		line.max, _ = k.reach(line)
		if len(limits) > 0 {
			line.max = min(line.max, 2) // the one that may start, and whether another waits behind it
		}
		if line.max > 0 {
			k.asked = append(k.asked, line)
		}
	}
	return k.firstAsks()
}

// openWindows starts from what was read, or, of exact limits, from what is locked:
// there a window that is over is rolled by the turn itself.
func (k *windowLook) openWindows(locked []store.Window) {
	k.views, k.busy = map[*limit]*view{}, nil
	for i, l := range k.exact {
		row := &locked[i]
		v := &view{Window: row.State(), count: l.window.inForce(row), paused: row.Paused, busy: row.Busy}
		if row.Busy {
			k.busy = append(k.busy, l.Name)
		} else if v.Expired(row.Now, l.window.quota.Period) {
			v.Window = v.Rolled(row.Now)
		}
		k.views[l] = v
	}
	for _, line := range k.lines {
		for _, l := range line.line.limits {
			if !l.window.exact {
				k.views[l] = &view{Window: l.window.row.State(), count: l.window.count}
			}
		}
	}
}

func (k *windowLook) isBusy(l *limit) bool { return k.views[l].busy }

func (k *windowLook) roomIn(limits []*limit) bool {
	for _, l := range limits {
		if !k.views[l].room() {
			return false
		}
	}
	return true
}

// Decide implements store.Admission: in the order of priority, first due and
// arrival over all lines, up to the second job that limits cover and have room for.
// That one needs to know of the first, so it comes after the next refresh, and
// nobody overtakes it.
func (k *windowLook) Decide(read [][]store.Candidate) store.Plan {
	var plan store.Plan
	slots, ahead, waiting := k.slots, k.ahead, k.waiting
	k.direct = 0
	for _, c := range k.inOrder(read) {
		slots, waiting = leave(slots, waiting, c.Candidate)
		line, limits := c.line, c.line.line.limits
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
		if !k.roomIn(limits) {
			continue // it is throttled, and stays as it is
		}
		if len(limits) > 0 && k.admitted != nil {
			break
		}
		for _, l := range limits {
			k.views[l].Window = k.views[l].Counted()
			k.admitted = line.line
		}
		for _, i := range line.gates {
			k.gates[i].free--
		}
		plan.Start = append(plan.Start, c.ID)
		line.started++
		slots--
		k.direct++
		if line.more() && k.roomIn(limits) {
			break // what comes next may have to wait for one that was not read
		}
	}
	for i, line := range k.asked {
		line.read = len(read[i])
	}
	k.save(&plan)
	plan.SaveWindows = k.counted()
	return plan
}

// counted lists the exact limits in which the turn counts its start.
func (k *windowLook) counted() []store.SavedWindow {
	if k.admitted == nil {
		return nil
	}
	var out []store.SavedWindow
	for _, l := range k.admitted.limits {
		if v := k.views[l]; l.window.exact {
			out = append(out, store.SavedWindow{Name: l.Name, ID: v.ID, From: v.From, Count: v.Count, Started: 1})
		}
	}
	return out
}

// learn takes over what the look found of the limits, once it is committed.
func (k *windowLook) learn(at time.Time) {
	for l, v := range k.views {
		w := l.window
		if v.busy {
			continue
		}
		if w.exact {
			w.over, w.ends = false, local(v.Ends(w.quota.Period), k.now, at)
			w.row.Paused, w.count = v.paused, v.count
		}
		w.row.SetState(v.Window)
	}
}
