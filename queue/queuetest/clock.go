package queuetest

import (
	"time"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/queue"
)

// A Clock stands still until the test moves it. Pass it to a client with
// [queue.WithClock]: jobs, limits and schedules then follow it, on every
// database.
type Clock struct{ fake *clock.Fake }

var _ queue.Clock = (*Clock)(nil)

// NewClock returns a clock that stands at start.
func NewClock(start time.Time) *Clock { return &Clock{fake: clock.NewFake(start)} }

// Now is the time the clock stands at.
func (c *Clock) Now() time.Time { return c.fake.Now() }

// Timer returns a channel that receives once the clock was advanced by d (at
// once when d <= 0), and a function that releases the timer.
func (c *Clock) Timer(d time.Duration) (<-chan time.Time, func()) { return c.fake.Timer(d) }

// Advance moves the clock by d. A negative d is a clock that steps back.
func (c *Clock) Advance(d time.Duration) { c.fake.Advance(d) }
