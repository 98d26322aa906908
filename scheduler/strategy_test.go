package scheduler_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// validate is what is wrong with a scheduler that has a task.
func validate(t *testing.T, client *queue.Client, opts []scheduler.Option, task ...scheduler.TaskOption) error {
	t.Helper()
	s, err := scheduler.New(client, append([]scheduler.Option{quiet}, opts...)...)
	if err != nil {
		return err
	}
	require.NoError(t, scheduler.Register(s, "a", func(context.Context, *queue.Job[string]) error { return nil }, task...))
	return s.Validate()
}

func TestWhatBelongsToTheOtherStrategyIsRefused(t *testing.T) {
	client := open(t, storetest.SQLite(t))
	covers := scheduler.Tasks("a")
	for _, c := range []struct {
		name string
		opts []scheduler.Option
		task []scheduler.TaskOption
		want string
	}{
		{"a burst", []scheduler.Option{windows}, []scheduler.TaskOption{scheduler.RateLimit("1/s"), scheduler.Burst(5)}, `task "a": burst: a fixed window has none: leave it out`},
		{"a hold", []scheduler.Option{windows}, []scheduler.TaskOption{scheduler.RateLimit("1/s"), scheduler.Defer(scheduler.UntilToken)}, `task "a": defer "until_token": what a fixed window refuses waits for the next one: leave it out`},
		{"a list", []scheduler.Option{windows}, []scheduler.TaskOption{scheduler.RateLimits(scheduler.Rate{Rate: "1/s"}, scheduler.Rate{Rate: "5/m"})}, `task "a": a list of rates: under fixed windows a task has one`},
		{"shedding", []scheduler.Option{windows}, []scheduler.TaskOption{scheduler.OnExcess(scheduler.Drop)}, `task "a": on_excess "drop": what a fixed window refuses stays where it is: leave it out`},
		{"a fraction", []scheduler.Option{windows}, []scheduler.TaskOption{scheduler.RateLimit("1.5/s")}, `task "a": rate "1.5/s": fixed windows count whole starts`},
		{"a burst of a shared one", []scheduler.Option{windows, scheduler.SharedLimit("l", "1/s", covers, scheduler.Burst(5))}, nil, `limit "l": burst: a fixed window has none`},
		{"two names that differ by case", []scheduler.Option{windows, scheduler.SharedLimit("l", "1/s", covers), scheduler.SharedLimit("L", "1/s", covers)}, nil, `limit "L" and limit "l" differ only by case: name them apart`},
		{"a window that covers nothing", []scheduler.Option{windows, scheduler.WindowLimit("l", 1, time.Second)}, nil, `limit "l": it covers nothing: name tasks or queues`},
		{"a negative count", []scheduler.Option{windows, scheduler.WindowLimit("l", -1, time.Second, covers)}, nil, `limit "l": limit -1: use a whole number from 0 (nothing starts) to 1000000000`},
		{"a period below a second", []scheduler.Option{windows, scheduler.WindowLimit("l", 1, 999*time.Millisecond, covers)}, nil, `limit "l": per 999ms: use 1 second to 366 days, as in 60 or 90s`},
		{"an option that is nil", []scheduler.Option{windows, scheduler.WindowLimit("l", 1, time.Second, covers, nil)}, nil, `limit "l": option 2 is nil: leave it out`},
		{"a reserved name", []scheduler.Option{windows, scheduler.WindowLimit("task:l", 1, time.Second, covers)}, nil, `limit "task:l": names that begin with "task:" are Weir's own`},
		{"an interval out of range", []scheduler.Option{windows, scheduler.RefreshInterval(0)}, nil, `refresh interval 0s: use 1ms to 1m`},
		{"no such strategy", []scheduler.Option{scheduler.Strategy("leaky")}, nil, `strategy "leaky": use "token_bucket" or "fixed_window"`},
		{"a window under buckets", []scheduler.Option{scheduler.WindowLimit("l", 1, time.Second, covers)}, nil, `limit "l": WindowLimit belongs to the fixed-window strategy: use SharedLimit, or Strategy(FixedWindow)`},
		{"exact under buckets", []scheduler.Option{scheduler.SharedLimit("l", "1/s", covers, scheduler.Exact())}, nil, `limit "l": Exact belongs to the fixed-window strategy: a token bucket is exact anyway`},
		{"an interval under buckets", []scheduler.Option{scheduler.RefreshInterval(time.Second)}, nil, `RefreshInterval belongs to the fixed-window strategy`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, validate(t, client, c.opts, c.task...), c.want)
		})
	}
	require.NoError(t, validate(t, client, []scheduler.Option{
		windows, scheduler.RefreshInterval(time.Second), scheduler.WindowLimit("l", 0, 1500*time.Millisecond, covers, scheduler.Exact()), scheduler.QueueLimit("q", "5/m", scheduler.Exact()),
	}, scheduler.RateLimit("1/s"), scheduler.OnExcess(scheduler.Postpone), scheduler.Defer(scheduler.DeferSecond)))
}

