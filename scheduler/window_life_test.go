package scheduler_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

var windows = scheduler.Strategy(scheduler.FixedWindow)

// eachWindow runs do on both databases, with a rig under fixed windows.
func eachWindow(t *testing.T, do func(*testing.T, *rig), opts ...scheduler.Option) {
	t.Helper()
	eachAlone(t, func(t *testing.T, r *rig) {
		r.strategy = scheduler.FixedWindow
		do(t, r)
	}, append([]scheduler.Option{windows}, opts...)...)
}

// window is a limit's row under fixed windows.
func (r *rig) window(name string) store.Window {
	r.t.Helper()
	rows, err := r.client.Store().Windows(r.t.Context(), []string{name})
	require.NoError(r.t, err)
	require.Len(r.t, rows, 1, "limit %q", name)
	return rows[0]
}

// log is what schedulers said.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) option() scheduler.Option {
	return scheduler.Logger(slog.New(slog.NewTextHandler(l, nil)))
}

// said counts the lines of an event that contain all the words.
func (l *log) said(event string, words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		has := strings.Contains(line, " msg="+event+" ")
		for _, w := range words {
			has = has && strings.Contains(line, w)
		}
		if has {
			n++
		}
	}
	return n
}

func TestAWindowLetsItsCountStartAndTheNextOneAgain(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.enqueue("a", numbered(8))
		r.at(0)
		require.Equal(t, 3, r.count())
		r.at(59 * time.Second)
		require.Equal(t, 3, r.count())
		r.at(60 * time.Second)
		require.Equal(t, 6, r.count())
		r.at(119 * time.Second)
		require.Equal(t, 6, r.count())
		r.at(120 * time.Second)
		require.ElementsMatch(t, numbered(3), r.started(0)) // handlers begin in any order
		require.ElementsMatch(t, numbered(6)[3:], r.started(60*time.Second))
		require.ElementsMatch(t, numbered(8)[6:], r.started(120*time.Second))
		require.EqualValues(t, 8, r.s.Stats().Admissions)
		require.EqualValues(t, 3, r.s.Stats().Rolls)
		require.EqualValues(t, 8, r.limit("task:a").Started)
	})
}

func TestTasksShareABudgetAndAQueueHasOne(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("charge", nil)
		r.task("refund", nil)
		r.task("text", nil)
		r.enqueue("charge", numbered(3))
		r.enqueue("refund", numbered(3))
		r.enqueue("text", numbered(5), queue.Queue("sms"))
		r.enqueue("text", numbered(5))
		r.at(0)
		require.Equal(t, 4, r.tally("charge")+r.tally("refund"))
		require.Equal(t, 2+5, r.tally("text"), "the queue's budget covers what is in it, whatever its task")
		require.EqualValues(t, 4, r.window("stripe").Count)
		require.EqualValues(t, 2, r.window("sms").Count)
	}, scheduler.SharedLimit("stripe", "4/m", scheduler.Tasks("charge", "refund")), scheduler.WindowLimit("sms", 2, time.Minute, scheduler.Queues("sms")))
}

func TestAJobStartsWhenAllItsLimitsHaveRoomAndIsCountedInEach(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("5/m"))
		r.task("b", nil)
		r.enqueue("a", numbered(10), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 2, r.tally("a"), "the queue's window is the smallest")
		for name, count := range map[string]int64{"task:a": 2, "queue:q": 2, "all": 2} {
			require.Equal(t, count, r.window(name).Count, name)
		}
		r.enqueue("b", numbered(10))
		r.at(time.Second)
		require.Equal(t, 1, r.tally("b"), "what the shared one has left")
		require.EqualValues(t, 2, r.window("task:a").Count, "a refusal leaves the others as they were")
		r.at(30 * time.Second)
		require.Equal(t, 2, r.tally("a"), "the queue's window is over, the shared one is not")
		require.EqualValues(t, 1, r.window("queue:q").ID, "and nothing that could not start has opened another")
		r.at(time.Minute)
		require.Equal(t, 3, r.tally("a")+r.tally("b")-3)
	}, scheduler.QueueLimit("q", "2/30s"), scheduler.SharedLimit("all", "3/m", scheduler.Tasks("a", "b")))
}

