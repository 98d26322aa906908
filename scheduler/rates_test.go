package scheduler_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// grants are the times at which jobs were granted, as the database has them.
func (r *rig) grants() []int64 {
	r.t.Helper()
	var at []int64
	for _, j := range r.jobs(queue.StateCompleted, queue.StateRunning) {
		at = append(at, j.StartedAt.UnixMicro())
	}
	slices.Sort(at)
	return at
}

func mustLimit(t *testing.T, rate string, burst int64) bucket.Limit {
	t.Helper()
	l, err := bucket.NewLimit(rate, burst)
	require.NoError(t, err)
	return l
}

func TestAStandingBacklogGetsItsShareAndNoMore(t *testing.T) {
	for _, c := range []struct {
		rate  string
		burst int64
		mode  scheduler.DeferMode
		tick  time.Duration
		ticks int
		want  int
	}{
		{rate: "100/m", tick: time.Second, ticks: 60, want: 200},
		{rate: "7/m", tick: time.Second, ticks: 60, want: 14},
		{rate: "10/s", burst: 1, tick: 100 * time.Millisecond, ticks: 60, want: 61},
	} {
		t.Run(c.rate, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				opts := []scheduler.TaskOption{scheduler.RateLimit(c.rate)}
				if c.burst > 0 {
					opts = append(opts, scheduler.Burst(c.burst))
				}
				r.task("a", nil, opts...)
				r.enqueue("a", make([]string, 1000))
				for n := range c.ticks + 1 {
					r.at(time.Duration(n) * c.tick)
				}
				require.Equal(t, c.want, r.count())
				require.LessOrEqual(t, scheduler.MostAbove(mustLimit(t, c.rate, c.burst), r.grants(), 0), 1e-6)

				// A month of rest earns one full bucket.
				before := r.count()
				r.at(30 * 24 * time.Hour)
				require.EqualValues(t, mustLimit(t, c.rate, c.burst).Capacity()/bucket.Token, r.count()-before)
			})
		})
	}
}

// What is saved and read again at every poll loses nothing, however short the
// polls are.
func TestPollingOftenLosesNoFraction(t *testing.T) {
	for _, every := range []time.Duration{300 * time.Microsecond, 7 * time.Millisecond, 1001 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				rates := []string{"7/m", "10/s", "300/s"}
				const polls = 12
				for i, rate := range rates {
					r.task(fmt.Sprint("t", i), nil, scheduler.RateLimit(rate), scheduler.Burst(10_000), scheduler.OnExcess(scheduler.Drop))
				}
				r.drain()
				r.meddle(`update weir_limits set level = 0`)
				for n := 1; n <= polls; n++ {
					r.clock.Advance(every)
					for i := range rates {
						due := int(every.Seconds() * perSecond(t, rates[i]))
						r.enqueue(fmt.Sprint("t", i), make([]string, due+1))
					}
					r.drain()
				}
				for i, rate := range rates {
					due := (polls * every).Seconds() * perSecond(t, rate)
					row := r.limit(fmt.Sprint("task:t", i))
					require.InDelta(t, due-0.5, row.Started, 0.5+1e-6, rate)
					require.InDelta(t, due, float64(row.Started)+r.now("t", i), 1e-5, rate)
				}
			})
		})
	}
}

func perSecond(t *testing.T, rate string) float64 {
	t.Helper()
	l := mustLimit(t, rate, 0)
	return float64(l.Rate.Count()) / float64(bucket.Token) / l.Rate.Period().Seconds()
}

// now is what a limit has at this moment, in tokens.
func (r *rig) now(task string, i int) float64 {
	r.t.Helper()
	info, err := r.client.Limit(r.t.Context(), fmt.Sprint("task:", task, i))
	require.NoError(r.t, err)
	return info.Level
}