func TestAProcessThatComesWithTheOtherStrategyRunsNothingAndDeclaresNothing(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/s"))
		r.drain()
		r.strategy = scheduler.FixedWindow
		other := r.beside()
		other.task("b", nil, scheduler.RateLimit("1/s"))
		r.enqueue("b", []string{"x"})
		require.ErrorIs(t, other.s.Run(t.Context()), scheduler.ErrStrategy)
		require.ErrorIs(t, other.s.Drain(t.Context()), scheduler.ErrStrategy)
		require.Zero(t, other.count())
		require.Len(t, r.limits(), 1)
		tasks, err := r.client.Tasks(t.Context())
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(tasks, func(known queue.TaskInfo) bool { return known.Name == "b" && !known.RegisteredAt.IsZero() }))
	})
}

func TestAfterASwitchJobsGoOnUnderTheOtherStrategy(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.enqueue("a", numbered(20))
		r.at(0)
		require.Equal(t, 3, r.count())
		_, err := r.client.SwitchStrategy(t.Context(), string(scheduler.FixedWindow))
		require.ErrorIs(t, err, queue.ErrLive)

		r.clock.Advance(30 * time.Second)
		done, err := r.client.SwitchStrategy(t.Context(), string(scheduler.FixedWindow))
		require.NoError(t, err)
		require.Equal(t, queue.Switched{From: "token_bucket", To: "fixed_window"}, done)
		r.strategy = scheduler.FixedWindow
		r.again()
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.at(30 * time.Second)
		require.Equal(t, 6, r.count(), "a window begins at its first use")
		require.EqualValues(t, 6, r.limit("task:a").Started, "the row stays")

		r.clock.Advance(time.Minute)
		_, err = r.client.SwitchStrategy(t.Context(), string(scheduler.TokenBucket))
		require.NoError(t, err)
		r.strategy = scheduler.TokenBucket
		r.again()
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.at(90 * time.Second)
		require.Equal(t, 9, r.count(), "the bucket was credited meanwhile")
		r.conserved(20)
	})
}

// The strategy was switched while a process was suspended for longer than it counts
// as live: it stops when it finds out.
func TestAProcessThatWasSuspendedThroughASwitchStops(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		s := r.stuck("a")
		r.enqueue("a", []string{"x"})
		_, done := r.serve()
		<-s.begun
		r.meddle(`update weir_processes set live_until = 0`)
		r.meddle(`update weir_settings set value = 'token_bucket'`)
		answered := make(chan struct{})
		go func() { s.answer <- nil; close(answered) }()
		<-answered
		require.ErrorIs(t, until(r, 10*time.Second, done), scheduler.ErrStrategy)
		require.Len(t, r.jobs(queue.StateCompleted), 1, "what ran is written")
	})
}

func TestAProcessIsLiveWhileItRunsAndGoneWhenItStops(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		live := func() (n int) {
			require.NoError(t, r.db.SQL(t).QueryRowContext(t.Context(), `select count(*) from weir_processes`).Scan(&n))
			return n
		}
		s := r.stuck("a")
		r.enqueue("a", []string{"x"})
		stop, done := r.serve()
		<-s.begun
		require.Equal(t, 1, live())
		r.clock.Advance(8 * time.Second)
		require.Eventually(t, func() bool {
			var until int64
			require.NoError(t, r.db.SQL(t).QueryRowContext(t.Context(), `select live_until from weir_processes`).Scan(&until))
			return until == r.clock.Now().Add(30*time.Second).UnixMicro()
		}, time.Minute, time.Millisecond, "it says so again")

		r.meddle(`delete from weir_processes`) // it was suspended, and another one joined
		r.clock.Advance(8 * time.Second)
		require.Eventually(t, func() bool { return live() == 1 }, time.Minute, time.Millisecond, "it joins again")
		s.answer <- nil
		stop()
		require.NoError(t, <-done)
		require.Zero(t, live())
	})
}

