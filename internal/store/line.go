package store

import (
	"slices"
	"sync"
)

// writerLine is the line of those of this process who want to write to SQLite:
// first come, first served, but renewals of leases go before all others. A
// renewal that comes too late makes jobs run twice.
type writerLine struct {
	mu      sync.Mutex
	busy    bool
	waiting []chan struct{}
	firsts  int // of those waiting, at the head of the line
}

// wait returns true when it is the caller's turn, who calls leave afterwards,
// or false when done is closed before that.
func (l *writerLine) wait(done <-chan struct{}, first bool) bool {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	if first {
		l.waiting = slices.Insert(l.waiting, l.firsts, turn)
		l.firsts++
	} else {
		l.waiting = append(l.waiting, turn)
	}
	l.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-done:
		l.giveUp(turn)
		return false
	}
}

// giveUp leaves the line, or passes on a turn that came just now.
func (l *writerLine) giveUp(turn chan struct{}) {
	l.mu.Lock()
	i := slices.Index(l.waiting, turn)
	if i >= 0 {
		l.remove(i)
	}
	l.mu.Unlock()
	if i < 0 {
		l.leave()
	}
}

func (l *writerLine) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy = false
		return
	}
	close(l.waiting[0])
	l.remove(0)
}

func (l *writerLine) remove(i int) {
	l.waiting = slices.Delete(l.waiting, i, i+1)
	if i < l.firsts {
		l.firsts--
	}
}
