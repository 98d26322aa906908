package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// The statements of a pass, for faults.
const (
	beginTurn  = `^begin (immediate|.*enable_seqscan)` // of a claim, a roll or a count
	refresh    = `(?s)^select name, window_id.*\swhere key = '' and name`
	roll       = `update \S*weir_limits set window_id = window_id \+ 1`
	candidates = `^select (l\.n|\?9), j?\.?id`
	tally      = `update \S*weir_limits set window_count = (greatest|max)\(`
	lookUp     = `where lease_until is not null and claim = `
	exactSave  = `update \S*weir_limits (l )?set window_id = r`
)

func TestAFailureBeforeTheClaimEndsThePassWithNothingSpent(t *testing.T) {
	for name, fail := range map[string]func(*storetest.Faults){
		"the refresh fails":           func(f *storetest.Faults) { f.Fail(refresh, 1) },
		"the roll fails":              func(f *storetest.Faults) { f.Fail(roll, 1) },
		"the roll is not committed":   func(f *storetest.Faults) { f.FailCommit(roll, 1) },
		"the roll's reply is lost":    func(f *storetest.Faults) { f.LoseReply(roll, 1) },
		"the candidates are not read": func(f *storetest.Faults) { f.Fail(candidates, 1) },
		"the claim fails":             func(f *storetest.Faults) { f.Fail(grant, 1) },
		"the claim is not committed":  func(f *storetest.Faults) { f.FailCommit(grant, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			eachWindow(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("3/m"))
				r.drain()
				ids := r.enqueue("a", numbered(5))
				before := r.row(ids[0])
				fail(r.faults)
				require.Error(t, r.s.Drain(t.Context()))
				require.Zero(t, r.count())
				require.Equal(t, before, r.row(ids[0]))
				require.Zero(t, r.window("task:a").Count)
				r.drain()
				require.Equal(t, 3, r.count())
				require.EqualValues(t, 3, r.window("task:a").Count)
				require.EqualValues(t, 1, r.window("task:a").ID, "it is the first window, whoever heard of it")
				require.Zero(t, r.s.Stats().Uncounted)
				r.conserved(5)
			})
		})
	}
}

// Between the refresh and the claim another process took the job: nothing is
// counted, and what was read serves the next claim.
func TestAClaimThatFindsNothingCountsNothing(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		other := r.beside()
		for _, x := range []*rig{r, other} {
			x.task("a", nil, scheduler.RateLimit("3/m"))
			x.drain()
		}
		r.rollWindow("task:a")
		r.enqueue("a", numbered(1))
		r.faults.Before(refresh, 1, func() { r.faults.Before(beginTurn, 1, other.drain) })
		refreshes, counts := r.faults.Count(refresh), r.faults.Count(tally)
		r.drain()
		require.Equal(t, []int{0, 1}, []int{r.count(), other.count()})
		require.Zero(t, counts.Statements())
		require.EqualValues(t, 1, other.window("task:a").Count)
		r.enqueue("a", numbered(1))
		var read int64
		r.faults.Before(grant, 1, func() { read = refreshes.Statements() })
		r.drain()
		require.Equal(t, 1, r.count())
		require.EqualValues(t, 1, read, "nothing limited was claimed since")
		require.EqualValues(t, 2, r.window("task:a").Count)
		require.Zero(t, r.s.Stats().Uncounted)
	})
}

func TestARowThatIsGoneBeforeTheClaimIsAFaultOfTheConfiguration(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.task("free", nil)
		r.drain()
		r.meddle(`delete from weir_limits where name = 'task:a'`)
		r.enqueue("free", []string{"x"})
		r.drain()
		require.Equal(t, 1, r.tally("free"), "what no limit covers asks none")
		r.enqueue("a", []string{"x"})
		err := r.s.Drain(t.Context())
		require.ErrorIs(t, err, scheduler.ErrLimitGone)
		require.ErrorContains(t, err, `limit "task:a": the limit's row is gone from the database: it is made again when a process that declares it starts`)
		require.Zero(t, r.tally("a"))
		require.Zero(t, r.jobs(queue.StateWaiting)[0].Attempt)

		r.again()
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.drain()
		require.Equal(t, 1, r.tally("a"))
	})
}