func TestRefusedAttemptsChangeNothing(t *testing.T) {
	for _, excess := range []scheduler.Excess{scheduler.Postpone, scheduler.Drop} {
		t.Run(string(excess), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("10/m"), scheduler.OnExcess(excess))
				r.enqueue("a", numbered(10))
				r.at(0)
				require.Equal(t, 10, r.count())
				drained := bucketOf(r.limit("task:a"))
				require.Equal(t, [3]int64{0, 0, epoch.UnixMicro()}, drained)
				for range 50 {
					r.clock.Advance(100 * time.Millisecond)
					r.enqueue("a", make([]string, 80))
					r.drain()
				}
				require.Equal(t, 10, r.count())
				require.Equal(t, drained, bucketOf(r.limit("task:a")))

				r.enqueue("a", []string{"last"})
				r.at(6 * time.Second)
				require.Equal(t, 11, r.count())
				if excess == scheduler.Drop {
					require.Len(t, r.letters(), 4000+1-1)
				}
				r.clock.Advance(54 * time.Second)
				r.enqueue("a", make([]string, 20))
				r.drain()
				require.Equal(t, 20, r.count())
			})
		})
	}
}

// The time that passed is credited at the rate it passed under.
func TestANewRateIsCreditedFromTheChangeOn(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("60/m"))
		r.enqueue("a", numbered(500))
		r.at(0)
		require.Equal(t, 60, r.count())

		// Half a minute at 60/m, then 6/m from now on. The bucket is not looked
		// at in between.
		r.again()
		r.task("a", nil, scheduler.RateLimit("6/m"))
		r.at(30 * time.Second)
		require.Equal(t, 66, r.count(), "thirty tokens came, six find room")
		r.at(39 * time.Second)
		require.Equal(t, 66, r.count())
		r.at(40 * time.Second)
		require.Equal(t, 67, r.count())

		// A greater rate raises nothing at once.
		r.again()
		r.task("a", nil, scheduler.RateLimit("600/m"))
		r.at(41 * time.Second)
		require.Equal(t, 67, r.count())
		require.Equal(t, 0.1, r.tokens("task:a"))
		r.at(42 * time.Second)
		require.Equal(t, 77, r.count(), "0.1 and ten of the new rate's")
	})
}

func TestANewBurstCutsTheLevelAndNeverRaisesIt(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("6/m"), scheduler.Burst(20))
		r.drain()
		require.Equal(t, 20.0, r.tokens("task:a"))
		r.again()
		r.task("a", nil, scheduler.RateLimit("6/m"), scheduler.Burst(4))
		r.enqueue("a", numbered(100))
		r.at(0)
		require.Equal(t, 4, r.count())
		r.again()
		r.task("a", nil, scheduler.RateLimit("6/m"), scheduler.Burst(50))
		r.at(10 * time.Second)
		require.Equal(t, 5, r.count())
		r.again()
		r.task("a", nil, scheduler.RateLimit("6/m"))
		r.at(24 * time.Hour)
		require.Equal(t, 11, r.count())
	})
}

// A rolling change: for a while each process enforces its own. Together they
// stay within the larger, and after it left the smaller holds.
func TestProcessesThatDisagreeStayWithinTheLargerRate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		logs := [2]*bytes.Buffer{{}, {}}
		r := newRig(t, db, clock.NewFake(epoch), scheduler.Logger(slog.New(slog.NewTextHandler(logs[0], nil))))
		s := r.beside(scheduler.Logger(slog.New(slog.NewTextHandler(logs[1], nil))))
		r.task("a", nil, scheduler.RateLimit("10/m"))
		s.task("a", nil, scheduler.RateLimit("60/m"))
		r.enqueue("a", make([]string, 1000))
		updates := r.faults.Count(`update \S*weir_limits`)
		for n := range 41 {
			pair := []*rig{r, s} // whoever looks first has the second
			for i := range pair {
				pair[(i+n)%2].at(time.Duration(n) * time.Second)
			}
		}
		both := r.count() + s.count()
		require.LessOrEqual(t, scheduler.MostAbove(mustLimit(t, "60/m", 0), r.grants(), 0), 1e-6)
		require.Greater(t, both, 10+40/6, "more than the smaller alone")
		require.LessOrEqual(t, updates.Statements(), int64(41+2), "a write a look, a look a second")

		left := r.count() // s has left
		for n := 42; n <= 100; n += 2 {
			r.at(time.Duration(n) * time.Second)
		}
		require.LessOrEqual(t, r.count()-left, 10+10)
		before := r.count()
		for n := 102; n <= 130; n += 2 {
			r.at(time.Duration(n) * time.Second)
		}
		require.Equal(t, 5, r.count()-before)

		require.Equal(t, 1, strings.Count(logs[0].String(), "limit_rate_changed"), logs[0])
		require.Contains(t, logs[0].String(), `limit=task:a from=60/m to=10/m`)
		require.Equal(t, 1, strings.Count(logs[1].String(), "limit_rate_changed"), logs[1])
		require.Contains(t, logs[1].String(), `limit=task:a from=10/m to=60/m`)
	})
}

