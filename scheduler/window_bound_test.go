package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// judge is a database that writes down by itself which start fell in which window.
func (r *rig) judge() (windows func(task string) map[int64]int64) {
	r.t.Helper()
	raw := r.db.SQL(r.t)
	r.db.LogWindows(r.t, raw)
	return func(task string) map[int64]int64 { return r.db.Windows(r.t, raw, task) }
}

// together drains several rigs at the same time.
func together(t *testing.T, rigs []*rig) {
	t.Helper()
	errs := make([]error, len(rigs))
	var all sync.WaitGroup
	for i, r := range rigs {
		all.Go(func() { errs[i] = r.s.Drain(t.Context()) })
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// stalled makes the rigs wait for each other between their next refresh and the
// claim that follows it.
func stalled(rigs []*rig) {
	var met sync.WaitGroup
	met.Add(len(rigs))
	for _, r := range rigs {
		r.faults.Before(refresh, 1, func() {
			r.faults.Before(beginTurn, 1, func() {
				met.Done()
				met.Wait()
			})
		})
	}
}

// sizes are the fleets and limits of the bound's test.
func sizes() (workers []int, limits []int64) {
	if testing.Short() {
		return []int{1, 4}, []int64{1, 5}
	}
	return []int{1, 2, 4, 8, 16}, []int64{1, 5, 100}
}

func TestTheBoundOfAWindowIsReachedByWorkersThatReadTheSameAndNeverPassed(t *testing.T) {
	workers, limits := sizes()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		db = db.Hasty(t)
		c := clock.NewFake(epoch)
		var opts []scheduler.Option
		var names []string
		for _, w := range workers {
			for _, n := range limits {
				for _, exact := range []bool{false, true} {
					task := fmt.Sprintf("%d-%d-%v", w, n, exact)
					names = append(names, task)
					covers := []scheduler.LimitOption{scheduler.Tasks(task)}
					if exact {
						covers = append(covers, scheduler.Exact())
					}
					opts = append(opts, scheduler.WindowLimit("limit of "+task, n, time.Hour, covers...))
				}
			}
		}
		opts = append(opts, windows)
		var fleet []*rig
		for range workers[len(workers)-1] {
			r := newRig(t, db, c, opts...)
			for _, task := range names {
				r.task(task, nil)
			}
			r.drain()
			fleet = append(fleet, r)
		}
		seen := fleet[0].judge()
		for _, w := range workers {
			for _, n := range limits {
				for _, exact := range []bool{false, true} {
					task := fmt.Sprintf("%d-%d-%v", w, n, exact)
					fleet[0].rollWindow("limit of " + task)
					fleet[0].enqueue(task, numbered(int(n)-1))
					fleet[0].drain()
					fleet[0].enqueue(task, numbered(2*w))
					want := n + int64(w) - 1
					if exact {
						want = n
					} else {
						stalled(fleet[:w])
					}
					together(t, fleet[:w])
					together(t, fleet[:w])
					require.Equal(t, map[int64]int64{1: want}, seen(task), "N %d, W %d, exact %v", n, w, exact)
				}
			}
		}
	})
}

func TestExactLimitsAreExactThoughAllReadTheSame(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		c := clock.NewFake(epoch)
		limit := scheduler.WindowLimit("limit of a", 3, time.Minute, scheduler.Tasks("a"), scheduler.Exact())
		var fleet []*rig
		for range 4 {
			r := newRig(t, db, c, windows, limit)
			r.task("a", nil)
			r.drain()
			fleet = append(fleet, r)
		}
		seen := fleet[0].judge()
		fleet[0].enqueue("a", numbered(40))
		for range 4 {
			stalled(fleet)
			together(t, fleet)
			c.Advance(time.Minute)
		}
		require.Equal(t, map[int64]int64{0: 1, 1: 3, 2: 3, 3: 3, 4: 2}, seen("a"), "the start that opens a window is written down before it is saved")
		require.EqualValues(t, 12, fleet[0].limit("limit of a").Started)
	})
}

