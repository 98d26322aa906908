package clock

import (
	"sync"
	"time"
)

// Fake is a Clock that stands still until it is moved. The zero value is not
// usable: NewFake makes one. It may be used from many goroutines.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	passed time.Duration
	timers map[*fakeTimer]struct{}
}

type fakeTimer struct {
	at time.Time
	ch chan time.Time
}

// NewFake returns a clock that stands at start.
func NewFake(start time.Time) *Fake {
	return &Fake{now: start, timers: map[*fakeTimer]struct{}{}}
}

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// Timer implements Clock: it fires when Advance or Set passes its time.
func (f *Fake) Timer(d time.Duration) (<-chan time.Time, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := &fakeTimer{at: f.now.Add(d), ch: make(chan time.Time, 1)}
	if d <= 0 {
		t.ch <- f.now
		return t.ch, func() {}
	}
	f.timers[t] = struct{}{}
	return t.ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.timers, t)
	}
}

// Elapsed is the sum of all Advances.
func (f *Fake) Elapsed() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.passed
}

// Step sets the clock on, or back, by d without time passing: no timer fires.
func (f *Fake) Step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	for t := range f.timers {
		t.at = t.at.Add(d)
	}
}

// Advance moves the clock by d, which may be negative: a clock that steps
// back. Timers whose time has come fire.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.passed += d
	for t := range f.timers {
		if !t.at.After(f.now) {
			delete(f.timers, t)
			t.ch <- f.now
		}
	}
}
