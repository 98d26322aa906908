// Package clock is where Weir gets the time from, so that a test can hold it.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and makes timers. System is the real one; queuetest
// has one that moves only when it is told to.
type Clock interface {
	// Now is the current time. Comparisons with stored times use it alone,
	// never a monotonic reading: other processes see the wall clock.
	Now() time.Time
	// Timer returns a channel that receives once, d from now (at once when
	// d <= 0), and a function that releases the timer.
	Timer(d time.Duration) (<-chan time.Time, func())
}

// System is the host's clock.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return hostTime() }

// Timer implements Clock.
func (System) Timer(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Pause waits in real time, also under an injected clock, which nobody moves while a
// call is under way, and not longer than ctx.
func Pause(ctx context.Context, d time.Duration) {
	fired, release := System{}.Timer(d)
	defer release()
	select {
	case <-fired:
	case <-ctx.Done():
	}
}

// start is when the process began.
var start = time.Now()

// Elapsed is the time since the process began, as the host's monotonic clock
// has it.
func (System) Elapsed() time.Duration { return time.Since(start) }

// Elapsed is a reading of a clock's time that never steps: two of them tell how
// long it was between. A clock that has none never steps.
func Elapsed(c Clock) time.Duration {
	if e, ok := c.(interface{ Elapsed() time.Duration }); ok {
		return e.Elapsed()
	}
	return time.Duration(c.Now().UnixMicro()) * time.Microsecond
}
