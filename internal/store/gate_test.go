package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// gated notes what a turn holds, and saves gates.
type gated struct {
	admission
	locked store.Locked
	save   []store.Gate
}

func (g *gated) Ask(now int64, locked store.Locked) []store.Ask {
	g.locked = locked
	return g.admission.Ask(now, locked)
}

func (g *gated) Decide(read [][]store.Candidate) store.Plan {
	p := g.admission.Decide(read)
	p.SaveGates = g.save
	return p
}

func TestGatesAreMadeWhereTheyAreMissingAndKeepWhatIsSaved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		names := []string{"queue:q", "task:A", "task:a", "task:é"}
		g := &gated{save: []store.Gate{{Name: "task:a", Failures: 1<<53 + 1, WindowFrom: 2, OpenedAt: 3, OpenUntil: 4}}}
		b.turn(t, store.TurnRequest{Gates: names, Admit: g})
		require.Equal(t, []store.Gate{{Name: "queue:q"}, {Name: "task:A"}, {Name: "task:a"}, {Name: "task:é"}}, g.locked.Gates)
		require.Equal(t, b.now(), g.now)

		g = &gated{}
		b.turn(t, store.TurnRequest{Gates: names[1:3], Limits: []store.Declared{declared(t, "l", "1/s")}, Admit: g})
		require.Equal(t, []store.Gate{{Name: "task:A"}, {Name: "task:a", Failures: 1<<53 + 1, WindowFrom: 2, OpenedAt: 3, OpenUntil: 4}}, g.locked.Gates)
		require.Len(t, g.locked.Limits, 1)

		g = &gated{save: []store.Gate{{Name: "task:a"}, {Name: "gone"}}}
		_, err := b.Turn(t.Context(), store.TurnRequest{Gates: names, Admit: g})
		require.ErrorContains(t, err, "turn: save breakers: 1 of 2 rows were there")
		require.EqualValues(t, 3, b.count(t, `select opened_at from weir_gates where name = 'task:a'`))
	})
}

func TestRunningJobsAreCountedByLineWhileTheirLeasesAreHeld(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		other := newJob("a")
		other.Queue = "r"
		b.insert(t, append(newJobs("a", 5), other, newJob("b"))...)
		jobs := b.grant(t, 1, "a", 3)
		b.turn(t, store.TurnRequest{Claim: 2, Admit: &admission{asks: []store.Ask{{Line: store.Line{Task: "a", Queue: "r"}, Max: 1}, ask("b", 1)}, decide: startAll}})
		count := func(gates ...string) []store.LineCount {
			g := &gated{}
			b.turn(t, store.TurnRequest{Gates: gates, Admit: g})
			return g.locked.Running
		}
		line := func(task, queue string, n int) store.LineCount {
			return store.LineCount{Line: store.Line{Task: task, Queue: queue}, Running: n}
		}
		require.ElementsMatch(t, []store.LineCount{line("a", "q", 3), line("a", "r", 1)}, count("task:a"), "no others are counted")
		require.ElementsMatch(t, []store.LineCount{line("a", "q", 3), line("b", "q", 1)}, count("queue:q"))
		require.ElementsMatch(t, []store.LineCount{line("a", "r", 1), line("b", "q", 1)}, count("queue:r", "task:b"))
		require.Empty(t, count("queue:a", "task:q"))

		// Results of the same turn count, also those that free a place.
		g := &gated{}
		late := end(jobs[1], store.Done)
		late.Claim = 99
		b.turn(t, store.TurnRequest{Gates: []string{"task:a"}, Results: []store.Result{end(jobs[0], store.Done), late}, Admit: g})
		require.ElementsMatch(t, []store.LineCount{line("a", "q", 2), line("a", "r", 1)}, g.locked.Running)
		require.Equal(t, []store.Result{late}, g.locked.Uncounted)

		b.clock.Advance(lease)
		require.Empty(t, count("task:a"), "a lease that ran out holds no place")
	})
}

func TestTheClockIsReadAfterTheGateIsLocked(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	s := b.db.Open(t, store.Options{}) // its clock is the real one
	_, err := s.Turn(t.Context(), store.TurnRequest{Gates: []string{"task:a"}, Admit: &admission{}})
	require.NoError(t, err)
	release := b.inside(t, `update weir_gates set failures = 7`)
	type answer struct {
		out store.TurnResult
		err error
	}
	done := make(chan answer, 1)
	g := &gated{}
	go func() {
		out, err := s.Turn(t.Context(), store.TurnRequest{Gates: []string{"task:a"}, Admit: g})
		done <- answer{out, err}
	}()
	b.blocked(t, 1)
	before, err := s.Now(t.Context())
	require.NoError(t, err)
	release()
	got := <-done
	require.NoError(t, got.err)
	require.Greater(t, got.out.Now, before)
	require.EqualValues(t, 7, g.locked.Gates[0].Failures)
}

func TestFinishedJobsAreRemovedWhenTheirTimeIsOver(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 2300)...)
		var done []store.Result
		for _, j := range b.grant(t, 1, "a", 2300) {
			done = append(done, end(j, store.Done))
		}
		b.turn(t, store.TurnRequest{Results: done[:2100]})
		b.clock.Advance(time.Minute)
		b.turn(t, store.TurnRequest{Results: done[2100:]})
		purge := func(keep time.Duration) int64 {
			n, err := b.PurgeHistory(t.Context(), keep)
			require.NoError(t, err)
			return n
		}
		require.Zero(t, purge(time.Minute))
		b.clock.Advance(time.Microsecond)
		require.EqualValues(t, 2100, purge(time.Minute), "in batches, all of them")
		require.Zero(t, purge(time.Minute))
		require.Equal(t, store.Completed, b.stored(t, done[2100].UID).State)
		require.EqualValues(t, 200, purge(0))
	})
}