func TestARunEndsWhereALimitsRowIsGone(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.drain()
		r.meddle(`delete from weir_limits`)
		r.enqueue("a", []string{"x"})
		require.ErrorIs(t, r.s.Drain(t.Context()), scheduler.ErrLimitGone)
		r.again()
		r.task("a", nil, scheduler.RateLimit("3/m"))
		gone := make(chan struct{})
		r.faults.Before(refresh, 1, func() { r.meddle(`delete from weir_limits`); close(gone) })
		_, done := r.serve()
		<-gone
		require.ErrorIs(t, <-done, scheduler.ErrLimitGone)
	})
}

func TestAfterALostReplyToAClaimItsJobIsCountedAndRunsOnce(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.enqueue("a", numbered(5))
		r.faults.LoseReply(grant, 1)
		require.ErrorIs(t, r.unless(), queue.ErrOutcomeUnknown)
		require.Equal(t, 3, r.count())
		require.EqualValues(t, 3, r.window("task:a").Count)
		require.Zero(t, r.s.Stats().Uncounted)
		r.conserved(5)
	})
}

// A claim of which the database does not say whether it was made may be one more
// start than was counted.
func TestAClaimThatCannotBeLookedUpCountsAsLost(t *testing.T) {
	var said log
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/h"))
		r.enqueue("a", []string{"x"})
		r.faults.LoseReply(grant, 1)
		r.faults.Before(lookUp, 1, func() { r.clock.Advance(30 * time.Second) })
		r.faults.Fail(lookUp, 1)
		require.ErrorIs(t, r.s.Drain(t.Context()), queue.ErrOutcomeUnknown)
		require.Zero(t, r.count())
		require.EqualValues(t, 1, r.s.Stats().Uncounted)
		require.NotZero(t, said.said("rate_limit_uncounted", "task=a", "nobody knows whether it was claimed"))
		r.drain()
		require.Equal(t, []start{{30 * time.Second, "a", "x", 2}}, r.ledger(), "its lease ran out")
		r.conserved(1)
	}, said.option())
}

// The claim was made, and another process had its job back by the time at which the
// database answers again.
func TestAClaimWhoseJobWasTakenBackCountsAsLost(t *testing.T) {
	var all log
	eachWindow(t, func(t *testing.T, r *rig) {
		said := func() int { return all.said("rate_limit_uncounted", "task=a", "its lease ran out") }
		before, seen, other := said(), r.judge(), r.beside()
		for _, x := range []*rig{r, other} {
			x.task("a", nil, scheduler.RateLimit("2/h"))
		}
		r.enqueue("a", numbered(5))
		r.faults.LoseReply(grant, 1)
		mend := r.faults.FailAll(lookUp)
		require.ErrorIs(t, r.s.Drain(t.Context()), queue.ErrOutcomeUnknown)
		r.clock.Advance(31 * time.Second)
		other.drain()
		require.Equal(t, 2, other.count())
		mend()
		r.drain()
		require.Zero(t, r.count(), "the window is full")
		require.Equal(t, map[int64]int64{1: 3}, seen("a"))
		require.EqualValues(t, 1, r.s.Stats().Uncounted, "U")
		require.Equal(t, before+1, said())
		r.conserved(5)
	}, all.option())
}

// A start whose count does not land has happened: it runs, and its loss is told.
func TestACountThatFailsIsToldAndTheJobRuns(t *testing.T) {
	for _, c := range []struct {
		name   string
		fail   func(*rig)
		told   string
		starts int
	}{
		{"it fails before it runs", func(r *rig) { r.faults.Fail(tally, 1) }, "injected fault", 4},
		{"it is not committed", func(r *rig) { r.faults.FailCommit(tally, 1) }, "injected fault", 4},
		{"its reply is lost", func(r *rig) { r.faults.LoseReply(tally, 1) }, "outcome unknown", 3},
		{"the read after a roll fails", func(r *rig) {
			r.beforeCounts(1, func(other *rig) {
				other.rollWindow("task:a")
				r.faults.Fail(refresh, 1)
			})
		}, "injected fault", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said log
			eachWindow(t, func(t *testing.T, r *rig) {
				before := said.said("rate_limit_uncounted")
				r.task("a", nil, scheduler.RateLimit("3/m"))
				r.drain()
				r.enqueue("a", numbered(10))
				c.fail(r)
				r.drain()
				require.Equal(t, c.starts, r.count(), "U is one")
				require.EqualValues(t, 3, r.window("task:a").Count)
				require.EqualValues(t, 1, r.s.Stats().Uncounted)
				require.Equal(t, before+1, said.said("rate_limit_uncounted", "level=WARN", "limit=task:a", "task=a", "job_id="))
				require.Positive(t, said.said("rate_limit_uncounted", c.told))
				require.Zero(t, said.said("rate_limit_closed"))
				r.conserved(10)
			}, said.option())
		})
	}
}

