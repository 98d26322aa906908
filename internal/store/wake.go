package store

import "sync"

// Wake says what a commit of this process made ready.
type Wake struct {
	Lines []Line
	Due   int64 // the earliest time among scheduled jobs; 0: none
	// Look: limits or queues were paused, resumed or changed.
	Look bool
}

// wakes tells the schedulers in this process about its own inserts, so that
// they need not look for them.
type wakes struct {
	mu   sync.Mutex
	next int
	fns  map[int]func(Wake)
}

// OnWake calls fn after each commit that made jobs ready, until the returned
// function is called. fn must not block.
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
	if len(wake.Lines) == 0 && wake.Due == 0 && !wake.Look {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, fn := range w.fns {
		fn(wake)
	}
}
