package scheduler

import (
	"sync"

	"github.com/weirq/weir/internal/store"
)

// mail is how handlers and producers of this process reach the loop. Nobody
// waits to deliver.
type mail struct {
	mu      sync.Mutex
	results []store.Result
	lines   map[store.Line]struct{}
	due     int64
	look    bool
	bell    chan struct{} // holds one ring: something is there
}

func (m *mail) init() {
	m.bell = make(chan struct{}, 1)
	m.lines = map[store.Line]struct{}{}
}

func (m *mail) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// report delivers the end of an attempt.
func (m *mail) report(r store.Result) {
	m.mu.Lock()
	m.results = append(m.results, r)
	m.mu.Unlock()
	m.ring()
}

// arrive delivers news of a commit.
func (m *mail) arrive(w store.Wake) {
	m.mu.Lock()
	for _, l := range w.Lines {
		m.lines[l] = struct{}{}
	}
	if w.Due != 0 && (m.due == 0 || w.Due < m.due) {
		m.due = w.Due
	}
	m.look = m.look || w.Look
	m.mu.Unlock()
	m.ring()
}

// collect empties the box.
func (m *mail) collect() (results []store.Result, news store.Wake) {
	m.mu.Lock()
	defer m.mu.Unlock()
	results, m.results = m.results, nil
	for l := range m.lines {
		news.Lines = append(news.Lines, l)
	}
	clear(m.lines)
	news.Due, m.due = m.due, 0
	news.Look, m.look = m.look, false
	return results, news
}