func TestACountFollowsAWindowThatIsRolledAwayFourTimesAndIsLostAtTheFifth(t *testing.T) {
	for _, c := range []struct {
		rolls     int
		uncounted int64
	}{{1, 0}, {4, 0}, {5, 1}} {
		eachWindow(t, func(t *testing.T, r *rig) {
			r.task("a", nil, scheduler.RateLimit("3/m"))
			r.drain()
			r.enqueue("a", numbered(1))
			r.beforeCounts(c.rolls, func(other *rig) { other.rollWindow("task:a") })
			counts := r.faults.Count(tally)
			r.drain()
			require.Equal(t, 1, r.count(), "it runs in any case")
			require.Equal(t, c.uncounted, r.s.Stats().Uncounted, "%d rolls", c.rolls)
			require.EqualValues(t, min(1+c.rolls, 5), counts.Statements())
			require.EqualValues(t, 1+c.rolls, r.window("task:a").ID)
			require.Equal(t, 1-c.uncounted, r.window("task:a").Count)
		})
	}
}

func TestACountWhoseRowIsGoneIsLostAndTheJobRuns(t *testing.T) {
	var said log
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.drain()
		r.enqueue("a", numbered(2))
		r.beforeCounts(1, func(other *rig) { other.meddle(`delete from weir_limits`) })
		require.ErrorIs(t, r.s.Drain(t.Context()), scheduler.ErrLimitGone, "before the next claim it is a fault of the configuration")
		require.Equal(t, 1, r.count())
		require.EqualValues(t, 1, r.s.Stats().Uncounted)
		require.Positive(t, said.said("rate_limit_uncounted", "its row is gone"))
	}, said.option())
}

// beforeCounts does something before each of the next n counts begins, as another
// process would.
func (r *rig) beforeCounts(n int, do func(other *rig)) {
	other := r.beside()
	var arm func()
	arm = func() {
		if n == 0 {
			return
		}
		n--
		r.faults.Before(beginTurn, 1, func() {
			do(other)
			r.faults.Before(refresh, 1, arm) // the read that follows a count without a row
		})
	}
	r.faults.Before(grant, 1, func() { r.faults.Before(`^commit`, 1, arm) })
}

// rollWindow opens the next window of a limit.
func (r *rig) rollWindow(name string) {
	r.t.Helper()
	rolled, err := r.client.Store().RollWindows(r.t.Context(), []store.WindowID{{Name: name, ID: r.window(name).ID}}, false)
	require.NoError(r.t, err)
	require.Len(r.t, rolled, 1)
}

func TestALimitClosesAfterThreeLossesAndReopensWhenAWriteLands(t *testing.T) {
	var said log
	eachWindow(t, func(t *testing.T, r *rig) {
		closed, reopened := said.said("rate_limit_closed"), said.said("rate_limit_reopened")
		other := r.beside()
		for _, x := range []*rig{r, other} {
			x.task("a", nil, scheduler.RateLimit("10/m"))
		}
		r.task("free", nil)
		r.drain()
		r.enqueue("a", numbered(40))
		mend := r.faults.FailAll(tally)
		r.at(time.Second)
		require.Equal(t, 3, r.tally("a"), "a counter that never advances is no limit")
		require.Equal(t, closed+1, said.said("rate_limit_closed", "level=ERROR", "limit=task:a", "in_a_row=3", "in_window=3"))
		r.enqueue("free", numbered(5))
		for s := 2; s < 20; s++ {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, 3, r.tally("a"))
		require.Equal(t, 5, r.tally("free"), "it holds up nothing else")
		require.EqualValues(t, 3, r.s.Stats().Uncounted)

		other.drain()
		require.Equal(t, 10, other.tally("a"), "closed is a process, not the row")
		mend()
		r.at(20 * time.Second)
		require.Equal(t, reopened+1, said.said("rate_limit_reopened", "limit=task:a"))
		require.Equal(t, 3, r.tally("a"), "the window is full by now")
		r.at(61 * time.Second)
		require.Equal(t, 13, r.tally("a"))
		require.Equal(t, []int64{1, 1}, []int64{r.s.Stats().Closed, r.s.Stats().Reopened})
		r.conserved(45)
	}, said.option())
}

