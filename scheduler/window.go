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

// windows is the rule of fixed windows: all jobs start that no limit covers, and at
// most one that limits cover, if each has room. The next such job needs to know of the
// first, so it comes after the next refresh, and nobody overtakes it.
type windows struct {
	limits []*limit // that cover a line, by name; the rows of exact ones are locked

	now   int64
	views map[*limit]*view
	busy  []string // limits that other sessions have locked
	// admitted is the line of the start that limits cover; nil: there is none.
	admitted *line
}

func newWindows(lines []*lookLine) *windows {
	w := &windows{}
	for _, line := range lines {
		w.limits = append(w.limits, line.line.limits...)
	}
	slices.SortFunc(w.limits, byName)
	w.limits = slices.Compact(w.limits)
	return w
}

// view is a limit's window in a look.
type view struct {
	bucket.Window

	count  int64
	paused bool
	busy   bool // locked by another session, and not read
}

func (v *view) room() bool { return !v.paused && !v.busy && v.Room(v.count) > 0 }

// open starts from what was read, or, of exact limits, from what is locked: there a
// window that is over is rolled by the turn itself.
func (w *windows) open(now int64, locked store.Locked) {
	w.now, w.views, w.busy, w.admitted = now, map[*limit]*view{}, nil, nil
	rows := locked.Windows
	for _, l := range w.limits {
		if !l.window.exact {
			w.views[l] = &view{Window: l.window.row.State(), count: l.window.count}
			continue
		}
		row := &rows[0]
		rows = rows[1:]
		v := &view{Window: row.State(), count: l.window.inForce(row), paused: row.Paused, busy: row.Busy}
		if row.Busy {
			w.busy = append(w.busy, l.Name)
		} else if v.Expired(row.Now, l.window.quota.Period) {
			v.Window = v.Rolled(row.Now)
		}
		w.views[l] = v
	}
}

func (w *windows) reach(line *lookLine, room int) (jobs int, fresh bool) {
	limits := line.line.limits
	if line.blocked = slices.ContainsFunc(limits, w.isBusy); line.blocked || !w.allows(line) {
		return 0, false
	}
	line.blocked = room == 0
	if len(limits) > 0 {
		room = min(room, 2) // the one that may start, and whether another waits behind it
	}
	return room, false
}

func (w *windows) isBusy(l *limit) bool { return w.views[l].busy }

func (w *windows) allows(line *lookLine) bool {
	for _, l := range line.line.limits {
		if !w.views[l].room() {
			return false
		}
	}
	return true
}

func (w *windows) admit(c candidate, _ *store.Plan) bool {
	line := c.line.line
	if len(line.limits) == 0 {
		return true
	}
	if w.admitted != nil || !w.allows(c.line) {
		return false
	}
	for _, l := range line.limits {
		w.views[l].Window = w.views[l].Counted()
	}
	w.admitted = line
	return true
}

// save lists the exact limits in which the turn counts its start.
func (w *windows) save(plan *store.Plan) {
	if w.admitted == nil {
		return
	}
	for _, l := range w.admitted.limits {
		if v := w.views[l]; l.window.exact {
			plan.SaveWindows = append(plan.SaveWindows, store.SavedWindow{Name: l.Name, ID: v.ID, From: v.From, Count: v.Count, Started: 1})
		}
	}
}

// learn takes over what the look found of the limits, once it is committed.
func (w *windows) learn(at time.Time) {
	for l, v := range w.views {
		read := l.window
		if v.busy {
			continue
		}
		if read.exact {
			read.over, read.ends = false, local(v.Ends(read.quota.Period), w.now, at)
			read.row.Paused, read.count = v.paused, v.count
		}
		read.row.SetState(v.Window)
	}
}