// Attempt starts are limited, not completions and not concurrency.
func TestStartsAreLimitedNotWhatRuns(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		raw := r.db.SQL(t)
		r.db.LogWindows(t, raw)
		s := r.stuck("a", scheduler.RateLimit("2/m"))
		r.enqueue("a", numbered(6))
		stop, done := r.serve()
		for range 6 {
			until(r, 10*time.Second, s.begun)
		}
		require.EqualValues(t, 6, r.s.Stats().Running, "two a minute, of which each runs for longer")
		for generation, n := range r.db.Windows(t, raw, "a") {
			require.LessOrEqual(t, n, int64(2), "generation %d", generation)
		}
		for range 6 {
			s.answer <- nil
		}
		stop()
		require.NoError(t, <-done)
	}, scheduler.Lease(24*time.Hour))
}

func TestARetryAndALostLeaseTakeAnotherPlace(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Args == "fails" && job.Attempt == 1 {
				return errAlways
			}
			return nil
		}, scheduler.RateLimit("2/m"), scheduler.Backoff{Base: time.Second})
		r.enqueue("a", []string{"fails"})
		r.at(0)
		r.at(time.Second)
		require.Equal(t, []start{{0, "a", "fails", 1}, {time.Second, "a", "fails", 2}}, r.ledger())
		require.EqualValues(t, 2, r.window("task:a").Count)

		r.enqueue("a", []string{"lost"})
		r.at(2 * time.Second)
		require.Equal(t, 2, r.count(), "the window is full")
		r.claim("a") // a process that then never says a word
		r.at(32 * time.Second)
		require.Equal(t, queue.StateWaiting, r.jobs(queue.StateWaiting)[0].State)
		r.at(60 * time.Second)
		require.Equal(t, start{60 * time.Second, "a", "lost", 2}, r.ledger()[2])
		require.EqualValues(t, 1, r.window("task:a").Count)
	})
}

func TestAThrottledJobStaysAsItIs(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"))
		ids := r.enqueue("a", []string{"first", "second"})
		before := r.row(ids[1])
		for s := range 60 {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, []string{"first"}, r.started(0))
		require.Equal(t, before, r.row(ids[1]), "no attempt, no claim, no lease, no deferral")
		r.at(time.Minute)
		require.Equal(t, []string{"second"}, r.started(time.Minute))
	})
}

// row is all that is stored of a live job.
func (r *rig) row(uid string) store.Job {
	r.t.Helper()
	job, found, err := r.client.Store().Get(r.t.Context(), uid)
	require.NoError(r.t, err)
	require.True(r.t, found)
	return job
}

func TestAThrottledTaskHoldsUpNothingElse(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("throttled", nil, scheduler.RateLimit("1/h"))
		r.task("other", nil)
		r.task("also", nil, scheduler.RateLimit("100/h"))
		r.enqueue("throttled", numbered(300), queue.Priority(100))
		r.at(0)
		require.Equal(t, 1, r.tally("throttled"))
		r.enqueue("other", numbered(200))
		r.enqueue("other", numbered(200), queue.Queue("its own"))
		r.enqueue("also", numbered(50), queue.Priority(-100))
		r.at(time.Second)
		require.Equal(t, 400, r.tally("other"), "in the same queue and in another")
		require.Equal(t, 50, r.tally("also"))
		require.Equal(t, 1, r.tally("throttled"))
	}, scheduler.Concurrency(8))
}

// The window of a limit lasts from its first use, whatever the hour: so two
// windows can meet in an interval as long as one.
func TestWindowsAreAnchoredAtFirstUseAndCanMeetAtTheirBorder(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.at(10 * time.Second)
		require.Zero(t, r.window("task:a").ID, "nothing was started")
		r.enqueue("a", []string{"anchors it"})
		r.at(17 * time.Second)
		require.Equal(t, epoch.Add(17*time.Second).UnixMicro(), r.window("task:a").From)
		r.enqueue("a", numbered(9))
		r.at(76 * time.Second)
		require.Equal(t, 3, r.count())
		r.at(77 * time.Second)
		require.Equal(t, 6, r.count(), "five of them within a second")
		r.at(136 * time.Second)
		require.Equal(t, 6, r.count())
		r.at(137 * time.Second)
		require.Equal(t, 9, r.count())
	})
}

