package bucket

import "time"

// A Window is one generation of a fixed-window limit's row, as a process read
// it. What it decides, it decides on values: opening a window and counting in it
// are statements on the row, and the database says whether they did anything.
type Window struct {
	ID    int64 // the generation; 0: no window was opened yet
	From  int64 // when it opened (microseconds since the epoch)
	Count int64 // starts that were counted in it
}

// Expired reports whether the window is over at now (microseconds since the
// epoch), so that the next start belongs to a new one. A window that opens in the
// future, because the clock stepped back since, is not over: it ends when the
// clock has caught up and the period has passed.
func (w Window) Expired(now int64, period time.Duration) bool {
	return w.ID == 0 || now >= w.Ends(period)
}

// Ends returns when the window is over (microseconds since the epoch). A time
// beyond the range of int64 becomes the last one in it.
func (w Window) Ends(period time.Duration) int64 { return after(w.From, micros(period)) }

// Room returns how many more starts the window has room for, 0 to limit, where
// limit is how many it lets start in all. More may have been counted than that.
func (w Window) Room(limit int64) int64 {
	limit = max(limit, 0)
	return max(limit-max(w.Count, 0), 0)
}

// Rolled returns the window that follows, opened at now (microseconds since the
// epoch), with nothing counted in it.
func (w Window) Rolled(now int64) Window { return Window{ID: w.ID + 1, From: now} }

// Counted returns the window with one more start counted in it.
func (w Window) Counted() Window {
	w.Count = max(w.Count, 0) + 1
	return w
}