func TestNoWindowAndNoIntervalHasMoreThanItsBoundHoweverTheyClaim(t *testing.T) {
	type fleetCase struct {
		workers, count, rounds int
		faulty                 bool // every fifth count or so fails
	}
	cases := []fleetCase{{1, 5, 20, false}, {4, 5, 20, false}, {4, 5, 20, true}}
	if !testing.Short() {
		cases = append(cases, fleetCase{1, 1, 20, false}, fleetCase{1, 100, 4, false}, fleetCase{2, 1, 20, true}, fleetCase{8, 5, 12, false}, fleetCase{16, 1, 8, false}, fleetCase{16, 100, 3, true})
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("N %d, W %d, faulty %v", c.count, c.workers, c.faulty), func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				db = db.Hasty(t)
				clock, chance := clock.NewFake(epoch), rand.New(rand.NewPCG(uint64(c.workers), uint64(c.count)))
				n, exactly := int64(c.count), scheduler.WindowLimit("limit of exact", int64(c.count), time.Second, scheduler.Tasks("exact"), scheduler.Exact())
				var fleet []*rig
				for range c.workers {
					r := newRig(t, db, clock, windows, exactly)
					r.task("a", nil, scheduler.RateLimit(fmt.Sprintf("%d/s", n)))
					r.task("exact", nil)
					r.drain()
					fleet = append(fleet, r)
				}
				seen := fleet[0].judge()
				for _, task := range []string{"a", "exact"} {
					fleet[0].enqueue(task, numbered(c.rounds*(c.count+2*c.workers)))
				}
				for range c.rounds {
					for _, r := range fleet {
						if c.faulty && chance.IntN(2) == 0 {
							r.faults.Fail(tally, 1+chance.IntN(3))
						}
					}
					together(t, fleet)
					clock.Advance(time.Duration(chance.Int64N(int64(900 * time.Millisecond))))
				}
				var uncounted int64 // U
				for _, r := range fleet {
					uncounted += r.s.Stats().Uncounted
				}
				bound, last := n+int64(c.workers)-1+uncounted, fleet[0].window("task:a").ID
				require.Positive(t, last)
				for generation, starts := range seen("a") {
					require.LessOrEqual(t, starts, bound, "generation %d", generation)
					if c.workers == 1 && generation < last {
						require.Equal(t, n, starts, "with one worker every window has its count")
					}
				}
				require.LessOrEqual(t, busiest(fleet[0].grantsOf("a")), 2*bound)
				for generation, starts := range seen("exact") {
					// The start that opens a window is written down before that is saved.
					require.LessOrEqual(t, starts, n, "generation %d", generation)
				}
				require.LessOrEqual(t, busiest(fleet[0].grantsOf("exact")), 2*n)
			})
		})
	}
}

// grantsOf is when the jobs of a task were started.
func (r *rig) grantsOf(task string) []int64 {
	var at []int64
	for _, j := range r.jobs(queue.StateCompleted, queue.StateRunning) {
		if j.Task == task {
			at = append(at, j.StartedAt.UnixMicro())
		}
	}
	slices.Sort(at)
	return at
}

// busiest is the most that started in any second.
func busiest(starts []int64) (most int64) {
	first := 0
	for i, at := range starts {
		for starts[first] <= at-1_000_000 {
			first++
		}
		most = max(most, int64(i-first+1))
	}
	return most
}

// Windows know nothing of the hour, the day or the zone.
func TestWindowsCrossMidnightAndChangesOfTheClock(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	require.NoError(t, err)
	const n = 10
	for name, first := range map[string]time.Time{
		"the end of the year": time.Date(2026, 12, 31, 23, 59, 30, 0, newYork),
		"summer time begins":  time.Date(2026, 3, 8, 1, 59, 30, 0, newYork),
		"summer time ends":    time.Date(2026, 11, 1, 1, 59, 30, 0, newYork),
	} {
		for _, w := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d workers", name, w), func(t *testing.T) {
				storetest.Each(t, func(t *testing.T, db storetest.Database) {
					db = db.Hasty(t)
					c := clock.NewFake(first.Add(-time.Hour))
					var fleet []*rig
					for range w {
						r := newRig(t, db, c, windows)
						r.task("a", nil, scheduler.RateLimit("10/m"))
						r.drain()
						fleet = append(fleet, r)
					}
					seen := fleet[0].judge()
					fleet[0].enqueue("a", numbered(200))
					var total []int64
					for _, at := range []time.Duration{0, 59 * time.Second, 61 * time.Second, 121 * time.Second, time.Hour + 121*time.Second} {
						c.Advance(first.Add(at).Sub(c.Now()))
						together(t, fleet)
						together(t, fleet)
						total = append(total, int64(len(seen("a"))))
						for _, starts := range seen("a") {
							require.LessOrEqual(t, starts, int64(n+w-1))
							require.GreaterOrEqual(t, starts, int64(n))
						}
					}
					require.Equal(t, []int64{1, 1, 2, 3, 4}, total, "windows that were open at each look; after an idle hour the next claim opens one at once")
				})
			})
		}
	}
}

// A clock that steps back delays the next window by the step, one that steps
// forward opens it early: by one window, and from there on all is as before.
func TestAStepOfTheDatabasesClockCostsItsLengthOrOneWindow(t *testing.T) {
	for _, c := range []struct {
		name   string
		step   time.Duration
		starts []int // after 0, 20 s, the step, and then each of five times 30 s
	}{
		{"none", 0, []int{2, 2, 2, 2, 4, 4, 6, 6}},
		{"back by ten seconds", -10 * time.Second, []int{2, 2, 2, 2, 4, 4, 6, 6}},
		{"back by a hundred seconds", -100 * time.Second, []int{2, 2, 2, 2, 2, 2, 2, 4}},
		{"forward by ten seconds", 10 * time.Second, []int{2, 2, 2, 4, 4, 6, 6, 8}},
		{"forward by a year", 365 * 24 * time.Hour, []int{2, 2, 4, 4, 6, 6, 8, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachWindow(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("2/m"))
				r.enqueue("a", numbered(50))
				var got []int
				for _, d := range []time.Duration{0, 20 * time.Second, c.step, 30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second} {
					r.clock.Advance(d)
					r.drain()
					got = append(got, r.count())
				}
				require.Equal(t, c.starts, got)
				w := r.window("task:a")
				require.LessOrEqual(t, w.From, w.Now, "it is anchored where the clock is")
			})
		})
	}
}