func TestRefusalsNeitherExtendNorMoveAWindow(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"))
		r.enqueue("a", numbered(1000))
		r.at(0)
		require.Equal(t, 10, r.count())
		before := r.window("task:a")
		for ms := 50; ms <= 5000; ms += 50 { // a hundred times, some thousand jobs
			r.at(time.Duration(ms) * time.Millisecond)
		}
		r.at(time.Minute - time.Microsecond)
		after := r.window("task:a")
		before.Now, after.Now = 0, 0
		require.Equal(t, before, after)
		require.Equal(t, 10, r.count())
		r.at(time.Minute)
		require.Equal(t, 20, r.count())
		require.Equal(t, epoch.Add(time.Minute).UnixMicro(), r.window("task:a").From)
	})
}

func TestALimitOfZeroIsAPause(t *testing.T) {
	run := func(limit int64) scheduler.Option {
		return scheduler.WindowLimit("l", limit, time.Minute, scheduler.Tasks("a"))
	}
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.task("free", nil)
		receipt, err := queue.Task[string]("a").Enqueue(t.Context(), r.client, "x", queue.UniqueKey("k"))
		require.NoError(t, err)
		r.enqueue("free", numbered(5))
		for m := range 5 {
			r.at(time.Duration(m) * time.Minute)
		}
		require.Zero(t, r.tally("a"))
		require.Equal(t, 5, r.tally("free"))
		require.Zero(t, r.window("l").ID, "a pause opens no window")
		again, err := queue.Task[string]("a").Enqueue(t.Context(), r.client, "x", queue.UniqueKey("k"))
		require.NoError(t, err)
		require.Equal(t, queue.Receipt{ID: receipt.ID, Duplicate: true}, again, "it holds unique keys")
		queues, err := r.client.Queues(t.Context())
		require.NoError(t, err)
		require.Equal(t, epoch, queues[0].OldestWaitingAt.UTC(), "and what waits grows old")

		r.again(run(3))
		r.task("a", nil)
		r.at(5 * time.Minute)
		require.Equal(t, 1, r.tally("a"))
	}, run(0))
}

func TestAThrottledUniqueJobKeepsItsKey(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"))
		r.enqueue("a", []string{"takes the place"})
		unique := func() queue.Receipt {
			receipt, err := queue.Task[string]("a").Enqueue(t.Context(), r.client, "x", queue.UniqueKey("k"))
			require.NoError(t, err)
			return receipt
		}
		first := unique()
		for s := range 60 {
			r.at(time.Duration(s) * time.Second)
			require.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, unique(), "throttling extends the time in which it is the only one")
		}
		r.at(time.Minute)
		require.False(t, unique().Duplicate)
	})
}

func TestPausesAndOperatorsCountsReachARunningProcessAtItsNextRefresh(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/m"))
		r.enqueue("a", numbered(50))
		r.at(0)
		require.Equal(t, 2, r.count())
		require.NoError(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "5/m", For: 40 * time.Second}))
		r.at(time.Second)
		require.Equal(t, 5, r.count(), "a greater count gives room at once")
		require.NoError(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "3/m", For: 90 * time.Second}))
		r.at(60 * time.Second)
		require.Equal(t, 8, r.count())
		r.at(90 * time.Second)
		require.Equal(t, 8, r.count())
		r.at(91 * time.Second)
		require.Equal(t, 8, r.count(), "it has ended, and the window has more in it than the declared count")

		require.NoError(t, r.client.PauseLimit(t.Context(), "task:a"))
		r.at(120 * time.Second)
		require.Equal(t, 8, r.count())
		require.EqualValues(t, 2, r.window("task:a").ID, "a pause opens no window")
		require.NoError(t, r.client.ResumeLimit(t.Context(), "task:a"))
		r.at(121 * time.Second)
		require.Equal(t, 10, r.count())
		require.NoError(t, r.client.PauseQueue(t.Context(), "default"))
		r.at(181 * time.Second)
		require.Equal(t, 10, r.count())
		require.NoError(t, r.client.ResumeQueue(t.Context(), "default"))
		r.at(182 * time.Second)
		require.Equal(t, 12, r.count())
	})
}

// A count is what a process was started with: it holds until it is started anew,
// and while two disagree the larger bounds what starts.
func TestDuringARollingChangeOfTheCountTheLargerBounds(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		limit := func(n int64) scheduler.Option {
			return scheduler.WindowLimit("l", n, time.Minute, scheduler.Tasks("a"))
		}
		old, young := r.beside(limit(3)), r.beside(limit(10))
		old.task("a", nil)
		young.task("a", nil)
		r.enqueue("a", numbered(100))
		old.drain()
		require.Equal(t, 3, old.count())
		young.drain()
		require.Equal(t, 7, young.count(), "each stops when the shared count has reached its own")
		old.at(30 * time.Second)
		require.Equal(t, 3, old.count())
		r.clock.Advance(30 * time.Second)
		old.drain()
		require.Equal(t, 6, old.count())
		young.drain()
		require.Equal(t, 14, young.count())
		require.EqualValues(t, 10, r.window("l").Count)
		r.clock.Advance(time.Minute)
		old.drain() // the other is gone: within one window the smaller holds
		require.Equal(t, 9, old.count())
		require.EqualValues(t, 3, r.window("l").Count)
	})
}

