package scheduler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// updateGolden makes a run write the golden files instead of comparing with them.
const updateGolden = "WEIR_UPDATE_GOLDEN"

// claimOf is the transaction in which a process claims, without the schema's name.
func claimOf(sent *storetest.Record) []string {
	var out []string
	for _, text := range sent.Transaction(candidates) {
		out = append(out, regexp.MustCompile(`"\w+"\.`).ReplaceAllString(text, ""))
	}
	return out
}

// Where no limit is declared, and where none covers what is claimed, a claim is the
// same to the letter under both strategies.
func TestAClaimThatNoLimitCoversIsTheSameToTheLetter(t *testing.T) {
	for name, opts := range map[string][]scheduler.Option{
		"token buckets, no limits":       nil,
		"fixed windows, no limits":       {windows},
		"fixed windows, limits of other": {windows, scheduler.SharedLimit("l", "5/m", scheduler.Tasks("limited"))},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.task("free", nil)
				r.task("limited", nil)
				r.drain()
				r.enqueue("free", []string{"x"})
				sent := r.faults.Record()
				r.drain()
				require.Empty(t, ofLimits(sent.Texts()), "a claim that no limit covers asks none")
				got := strings.Join(claimOf(sent), ";\n\n") + ";\n"
				golden := filepath.Join("testdata", "claim."+string(r.db.Dialect)+".sql")
				if os.Getenv(updateGolden) != "" && name == "token buckets, no limits" {
					require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), got, "run it with %s=1 if the claim is to be another", updateGolden)
			}, opts...)
		})
	}
}

// ofLimits are the statements about limits among those that were sent, by kind.
func ofLimits(texts []string) map[string]int {
	out := map[string]int{}
	for _, text := range texts {
		for kind, pattern := range map[string]string{"refresh": refresh, "roll": roll, "count": tally} {
			if regexp.MustCompile(pattern).MatchString(text) {
				out[kind]++
				text = ""
			}
		}
		if strings.Contains(text, "weir_limits") && !strings.Contains(text, "recursive l(task, queue)") && !strings.Contains(text, "select null, 0, 0") {
			out["other: "+text]++
		}
	}
	return out
}

func TestALimitedClaimCostsTwoStatementsMoreAndARollAThird(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("100/m"))
		r.task("both", nil, scheduler.RateLimit("100/m"), scheduler.Queue("q"))
		r.drain()
		cost := func(task string) map[string]int {
			r.enqueue(task, []string{"x"})
			sent := r.faults.Record()
			r.clock.Advance(time.Second)
			r.drain()
			return ofLimits(sent.Texts())
		}
		require.Equal(t, map[string]int{"refresh": 1, "roll": 1, "count": 1}, cost("a"))
		require.Equal(t, map[string]int{"refresh": 1, "count": 1}, cost("a"))
		require.Equal(t, map[string]int{"refresh": 1, "roll": 1, "count": 1}, cost("both"), "one roll and one count for all its limits")
		require.Equal(t, map[string]int{"refresh": 1, "count": 1}, cost("both"))
		r.clock.Advance(time.Minute)
		require.Equal(t, map[string]int{"refresh": 1, "roll": 1, "count": 1}, cost("a"))
	}, scheduler.QueueLimit("q", "100/m"))
}

// A start under a limit needs to know of one job more: whether it waits behind.
func TestALimitedStartReadsNoMoreThanTwoJobsOfItsLine(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.enqueue("a", numbered(1000))
		read := r.faults.Count(candidates)
		r.drain()
		require.Equal(t, 3, r.tally("a"))
		require.LessOrEqual(t, read.Rows(), int64(2*3))
	})
}

// Who asks for the cap of a throttled line would make others wait that have it too.
func TestTheCapOfThrottledWorkIsNotAsked(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("capped", nil, scheduler.RateLimit("1/h"), scheduler.Cap(1))
		r.task("free", nil)
		r.enqueue("capped", numbered(5))
		r.drain()
		require.Equal(t, 1, r.tally("capped"))
		gates := r.faults.Count(`weir_gates`)
		r.enqueue("free", numbered(5))
		r.clock.Advance(time.Second)
		r.drain()
		require.Equal(t, 5, r.tally("free"))
		require.Zero(t, gates.Statements())
	})
}

func TestAnExactLimitIsReadLockedAndSavedOnce(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.drain()
		r.enqueue("a", []string{"x"})
		reads, saves, counts := r.faults.Count(`^(with l as materialized \(\s+)?select name, window_id`), r.faults.Count(exactSave), r.faults.Count(tally)
		r.drain()
		require.Equal(t, []int64{2, 1, 0}, []int64{reads.Statements(), saves.Statements(), counts.Statements()})
	}, scheduler.WindowLimit("l", 5, time.Minute, scheduler.Tasks("a"), scheduler.Exact()))
}