// The largest numbers that are accepted run like any others: nothing overflows.
func TestTheLargestAndTheSlowestRatesRunLikeAnyOther(t *testing.T) {
	limits := []struct {
		rate   string
		burst  int64
		starts int
	}{
		{"1000000000/s", 0, 1000},
		{"999999999.999999/366d", 0, 1000},
		{"1/366d", 1_000_000_000, 1000},
		{"1/366d", 0, 1},
		{"1000000000/366d", 1, 1},
	}
	each(t, func(t *testing.T, r *rig) {
		for i, c := range limits {
			opts := []scheduler.TaskOption{scheduler.RateLimit(c.rate)}
			if c.burst > 0 {
				opts = append(opts, scheduler.Burst(c.burst))
			}
			r.task(fmt.Sprint("t", i), nil, opts...)
			r.enqueue(fmt.Sprint("t", i), make([]string, 1000))
		}
		r.drain()
		for i, c := range limits {
			require.Equal(t, c.starts, r.tally(fmt.Sprint("t", i)), c.rate)
			name := fmt.Sprint("task:t", i)
			row := r.limit(name)
			require.GreaterOrEqual(t, row.Level, int64(0), c.rate)
			require.Less(t, row.Level, mustLimit(t, c.rate, c.burst).Capacity(), c.rate)
			require.LessOrEqual(t, r.heldFor(name), time.Second, c.rate)
			info, err := r.client.Limit(t.Context(), name)
			require.NoError(t, err)
			require.False(t, info.NextTokenAt.Before(r.clock.Now()), c.rate)
		}
	})
}

// What is no number cannot get into a bucket's row: both databases refuse it.
func TestNoDatabaseTakesWhatIsNoNumberForABucket(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/s"))
		r.drain()
		before := r.limit("task:a")
		beside := r.db.SQL(t)
		for _, column := range []string{"rate_count", "rate_period", "burst", "level", "remainder", "stamp", "held_from", "held_until", "deferred_at", "paused"} {
			for _, value := range []string{`'NaN'`, `'Infinity'`, `'many'`, `1e300`, `null`} {
				_, err := beside.ExecContext(t.Context(), fmt.Sprintf(`update weir_limits set %s = %s`, column, value))
				require.Error(t, err, "%s = %s", column, value)
			}
		}
		_, err := beside.ExecContext(t.Context(), `update weir_limits set paused = 7`)
		require.Error(t, err)
		require.Equal(t, before, r.limit("task:a"))
	})
}