// A host whose clock is ahead looks more often, and neither opens a window for it nor
// anchors one at it.
func TestWindowsAreAnchoredAtTheDatabasesClockWhateverTheHostsSays(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		host := clock.NewFake(epoch)
		r.client = queue.From(r.db.Open(t, store.Options{Clock: r.clock, HostClock: host, Wrap: r.faults.Wrap}))
		r.again(scheduler.WindowLimit("exact", 2, time.Minute, scheduler.Tasks("b"), scheduler.Exact()))
		r.task("a", nil, scheduler.RateLimit("2/m"))
		r.task("b", nil)
		r.enqueue("a", numbered(20))
		r.enqueue("b", numbered(20))
		for n := range 3 {
			opened := r.clock.Now()
			for range 3 {
				r.drain()
				require.Equal(t, []int{2 + 2*n, 2 + 2*n}, []int{r.tally("a"), r.tally("b")})
				host.Step(48 * time.Hour)
			}
			for _, name := range []string{"task:a", "exact"} {
				require.Equal(t, opened.UnixMicro(), r.window(name).From, name)
			}
			r.clock.Advance(time.Minute)
		}
	})
}

func TestAWorkerThatDiesBetweenClaimAndCountCostsOneMoreStart(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		client, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		defer client.Close()
		raw := db.SQL(t)
		db.LogWindows(t, raw)
		_, err = queue.Task[string]("limited").EnqueueMany(t.Context(), client, make([]string, 20))
		require.NoError(t, err)
		c := childConfig{DSN: db.DSN, Ledger: t.TempDir() + "/ledger", Rate: "3/h", Strategy: scheduler.FixedWindow}
		dies := c
		dies.DieAt = tally
		child := startChild(t, dies)
		require.Error(t, child.Wait(), "it is killed")
		require.Equal(t, map[int64]int64{1: 1}, db.Windows(t, raw, "limited"), "it claimed and did not count")

		startChild(t, c)
		counted := func() (n int64) {
			require.NoError(t, raw.QueryRowContext(t.Context(), `select window_count from weir_limits`).Scan(&n))
			return n
		}
		require.Eventually(t, func() bool { return counted() == 3 }, time.Minute, 5*time.Millisecond)
		require.Equal(t, map[int64]int64{1: 4}, db.Windows(t, raw, "limited"), "N and one for the death; the other's job comes back in the next window")
	})
}

// Processes of their own meet between their refresh and their claim.
func TestProcessesOfTheirOwnReachTheBoundAndNeverPassIt(t *testing.T) {
	for _, w := range []int{2, 4} {
		t.Run(fmt.Sprintf("W %d", w), func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				const n = 5
				client, err := queue.Open(t.Context(), db.DSN)
				require.NoError(t, err)
				defer client.Close()
				raw := db.SQL(t)
				db.LogWindows(t, raw)
				dir := t.TempDir()
				c := childConfig{DSN: db.DSN, Ledger: filepath.Join(dir, "ledger"), Rate: fmt.Sprintf("%d/h", n), Strategy: scheduler.FixedWindow}
				enqueue := func(jobs int) {
					_, err = queue.Task[string]("limited").EnqueueMany(t.Context(), client, make([]string, jobs))
					require.NoError(t, err)
				}
				granted := func() (all int64) {
					for _, starts := range db.Windows(t, raw, "limited") {
						all += starts
					}
					return all
				}
				enqueue(n - 1)
				first := startChild(t, c)
				require.Eventually(t, func() bool { return granted() == n-1 }, time.Minute, 5*time.Millisecond)
				require.NoError(t, first.Process.Signal(syscall.SIGTERM))
				require.NoError(t, first.Wait(), "it has counted what it started")

				c.Meet = dir
				var fleet []*exec.Cmd
				for range w {
					fleet = append(fleet, startChild(t, c))
				}
				enqueue(3 * w)
				require.Eventually(t, func() bool {
					met, err := filepath.Glob(filepath.Join(dir, "met.*"))
					require.NoError(t, err)
					return len(met) == len(fleet)
				}, time.Minute, 5*time.Millisecond, "each has read that there is room for one")
				require.EqualValues(t, n-1, granted())
				require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
				counted := func() (count int64) {
					require.NoError(t, raw.QueryRowContext(t.Context(), `select window_count from weir_limits`).Scan(&count))
					return count
				}
				want := int64(n + w - 1)
				require.Eventually(t, func() bool { return counted() == want }, time.Minute, 5*time.Millisecond)
				require.Equal(t, map[int64]int64{1: want}, db.Windows(t, raw, "limited"))
			})
		})
	}
}