// spoil makes the database swallow updates of a limit's count without an error.
func (r *rig) spoil(when string) (mend func()) {
	db := r.db.SQL(r.t)
	statements := []string{`create trigger test_spoil before update of window_count on weir_limits when ` + when + ` begin select raise(ignore); end`}
	undo := `drop trigger test_spoil`
	if r.db.Dialect == store.Postgres {
		statements = []string{
			`create function test_spoil() returns trigger language plpgsql as $$ begin return null; end $$`,
			`create trigger test_spoil before update of window_count on weir_limits for each row when (` + when + `) execute function test_spoil()`,
		}
		undo += ` on weir_limits`
	}
	for _, s := range statements {
		_, err := db.ExecContext(r.t.Context(), s)
		require.NoError(r.t, err)
	}
	return func() {
		_, err := db.ExecContext(r.t.Context(), undo)
		require.NoError(r.t, err)
	}
}

// An increment that raised and one that matched no row are the same loss.
func TestCountsThatMatchNoRowCloseALimitToo(t *testing.T) {
	var said log
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"))
		r.drain()
		r.enqueue("a", numbered(40))
		mend := r.spoil(`new.window_id = old.window_id`)
		counts := r.faults.Count(tally)
		r.at(time.Second)
		require.EqualValues(t, 3, counts.Statements(), "the window is the same: there is nothing to follow")
		require.Positive(t, said.said("rate_limit_uncounted", "its row is locked, or does not take the count"))
		r.at(10 * time.Second)
		require.Equal(t, 3, r.count())
		require.EqualValues(t, 1, r.s.Stats().Closed)
		mend()
		r.at(11 * time.Second)
		require.Equal(t, 13, r.count(), "N and U")
		require.EqualValues(t, 1, r.s.Stats().Reopened)
	}, said.option())
}

// Only a count that lands ends the run: after a probe the next loss closes at once.
func TestAProbeThatLandsDoesNotEndTheRun(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"))
		r.drain()
		r.enqueue("a", numbered(40))
		mend := r.faults.FailAll(tally)
		r.at(time.Second)
		mend()
		require.Equal(t, 3, r.count())
		for n := range 3 { // in windows of their own: it is the run that closes it
			r.faults.Fail(tally, 3) // the first two are the probe
			r.at(time.Duration(2*n+2) * time.Minute)
			require.Equal(t, 4+n, r.count(), "each time it is reopened one more starts")
			require.EqualValues(t, 2+n, r.s.Stats().Closed)
			require.EqualValues(t, 1+n, r.s.Stats().Reopened)
		}
		r.at(10 * time.Minute)
		require.Equal(t, 6+10, r.count())
		require.EqualValues(t, 6, r.s.Stats().Uncounted)
	})
}

// A probe that wrote nothing new would land, each time, and let one more start.
func TestALimitWhoseRowRefusesCountsStaysClosed(t *testing.T) {
	var said log
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"))
		r.drain()
		r.enqueue("a", numbered(40))
		lines := func() int {
			return said.said("rate_limit_uncounted") + said.said("rate_limit_closed") + said.said("rate_limit_reopened")
		}
		before := lines()
		mend := r.spoil(`new.window_count > 3`)
		for s := range 120 {
			r.at(time.Duration(s+1) * time.Second)
		}
		require.Equal(t, 3+3, r.count())
		require.EqualValues(t, 3, r.s.Stats().Uncounted)
		require.Equal(t, before+3+1, lines(), "three are lost, and it is closed")
		require.EqualValues(t, 3, r.window("task:a").Count)
		mend()
		r.at(121 * time.Second)
		require.EqualValues(t, 1, r.s.Stats().Reopened)
		require.Equal(t, 6+10, r.count(), "another window")
		require.EqualValues(t, 10, r.window("task:a").Count, "what a probe counts it takes back")
		r.conserved(40)
	}, said.option())
}

