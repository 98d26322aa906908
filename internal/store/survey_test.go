package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestASurveyFindsLinesHoldsAndTheNextTimes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		survey := func() store.Survey {
			got, err := b.Survey(t.Context(), []string{"a", "none", "é"}, []string{"one", "two", "gone"})
			require.NoError(t, err)
			return got
		}
		require.Equal(t, store.Survey{Held: map[string]int64{}, Over: map[string]string{}, Paused: map[string]struct{}{}, Now: b.now()}, survey())

		in := func(task, queue string, delay int64) store.NewJob {
			j := newJob(task)
			j.Queue, j.Delay = queue, delay
			return j
		}
		b.insert(t, in("a", "y", 0), in("a", "x", 0), in("a", "x", 0), in("a", "X", 0), in("a", "é", 0), in("é", "q", 0),
			in("unasked", "q", 0), in("a", "scheduled", second), in("unasked", "q", 2*second))
		require.Len(t, b.grant(t, 1, "unasked", 1), 1)
		limits := []store.Declared{declared(t, "one", "1/s"), declared(t, "two", "1/s"), declared(t, "unasked", "1/s")}
		require.NoError(t, b.Register(t.Context(), nil, limits))
		b.exec(t, `update weir_limits set held_until = 77 where name <> 'one'`)
		_, err := b.SetOverride(t.Context(), "two", store.Override{Rate: "5/m", Burst: 7})
		require.NoError(t, err)
		b.exec(t, `update weir_limits set held_until = 77 where name = 'two'`)
		_, err = b.SetOverride(t.Context(), "one", store.Override{Rate: "5/m", For: second})
		require.NoError(t, err)
		b.exec(t, `update weir_limits set override_until = $1 where name = 'one'`, b.now())
		got := survey()
		require.ElementsMatch(t, []store.Line{
			{Task: "a", Queue: "X"}, {Task: "a", Queue: "x"}, {Task: "a", Queue: "y"}, {Task: "a", Queue: "é"}, {Task: "é", Queue: "q"},
		}, got.Lines)
		got.Lines = nil
		require.Equal(t, store.Survey{
			Paused: map[string]struct{}{},
			Held:   map[string]int64{"one": 0, "two": 77},
			Over:   map[string]string{"one": " ", "two": "5/m 7"},
			Due:    b.now() + second, Lease: b.now() + lease.Microseconds(), Now: b.now(),
		}, got)

		b.clock.Advance(time.Hour)
		got, err = b.Survey(t.Context(), nil, nil)
		require.NoError(t, err)
		require.Empty(t, got.Lines)
		require.Equal(t, b.now(), got.Now)
	})
}

func TestAHoldThatLiesMoreThanASecondAheadIsNone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{declared(t, "l", "1/s")}))
		for from, held := range map[int64]bool{-second: true, 0: true, second: true, second + 1: false} {
			b.exec(t, `update weir_limits set held_from = $1, held_until = $2`, b.now()+from, b.now()+from+second)
			got, err := b.Survey(t.Context(), nil, []string{"l"})
			require.NoError(t, err)
			require.Equal(t, held, got.Held["l"] == b.now()+from+second, from)
			require.Equal(t, !held, got.Held["l"] == 0, from)
		}
	})
}

func TestTheLastRegistrationOfATaskCounts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		tasks := []store.Task{
			{Name: "b", Queue: "q1", MaxRetries: 3, Definition: `{"a":"\u0000"}`},
			{Name: "a", Queue: "q2", MaxRetries: 0, Definition: `{}`},
			{Name: "B", Queue: "é/'\"", MaxRetries: 1_000_000, Definition: `{}`},
		}
		require.NoError(t, b.Register(t.Context(), tasks, nil))
		b.clock.Advance(time.Second)
		require.NoError(t, b.Register(t.Context(), []store.Task{{Name: "b", Queue: "q3", MaxRetries: 1, Definition: `[]`}}, nil))
		require.NoError(t, b.Register(t.Context(), nil, nil))
		got, err := b.Tasks(t.Context())
		require.NoError(t, err)
		tasks[1].RegisteredAt, tasks[2].RegisteredAt = b.now()-second, b.now()-second
		require.Equal(t, []store.Task{
			tasks[2], tasks[1], {Name: "b", Queue: "q3", MaxRetries: 1, Definition: `[]`, RegisteredAt: b.now()},
		}, got)
	})
}

func TestLinesCountTheirWaitingJobs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		lines, err := b.Lines(t.Context())
		require.NoError(t, err)
		require.Empty(t, lines)
		in := func(task, queue string) store.NewJob {
			j := newJob(task)
			j.Queue = queue
			return j
		}
		later := newJob("a")
		later.Delay = second
		b.insert(t, in("b", "x"), in("a", "y"), in("a", "x"), in("a", "x"), in("A", "x"), later, in("a", "q"), in("only", "running"))
		require.Len(t, b.grant(t, 1, "a", 1), 1)
		b.turn(t, store.TurnRequest{Claim: 2, Admit: &admission{
			asks: []store.Ask{{Line: store.Line{Task: "only", Queue: "running"}, Max: 1}}, decide: startAll,
		}})
		lines, err = b.Lines(t.Context())
		require.NoError(t, err)
		require.Equal(t, []store.LineStats{
			{Line: store.Line{Task: "A", Queue: "x"}, Waiting: 1},
			{Line: store.Line{Task: "a", Queue: "x"}, Waiting: 2},
			{Line: store.Line{Task: "a", Queue: "y"}, Waiting: 1},
			{Line: store.Line{Task: "b", Queue: "x"}, Waiting: 1},
		}, lines)
	})
}

func TestQueuesCountWhatIsInThem(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Register(t.Context(), []store.Task{{Name: "t", Queue: "registered", Definition: "{}"}}, nil))
		b.exec(t, `insert into weir_queues (name) values ('paused')`)
		start := b.now()
		in := func(task, queue string, delay int64) store.NewJob {
			j := newJob(task)
			j.Queue, j.Delay = queue, delay
			return j
		}
		b.insert(t, in("a", "q", 0), in("a", "q", 0), in("a", "Q", 9*second), in("c", "q", 5*second), in("c", "done", 0))
		b.clock.Advance(time.Second)
		high := in("b", "q", 0)
		high.Priority = 9
		b.insert(t, high)
		require.Len(t, b.grant(t, 1, "a", 1), 1)
		done := b.turn(t, store.TurnRequest{Claim: 2, Admit: &admission{
			asks: []store.Ask{{Line: store.Line{Task: "c", Queue: "done"}, Max: 1}}, decide: startAll,
		}}).Started[0]
		b.turn(t, store.TurnRequest{Results: []store.Result{end(done, store.Done)}})
		got, err := b.Queues(t.Context())
		require.NoError(t, err)
		require.Equal(t, []store.QueueStats{
			{Queue: "Q", Scheduled: 1},
			{Queue: "paused"},
			{Queue: "q", Waiting: 2, Scheduled: 1, Running: 1, Oldest: &start},
			{Queue: "registered"},
		}, got)
	})
}

func TestCountsStopBehindTheirBound(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", store.CountBound+500)...)
		lines, err := b.Lines(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, store.CountBound+1, lines[0].Waiting)
		queues, err := b.Queues(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, store.CountBound+1, queues[0].Waiting)
	})
}
