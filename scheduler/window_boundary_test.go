package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// A worker under fixed windows, with a fault at each statement that this takes: no
// job is lost, and no window has more starts than its limit and U, or, of an exact
// limit, than its limit.
func TestAFaultAtAnyStatementUnderFixedWindowsKeepsTheBound(t *testing.T) {
	eachStatement(t, newWindowWalk, map[string]func(*storetest.Faults, string){
		"before it":                    func(f *storetest.Faults, pattern string) { f.Fail(pattern, 1) },
		"before its commit":            func(f *storetest.Faults, pattern string) { f.FailCommit(pattern, 1) },
		"the reply to its commit lost": func(f *storetest.Faults, pattern string) { f.LoseReply(pattern, 1) },
		"nothing found": func(f *storetest.Faults, pattern string) {
			if !neverEmpty.MatchString(pattern) {
				f.Empty(pattern, 1)
			}
		},
	}, func(t *testing.T, w *walk, want []string) {
		w.all()
		w.conserved(w.enqueued)
		require.Len(t, w.jobs(queue.StateCompleted), w.enqueued)
		for generation, starts := range w.seen("a") {
			require.LessOrEqual(t, starts, 3+w.s.Stats().Uncounted, "generation %d", generation)
		}
		for generation, starts := range w.seen("exact") {
			require.LessOrEqual(t, starts, int64(2), "generation %d", generation)
		}
	})
}

func newWindowWalk(t *testing.T, db storetest.Database) *walk {
	t.Helper()
	exact := scheduler.WindowLimit("limit of exact", 2, time.Minute, scheduler.Tasks("exact"), scheduler.Exact())
	w := &walk{rig: newRig(t, db, clock.NewFake(epoch), scheduler.Concurrency(20), windows, exact), t: t, steps: throughWindows, tolerant: true}
	w.s.SetLease(walkLease)
	w.seen = w.judge()
	return w
}

// throughWindows works off more than two windows let start.
func throughWindows(w *walk) {
	w.t.Helper()
	idle := func(context.Context, *queue.Job[string]) error { return nil }
	for name, opts := range map[string][]scheduler.TaskOption{"a": {scheduler.RateLimit("3/m")}, "exact": nil, "free": nil} {
		require.NoError(w.t, scheduler.Register(w.s, queue.Task[string](name), idle, opts...))
	}
	w.insist("drain", w.s.Drain)
	w.add("a", 7)
	w.add("exact", 5)
	w.add("free", 3)
	for range 9 {
		w.insist("drain", w.s.Drain)
		w.clock.Advance(20 * time.Second)
	}
}
