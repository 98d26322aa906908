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
	news    store.News
	beside  *beside
	bell    chan struct{} // holds one ring: something is there
}

func (m *mail) init() {
	m.bell = make(chan struct{}, 1)
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

// written delivers what came of results that were written beside the loop.
func (m *mail) written(b *beside) {
	m.mu.Lock()
	m.beside = b
	m.mu.Unlock()
	m.ring()
}

// arrive delivers news of a commit.
func (m *mail) arrive(w store.Wake) {
	m.mu.Lock()
	m.news.Add(w)
	m.mu.Unlock()
	m.ring()
}

// tells looks into the box for news of such a line, and leaves it there.
func (m *mail) tells(such func(store.Line) bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news.Any(such)
}

// collect empties the box.
func (m *mail) collect() (results []store.Result, news store.Wake, written *beside) {
	m.mu.Lock()
	defer m.mu.Unlock()
	results, m.results = m.results, nil
	written, m.beside = m.beside, nil
	return results, m.news.Take(), written
}