func TestAProbeThatFailsLeavesTheLimitClosed(t *testing.T) {
	for name, fail := range map[string]func(*storetest.Faults){
		"it fails":            func(f *storetest.Faults) { f.Fail(tally, 1) },
		"it is not committed": func(f *storetest.Faults) { f.FailCommit(tally, 1) },
		"its reply is lost":   func(f *storetest.Faults) { f.LoseReply(tally, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			eachWindow(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("10/m"))
				r.drain()
				r.enqueue("a", numbered(40))
				mend := r.faults.FailAll(tally)
				r.at(time.Second)
				mend()
				fail(r.faults)
				r.at(2 * time.Second)
				require.Equal(t, 3, r.count())
				require.Zero(t, r.s.Stats().Reopened)
				r.at(3 * time.Second)
				require.EqualValues(t, 1, r.s.Stats().Reopened, "the next refresh tries again")
				require.Equal(t, 13, r.count())
			})
		})
	}
}

func TestACounterThatFailsAtEveryOtherStartClosesWithinAWindow(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("20/m"))
		r.drain()
		r.enqueue("a", numbered(40))
		for _, nth := range []int{1, 3, 5, 6, 7, 8} { // the last three are probes
			r.faults.Fail(tally, nth)
		}
		r.at(time.Second)
		r.at(2 * time.Second)
		require.Equal(t, 5, r.count())
		require.EqualValues(t, 3, r.s.Stats().Uncounted)
		require.EqualValues(t, 1, r.s.Stats().Closed)
		require.EqualValues(t, 2, r.window("task:a").Count)
	})
}

// Claim and count of an exact limit are one transaction: both happen, or neither.
func TestAFaultOfAnExactLimitLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(*storetest.Faults)
	}{
		{"the row is not locked", func(f *storetest.Faults) { f.Fail(refresh, 2) }},
		{"the lock fails", func(f *storetest.Faults) { f.Fail(`(?s)select name, window_id.* name in|for update`, 2) }},
		{"the count fails", func(f *storetest.Faults) { f.Fail(exactSave, 1) }},
		{"it is not committed", func(f *storetest.Faults) { f.FailCommit(exactSave, 1) }},
		{"its reply is lost", func(f *storetest.Faults) { f.LoseReply(exactSave, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachWindow(t, func(t *testing.T, r *rig) {
				r.task("a", nil)
				r.drain()
				r.enqueue("a", numbered(10))
				c.fail(r.faults)
				_ = r.unless()
				require.Equal(t, 3, r.count())
				require.EqualValues(t, 3, r.window("l").Count)
				require.EqualValues(t, 1, r.window("l").ID)
				require.Zero(t, r.s.Stats().Uncounted)
				r.conserved(10)
			}, scheduler.WindowLimit("l", 3, time.Minute, scheduler.Tasks("a"), scheduler.Exact()))
		})
	}
}

// Between the refresh and the lock the row of an exact limit was deleted.
func TestAnExactLimitWhoseRowIsGoneStartsNothing(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.drain()
		r.enqueue("a", numbered(2))
		r.faults.Before(refresh, 1, func() {
			r.faults.Before(beginTurn, 1, func() { r.meddle(`delete from weir_limits`) })
		})
		require.ErrorContains(t, r.s.Drain(t.Context()), "lock exact limits: 0 of 1 rows are there")
		require.Zero(t, r.count())
		require.ErrorIs(t, r.s.Drain(t.Context()), scheduler.ErrLimitGone)
		require.Zero(t, r.count())
		require.Len(t, r.jobs(queue.StateWaiting), 2)
	}, scheduler.WindowLimit("l", 3, time.Minute, scheduler.Tasks("a"), scheduler.Exact()))
}

// A process that cannot say that it is live runs nothing, and can try again.
func TestAFaultOfJoiningStartsNothing(t *testing.T) {
	const joining = `insert into \S*weir_processes`
	for name, fail := range map[string]func(*storetest.Faults){
		"it fails":            func(f *storetest.Faults) { f.Fail(joining, 1) },
		"it is not committed": func(f *storetest.Faults) { f.FailCommit(joining, 1) },
		"its reply is lost":   func(f *storetest.Faults) { f.LoseReply(joining, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				r.task("a", nil)
				r.enqueue("a", numbered(1))
				fail(r.faults)
				require.ErrorContains(t, r.s.Drain(t.Context()), "scheduler: join: ")
				require.Zero(t, r.count())
				r.drain()
				require.Equal(t, 1, r.count())
				var live int
				require.NoError(t, r.db.SQL(t).QueryRowContext(t.Context(), `select count(*) from weir_processes`).Scan(&live))
				require.Equal(t, 1, live)
			})
		})
	}
}