// Whoever looks at the processes sees what the database answered one when it
// failed it, and since when; also afterwards.
// process is the one live process.
func (r *rig) process() queue.ProcessInfo {
	r.t.Helper()
	stats, err := r.client.Stats(r.t.Context())
	require.NoError(r.t, err)
	require.Len(r.t, stats.Processes, 1)
	return stats.Processes[0]
}

// word is a process's word that it is live.
const word = `^update \S*weir_processes`

func TestAProcessShowsItsLastTroubleWithTheDatabase(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		stop, done := r.serve()
		r.enqueue("a", []string{"well"})
		require.Eventually(t, func() bool { return r.count() == 1 }, time.Minute, time.Millisecond)
		require.Empty(t, r.process().Error)

		mend := r.faults.FailAll(`set state = 1`)
		r.enqueue("a", numbered(1))
		words := r.faults.Count(word)
		r.pass(500*time.Millisecond, words, func() bool { return r.process().Error != "" })
		p := r.process()
		require.Contains(t, p.Error, storetest.ErrInjected.Error())
		require.False(t, p.ErrorFrom.IsZero())
		require.Zero(t, p.ErrorUntil)

		mend()
		r.pass(500*time.Millisecond, words, func() bool { return !r.process().ErrorUntil.IsZero() })
		require.Equal(t, p.Error, r.process().Error)
		require.Equal(t, p.ErrorFrom, r.process().ErrorFrom)
		require.Equal(t, 2, r.count())
		stop()
		require.NoError(t, <-done)
	})
}

// To stay is one update, and asks for the strategy no more. Rows of those who ended
// without a word do not stay for ever, although nobody joins.
func TestAProcessThatStaysJoinsOnceAndForgetsWhoIsGone(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		joins, words := r.faults.Count(`weir_settings`), r.faults.Count(word)
		stop, done := r.serve()
		rows := func(where string) (n int) {
			require.NoError(t, r.db.SQL(t).QueryRowContext(t.Context(), `select count(*) from weir_processes where `+where).Scan(&n))
			return n
		}
		require.Eventually(t, func() bool { return rows(`true`) == 1 }, time.Minute, time.Millisecond)
		joined := joins.Statements()
		r.meddle(`insert into weir_processes (id, host, pid, live_until) values ('gone', 'h', 1, 1)`)
		for n := range int64(10) {
			r.clock.Advance(8 * time.Second)
			require.Eventually(t, func() bool { return words.Statements() > n }, time.Minute, time.Millisecond)
		}
		require.Eventually(t, func() bool { return rows(`id = 'gone'`) == 0 }, time.Minute, time.Millisecond)
		require.Equal(t, 1, rows(`true`))
		require.Equal(t, joined, joins.Statements())
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
	})
}

// Trouble is over when a look around succeeds, although there is nothing to do, and
// the process says so then, not at its next time.
func TestAnIdleProcessSaysAtOnceThatItsTroubleIsOver(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		stop, done := r.serve()
		require.Eventually(t, func() bool {
			rows, err := r.client.Store().Processes(t.Context())
			return err == nil && len(rows) == 1
		}, time.Minute, time.Millisecond)
		mend := r.faults.FailAll(`with recursive l\(`)
		r.pass(500*time.Millisecond, r.faults.Count(word), func() bool { return r.process().Error != "" })
		require.Zero(t, r.process().ErrorUntil)
		r.clock.Advance(8 * time.Second)
		require.Eventually(t, func() bool { return r.process().SeenAt.Equal(r.clock.Now()) }, time.Minute, time.Millisecond)
		mend()
		var passed time.Duration
		require.Eventually(t, func() bool {
			if passed < 6*time.Second { // its next time comes later
				passed += 500 * time.Millisecond
				r.clock.Advance(500 * time.Millisecond)
			}
			return !r.process().ErrorUntil.IsZero()
		}, time.Minute, 5*time.Millisecond)
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
	})
}