func TestADamagedRowStopsNoOtherTaskAndIsMended(t *testing.T) {
	damages := []struct{ name, set string }{
		{"a negative level", `level = -5000000`},
		{"a level beyond everything", `level = 9223372036854775807`},
		{"a remainder out of range", `level = 1500000, remainder = -1`},
		{"a period of nothing", `rate_period = 0`},
		{"a negative count", `rate_count = -1`},
		{"a burst out of range", `burst = -9`},
		{"a stamp in the future", `level = 0, stamp = 9223372036854775807`},
		{"a stamp before all time", `level = 0, stamp = -9223372036854775808`},
		{"a hold for ever", `held_until = 9223372036854775807`},
		{"a hold from after all time", `held_from = 9223372036854775000, held_until = 9223372036854775807`},
		{"a hold from before all time", `held_from = -9223372036854775808, held_until = -9223372036854775808`},
		{"a deferral after all time", `deferred_at = 9223372036854775807`},
		{"a cover that cannot be read", `level = 0, covers = '{"tasks":'`},
		{"an override that is none", `level = 0, override_rate = '100/mo', override_burst = -3`},
		{"gone", ""},
	}
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var log bytes.Buffer
		r := newRig(t, db, clock.NewFake(epoch), scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		r.task("well", nil, scheduler.RateLimit("2/s"))
		for _, d := range damages {
			r.task(d.name, nil, scheduler.RateLimit("2/s"))
		}
		r.drain()
		r.enqueue("well", numbered(30))
		for _, d := range damages {
			if d.set == "" {
				r.meddle(`delete from weir_limits where name = ?`, "task:"+d.name)
			} else {
				r.meddle(`update weir_limits set `+d.set+` where name = ?`, "task:"+d.name)
			}
			r.enqueue(d.name, numbered(30))
		}
		shown, err := r.client.Limits(t.Context())
		require.NoError(t, err, "one that cannot be read does not hide the others")
		require.Len(t, shown, len(damages))
		var unreadable []string
		for _, l := range shown {
			if l.Problem != "" {
				unreadable = append(unreadable, l.Name)
			}
		}
		require.Equal(t, []string{
			"task:a cover that cannot be read", "task:a negative count", "task:a period of nothing", "task:an override that is none",
		}, unreadable)
		for n := range 5 {
			r.at(time.Duration(n) * time.Second)
			require.Equal(t, 2*(n+1), r.tally("well"))
		}
		for _, d := range damages {
			require.GreaterOrEqual(t, r.tally(d.name), 8, "%s: at most the first second was lost", d.name)
			require.LessOrEqual(t, r.tally(d.name), 10, d.name)
			row := r.limit("task:" + d.name)
			require.EqualValues(t, 2e6, row.RateCount, d.name)
			require.EqualValues(t, 1e6, row.RatePeriod, d.name)
			require.Zero(t, row.Burst, d.name)
			require.Zero(t, row.Level, d.name)
			require.Equal(t, epoch.Add(4*time.Second).UnixMicro(), row.Stamp, d.name)
		}
		for _, told := range []string{`limit_override_ignored limit="task:an override that is none" rate=100/mo`, `limit_repaired limit="task:a period of nothing"`} {
			require.Equal(t, 1, strings.Count(log.String(), "msg="+told), "once, and not at every look: %s", log.String())
		}
	})
}

// A process that declares no limit for a task leaves the row of the one that
// others declared as it is, whoever starts first.
func TestAProcessThatDeclaresNoLimitLeavesTheStoredOneAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var log bytes.Buffer
		r := newRig(t, db, clock.NewFake(epoch))
		r.enqueue("a", numbered(12))
		without := func() *rig {
			s := r.beside(scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))))
			s.task("a", nil)
			return s
		}
		with := func() {
			r.again()
			r.task("a", nil, scheduler.RateLimit("10/m"))
		}
		s := without()
		s.drain()
		require.Empty(t, r.limits(), "no limit is none, and not one of zero")
		require.Equal(t, 12, s.count())
		require.Empty(t, log.String())

		with()
		r.enqueue("a", numbered(4))
		r.drain()
		require.NoError(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "20/m", Reason: "sale"}))
		require.NoError(t, r.client.PauseLimit(t.Context(), "task:a"))
		r.drain()
		before := r.limit("task:a")
		require.Equal(t, 6*bucket.Token, before.Level)
		for range 2 {
			without().drain()
			require.Equal(t, before, r.limit("task:a"))
			with()
			r.drain()
			require.Equal(t, before, r.limit("task:a"))
		}
		require.Equal(t, 2, strings.Count(log.String(), "msg=limit_not_declared limit=task:a task=a"), "once by each: %s", log.String())

		// What was in force is in force still.
		require.NoError(t, r.client.ResumeLimit(t.Context(), "task:a"))
		r.enqueue("a", numbered(30))
		r.drain()
		require.Equal(t, 4+6, r.count())
	})
}

