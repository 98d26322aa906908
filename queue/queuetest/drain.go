package queuetest

import (
	"context"
	"testing"
	"time"
)

// A Drainer runs what can run now: a scheduler.
type Drainer interface {
	Drain(ctx context.Context) error
}

// Drain runs every job that can start at the time of the clock, and those that
// they enqueue, and returns when nothing is left but what waits for a later
// time.
func Drain(t testing.TB, s Drainer) {
	t.Helper()
	if err := s.Drain(context.Background()); err != nil {
		t.Fatalf("queuetest: drain: %v", err)
	}
}

// AdvanceAndDrain moves the clock by d and drains.
func AdvanceAndDrain(t testing.TB, clock *Clock, s Drainer, d time.Duration) {
	t.Helper()
	clock.Advance(d)
	Drain(t, s)
}