// The row carries no period: whoever has the shorter one rolls for all.
func TestDuringARollingChangeOfThePeriodTheShorterHolds(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		limit := func(per time.Duration) scheduler.Option {
			return scheduler.WindowLimit("l", 2, per, scheduler.Tasks("a"))
		}
		long, short := r.beside(limit(time.Hour)), r.beside(limit(time.Minute))
		long.task("a", nil)
		short.task("a", nil)
		r.enqueue("a", numbered(100))
		long.drain()
		require.Equal(t, 2, long.count())
		for range 5 {
			r.clock.Advance(time.Minute)
			short.drain()
			long.drain()
		}
		require.Equal(t, 2+10, long.count()+short.count(), "never more than the count in the shorter period")
		require.EqualValues(t, 6, r.window("l").ID)
		r.clock.Advance(time.Minute)
		long.drain()
		require.EqualValues(t, 6, r.window("l").ID, "the shorter one is gone, and the longer holds again")
	})
}

func TestALimitsNameSpansProcessesAndItsSpellingIsItsIdentity(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		one := r.beside(scheduler.SharedLimit("stripe", "3/m", scheduler.Tasks("a")))
		other := r.beside(scheduler.SharedLimit("stripe", "3/m", scheduler.Tasks("b")))
		renamed := r.beside(scheduler.SharedLimit("Stripe", "3/m", scheduler.Tasks("a")))
		one.task("a", nil)
		other.task("b", nil)
		renamed.task("a", nil)
		r.enqueue("a", numbered(10))
		r.enqueue("b", numbered(10))
		one.drain()
		other.drain()
		require.Equal(t, 3, one.count()+other.count(), "one window, whatever each covers with it")
		renamed.drain()
		require.Equal(t, 3, renamed.count(), "another spelling is another window")
		require.EqualValues(t, 3, r.window("stripe").Count)
		require.EqualValues(t, 3, r.window("Stripe").Count)
	})
}

// Rows of the old name are covered where the limit names it too.
func TestARenamedTaskIsCoveredWhereBothNamesAreListed(t *testing.T) {
	for _, c := range []struct {
		name    string
		covered []string
		old     int
	}{
		{"the new name alone: rows of the old one start unthrottled", []string{"new"}, 10},
		{"both names", []string{"new", "old"}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachWindow(t, func(t *testing.T, r *rig) {
				r.task("old", nil)
				r.task("new", nil)
				r.enqueue("old", numbered(10))
				r.at(0)
				require.Equal(t, c.old, r.tally("old"))
			}, scheduler.SharedLimit("l", "3/m", scheduler.Tasks(c.covered...)))
		})
	}
}

func TestAThrottledWorkerSleepsUntilItsWindowIsOver(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.enqueue("a", numbered(40))
		refreshes := r.faults.Count(refresh)
		var wakes []time.Duration
		for at := time.Duration(0); at < 3*1300*time.Millisecond; at = r.s.WakeAt().Sub(epoch) {
			wakes = append(wakes, at)
			r.at(at)
		}
		ms := time.Millisecond
		require.Equal(t, []time.Duration{0, 500 * ms, 1000 * ms, 1300 * ms, 1800 * ms, 2300 * ms, 2600 * ms, 3100 * ms, 3600 * ms}, wakes,
			"it looks around for what others wrote, and is there when a window ends")
		require.Equal(t, map[time.Duration]int{0: 10, 1300 * ms: 10, 2600 * ms: 10}, byTime(r.ledger()))
		require.EqualValues(t, 30+6, refreshes.Statements(), "one for each start, and one when it looks around")
	}, scheduler.WindowLimit("l", 10, 1300*time.Millisecond, scheduler.Tasks("a")))
}

// byTime counts starts by their times.
func byTime(ledger []start) map[time.Duration]int {
	out := map[time.Duration]int{}
	for _, x := range ledger {
		out[x.at]++
	}
	return out
}