func TestASmallStepBackOfTheClockCreditsNothing(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("60/m"), scheduler.Burst(5))
		r.enqueue("a", numbered(100))
		r.at(0)
		require.Equal(t, 5, r.count())
		// Again and again half a second back, and on again: no time passed.
		for range 30 {
			r.at(-500 * time.Millisecond)
			require.Equal(t, epoch.UnixMicro(), r.limit("task:a").Stamp)
			r.at(0)
		}
		require.Equal(t, 5, r.count())
		r.at(time.Second)
		require.Equal(t, 6, r.count())
	})
}

func TestAGreatStepBackEndsTheHoldAndTheRateGoesOn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var log bytes.Buffer
		r := newRig(t, db, clock.NewFake(epoch), scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		const back = -8 * time.Hour
		r.task("a", nil, scheduler.RateLimit("60/m"), scheduler.Burst(30))
		r.task("slow", nil, scheduler.RateLimit("1/m"), scheduler.Defer(scheduler.UntilToken))
		r.enqueue("a", numbered(200))
		r.enqueue("slow", numbered(10))
		r.at(0)
		require.Equal(t, 30, r.tally("a"))
		require.Equal(t, time.Minute, r.heldFor("task:slow"))

		r.at(back)
		require.Equal(t, 30, r.tally("a"), "no credit")
		r.at(back + time.Second)
		require.Equal(t, 31, r.tally("a"), "within one token's time")
		r.at(back + 2*time.Second)
		require.Equal(t, 32, r.tally("a"))
		require.Equal(t, 1, strings.Count(log.String(), "msg=clock_stepped_back limit=task:a"), "once: %s", log.String())

		r.at(back + time.Minute)
		require.Equal(t, 2, r.tally("slow"))
		require.Equal(t, 1, strings.Count(log.String(), "msg=clock_stepped_back limit=task:slow"))

		// When its old time comes round again nothing is held or credited twice.
		before := r.tally("a")
		r.at(0)
		require.Equal(t, 30, r.tally("a")-before, "one full bucket")
	})
}

// The hold is ended by a step that the stamp does not show as well.
func TestAStepBackBehindTheHoldEndsIt(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/h"))
		r.enqueue("a", numbered(5))
		r.at(0)
		for m := 1; m <= 10; m++ {
			r.at(time.Duration(m) * time.Minute)
		}
		require.Equal(t, epoch.UnixMicro(), r.limit("task:a").Stamp)
		r.at(5 * time.Minute) // five minutes back: after the stamp, before the hold
		row := r.limit("task:a")
		require.Equal(t, epoch.Add(5*time.Minute).UnixMicro(), row.HeldFrom)
		for m := 6; m <= 60; m += 3 {
			r.at(time.Duration(m) * time.Minute)
		}
		require.InDelta(t, 4, r.count(), 1)
		require.LessOrEqual(t, r.count(), 4)
	})
}

func TestALeapOfTheClockCreditsOneBucket(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"))
		r.enqueue("a", numbered(100))
		r.at(0)
		r.at(8 * time.Hour)
		require.Equal(t, 20, r.count())
		r.at(8*time.Hour + 6*time.Second)
		require.Equal(t, 21, r.count())
	})
}

// Thirty restarts in a minute give nobody a fresh budget.
func TestARestartNeitherFillsNorEmptiesABucket(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.enqueue("a", numbered(500))
		for n := range 31 {
			r.again()
			r.task("a", nil, scheduler.RateLimit("10/m"))
			r.at(time.Duration(n) * 2 * time.Second)
		}
		require.Equal(t, 20, r.count())
		require.LessOrEqual(t, scheduler.MostAbove(mustLimit(t, "10/m", 0), r.grants(), 0), 1e-6)
	})
}