// What no limit covers shares a refresh for the interval with whatever is throttled
// beside it.
func TestWorkThatNoLimitCoversCostsAtMostOneRefreshInAnInterval(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("limited", nil, scheduler.RateLimit("1/h"))
		r.task("free", nil)
		r.enqueue("limited", numbered(50))
		r.drain()
		sent := r.faults.Record()
		const steps = 200
		for range steps {
			r.clock.Advance(10 * time.Millisecond)
			r.enqueue("free", []string{"x"})
			r.drain()
		}
		require.Equal(t, steps, r.tally("free"))
		refreshes := ofLimits(sent.Texts())["refresh"]
		require.LessOrEqual(t, refreshes, int(steps*10*time.Millisecond/scheduler.DefaultRefreshInterval))
		require.Positive(t, refreshes)

		r.again()
		r.task("free", nil)
		r.enqueue("free", numbered(10))
		sent = r.faults.Record()
		r.drain()
		require.Zero(t, ofLimits(sent.Texts())["refresh"], "a process without limits reads none")
	})
}

func TestTheRefreshIntervalIsWhatWasAsked(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("limited", nil, scheduler.RateLimit("1/h"))
		r.enqueue("limited", numbered(50))
		r.drain()
		refreshes := r.faults.Count(refresh)
		for range 20 {
			r.clock.Advance(500 * time.Millisecond)
			r.drain()
		}
		require.EqualValues(t, 5, refreshes.Statements(), "in ten seconds")
	}, scheduler.RefreshInterval(2*time.Second))
}

// The worker that reads an expired window before the winner's roll is committed
// spends one more update, which matches no row, and keeps what it read.
func TestWhoLosesARollKeepsTheViewItRead(t *testing.T) {
	for _, c := range []struct {
		name    string
		counted int64 // in the window that is over
		counts  int64 // statements
	}{
		{"the window that was read had room: one may start, and is counted in the new one", 0, 3},
		{"it was full: nothing starts before the next refresh", 3, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachWindow(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("3/m"))
				r.drain()
				other := r.beside()
				other.rollWindow("task:a")
				if c.counted > 0 {
					r.meddle(`update weir_limits set window_count = ?`, c.counted)
				}
				r.clock.Advance(time.Minute)
				r.enqueue("a", numbered(10))
				r.faults.Before(refresh, 1, func() {
					r.faults.Before(beginTurn, 1, func() { // between the refresh and the roll
						other.rollWindow("task:a")
						other.meddle(`update weir_limits set window_count = 1`)
					})
				})
				rolls, counts := r.faults.Count(roll), r.faults.Count(tally)
				r.drain()
				require.EqualValues(t, 1, rolls.Statements())
				require.Zero(t, rolls.Rows())
				require.Zero(t, r.s.Stats().Rolls)
				require.EqualValues(t, 2, r.window("task:a").ID)
				require.Equal(t, c.counts, counts.Statements())
				require.Equal(t, 2, r.count())
				require.EqualValues(t, 3, r.window("task:a").Count, "with the one of the other")
			})
		})
	}
}

func TestAHundredThousandThrottledRowsInFrontChangeNothing(t *testing.T) {
	rows := 100_000
	if testing.Short() {
		rows = 5_000
	}
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("throttled", nil, scheduler.RateLimit("1/h"))
		r.task("free", nil)
		r.enqueue("throttled", []string{"takes the place"})
		r.drain()
		claim := func() (texts []string, read int64) {
			r.enqueue("free", []string{"x"})
			sent, counted := r.faults.Record(), r.faults.Count(candidates)
			r.clock.Advance(time.Second)
			r.drain()
			return claimOf(sent), counted.Rows()
		}
		before, readBefore := claim()
		series, uid, args := fmt.Sprintf(`generate_series(1, %d) i`, rows), `gen_random_uuid()`, `''`
		if r.db.Dialect == store.SQLite {
			series = fmt.Sprintf(`(with recursive s(i) as (select 1 union all select i + 1 from s where i < %d) select i from s)`, rows)
			uid, args = `lower(hex(randomblob(16)))`, `x''`
		}
		r.meddle(`insert into weir_jobs (uid, task, queue, state, rank, first_due, run_at, enqueued_at, args)
select ` + uid + `, 'throttled', 'default', 0, -100, i, i, i, ` + args + ` from ` + series)
		after, readAfter := claim()
		require.Equal(t, before, after)
		require.Equal(t, readBefore, readAfter, "not one of them is read")
		require.Equal(t, 2, r.tally("free"))
		require.Equal(t, 1, r.tally("throttled"))
	})
}

func TestTheStateIsOneRowALimitForEver(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/s"))
		for range 20 {
			r.enqueue("a", numbered(3))
			r.clock.Advance(time.Second)
			r.drain()
		}
		require.EqualValues(t, 20, r.window("task:a").ID)
		require.Len(t, r.limits(), 1)
	})
}

// oldest is when the oldest waiting job of a queue came: it grows with a throttle.
func TestThrottledWorkReadsAsBacklog(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"))
		r.enqueue("a", numbered(10))
		for s := range 60 {
			r.at(time.Duration(s) * time.Second)
		}
		queues, err := r.client.Queues(t.Context())
		require.NoError(t, err)
		i := slices.IndexFunc(queues, func(q queue.QueueInfo) bool { return q.Name == "default" })
		require.EqualValues(t, 9, queues[i].Waiting)
		require.Equal(t, epoch, queues[i].OldestWaitingAt.UTC())
	})
}
