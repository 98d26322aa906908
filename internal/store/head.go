package store

import (
	"sync"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// heads remembers where lines begin, on PostgreSQL. While somebody keeps a
// transaction open that may still read what has gone, the server keeps it, and a
// walk from the front of a line passes all that was started since. Where that
// has become slow, lines are walked from where they began the last time, and
// from the front for a tenth of the time: what came back to an older place waits
// until then.
type heads struct {
	mu     sync.Mutex
	byLine map[Line]lineHead
}

type lineHead struct {
	at    Candidate     // nothing waited before it
	until time.Duration // the process's time when the line is walked from the front again
}

const (
	// slowWalk is what no walk takes that passes nothing in vain.
	slowWalk = 50 * time.Millisecond
	// walkShare is how much longer than a walk from the front the next one waits.
	walkShare = 10
)

// begins is where an ask begins to walk, and whether that is the front.
func (h *heads) begins(a *Ask, now time.Duration) (from Candidate, front bool) {
	if a.After != nil {
		return *a.After, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.byLine[a.Line]
	if !ok || a.Fresh || now >= known.until {
		return beforeAll, true
	}
	from = known.at
	from.ID-- // it is looked at itself
	return from, false
}

// learn notes where lines began that were asked for from their beginning.
func (h *heads) learn(asks []Ask, fronts []bool, read [][]Candidate, now, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, a := range asks {
		known, ok := h.byLine[a.Line]
		switch {
		case a.After != nil || a.Fresh || !ok && took < slowWalk:
			continue
		case fronts[i] && (took < slowWalk || len(read[a.Of]) == 0):
			delete(h.byLine, a.Line)
			continue
		case fronts[i]:
			known.until = now + walkShare*took
		}
		if len(read[a.Of]) > 0 {
			known.at = read[a.Of][0]
		}
		if h.byLine == nil {
			h.byLine = map[Line]lineHead{}
		}
		h.byLine[a.Line] = known
	}
}

// forget has lines walked from the front: jobs are back in them.
func (h *heads) forget(lines []Line) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range lines {
		delete(h.byLine, l)
	}
}

// elapsed is the process's own time.
func (s *Store) elapsed() time.Duration { return clock.Elapsed(s.clock) }
