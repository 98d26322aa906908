package store

import (
	"context"
	"sync"
)

// Wake says what a commit made ready.
type Wake struct {
	Lines []Line
	Due   int64 // the earliest time among scheduled jobs; 0: none
	// Look: limits or queues were paused, resumed or changed, or a cap has room
	// again.
	Look bool
	// Cancelled: a job was cancelled that may be running.
	Cancelled bool
}

func (w Wake) empty() bool { return len(w.Lines) == 0 && w.Due == 0 && !w.Look && !w.Cancelled }

// News sums up wakes until they are taken. The zero value is empty. It is not
// safe for concurrent use.
type News struct {
	lines map[Line]struct{}
	rest  Wake // but for the lines
}

// Add makes the news say what w says, too.
func (n *News) Add(w Wake) {
	if n.lines == nil && len(w.Lines) > 0 {
		n.lines = map[Line]struct{}{}
	}
	for _, l := range w.Lines {
		n.lines[l] = struct{}{}
	}
	if w.Due != 0 && (n.rest.Due == 0 || w.Due < n.rest.Due) {
		n.rest.Due = w.Due
	}
	n.rest.Look, n.rest.Cancelled = n.rest.Look || w.Look, n.rest.Cancelled || w.Cancelled
}

// Any tells whether a line that became ready is such a one.
func (n *News) Any(such func(Line) bool) bool {
	for l := range n.lines {
		if such(l) {
			return true
		}
	}
	return false
}

// Take empties the news.
func (n *News) Take() Wake {
	w := n.rest
	for l := range n.lines {
		w.Lines = append(w.Lines, l)
	}
	clear(n.lines)
	n.rest = Wake{}
	return w
}

// wakes tells the schedulers in this process what was made ready, so that they
// need not look for it.
type wakes struct {
	mu   sync.Mutex
	next int
	fns  map[int]func(Wake)
}

// OnWake calls fn for what this process's commits made ready, and what Watch
// hears of other processes, until the returned function is called. fn must not
// block.
func (s *Store) OnWake(fn func(Wake)) (cancel func()) {
	w := &s.wakes
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fns == nil {
		w.fns = map[int]func(Wake){}
	}
	id := w.next
	w.next++
	w.fns[id] = fn
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.fns, id)
	}
}

func (w *wakes) send(wake Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fn := range w.fns {
		fn(wake)
	}
}

// Wake tells the schedulers of all processes what a commit made ready.
func (s *Store) Wake(ctx context.Context, w Wake) {
	if w.empty() {
		return
	}
	s.wakes.send(w)
	s.Announce(ctx, w)
}

// Announce tells the schedulers of other processes. On SQLite they see that
// something was written.
func (s *Store) Announce(ctx context.Context, w Wake) {
	if s.target.dialect == Postgres {
		s.notices.send(context.WithoutCancel(ctx), s, w)
	}
}
