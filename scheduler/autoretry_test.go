package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func alwaysFails(*queue.Job[string]) error { return errors.New("rate_limit: says the other side") }

// A job that always fails is started (1 + max_retries) times, and as often
// again for each retry of its dead letter; then it rests.
func TestAFailedJobIsRetriedAfterItsDeathUntilItsMaximum(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", alwaysFails, scheduler.MaxRetries(2), scheduler.DLQRetry(time.Hour, 3), scheduler.Backoff{Base: time.Millisecond, Max: time.Millisecond})
		args := []string{"\x00\xff", `{"a":1}`}
		for i := range args {
			r.enqueue("a", args[i:i+1], queue.Priority(-7), queue.Metadata(map[string]any{"source": "import"}), queue.Queue("q"), queue.UniqueKey(fmt.Sprint(i)))
		}
		died := map[string]dlq.Entry{}
		for hour := range 8 {
			for attempt := range 3 {
				r.at(time.Duration(hour)*time.Hour + time.Duration(4*hour+2*attempt)*time.Millisecond)
			}
			letters := r.letters()
			require.Len(t, letters, len(args), "one dead letter for each at any time")
			replays := min(hour, 3)
			require.Equal(t, len(args)*3*(1+replays), r.count())
			for _, letter := range letters {
				e := r.letter(letter.JobID)
				require.Equal(t, replays, e.Replays)
				first, known := died[string(e.RawArgs)]
				if !known {
					died[string(e.RawArgs)] = *e
					continue
				}
				require.Equal(t, []any{first.Priority, first.Queue, string(first.JobMetadata), first.MaxRetries, first.UniqueKey},
					[]any{e.Priority, e.Queue, string(e.JobMetadata), e.MaxRetries, e.UniqueKey})
			}
		}
		require.Len(t, died, len(args), "their arguments stay as they were")
		page, err := r.client.Audit(t.Context(), queue.AuditFilter{})
		require.NoError(t, err)
		require.Empty(t, page.Items, "no operator did it")
	})
}

func TestReplaysByHandCountAgainstTheMaximum(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", alwaysFails, scheduler.MaxRetries(0), scheduler.DLQRetry(time.Second, 1))
		r.enqueue("a", []string{"x"})
		r.at(0)
		_, err := r.dead.ReplayWhere(t.Context(), dlq.Filter{Task: "a"})
		require.NoError(t, err)
		r.at(time.Millisecond)
		r.at(time.Hour)
		require.Equal(t, 2, r.count())
	})
}

// What was shed stays, however much of it there is, and hides nothing.
func TestShedsAreNeverRetriedAndHideNoFailure(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		fail := true
		r.task("a", func(*queue.Job[string]) error {
			if fail {
				return errors.New("rate_limit: says the user")
			}
			return nil
		}, scheduler.RateLimit("5/s"), scheduler.OnExcess(scheduler.Drop), scheduler.MaxRetries(0), scheduler.DLQRetry(time.Second, 3))
		const sheds = 3000
		r.enqueue("a", numbered(5+sheds))
		r.at(0)
		require.Len(t, r.letters(), 5+sheds)
		fail = false
		for range 3 {
			r.at(time.Second)
		}
		require.Equal(t, 10, r.count(), "the five failures ran again, and no other")
		n, err := r.dead.Count(t.Context(), dlq.Filter{})
		require.NoError(t, err)
		require.EqualValues(t, sheds, n.N)
	}, scheduler.Concurrency(1000))
}

func TestOnlyTasksThatAskForItAreRetriedAndOnlyHere(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("asks", alwaysFails, scheduler.MaxRetries(0), scheduler.DLQRetry(time.Second, 3))
		r.task("asks not", alwaysFails, scheduler.MaxRetries(0))
		other := r.scheduler()
		require.NoError(t, scheduler.Register(other, "elsewhere", func(context.Context, *queue.Job[string]) error { return errors.New("no") }, scheduler.MaxRetries(0)))
		for _, task := range []string{"asks", "asks not", "elsewhere"} {
			r.enqueue(task, []string{"x"})
		}
		require.NoError(t, other.Drain(t.Context()))
		r.at(0)
		r.at(time.Second)
		require.NoError(t, other.Drain(t.Context()))
		require.Equal(t, []int{2, 1}, []int{r.tally("asks"), r.tally("asks not")})
		require.Len(t, r.letters(), 3)
	})
}

func TestADeadLetterWhoseKeyIsHeldWaitsForItsHolder(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", alwaysFails, scheduler.MaxRetries(0), scheduler.DLQRetry(time.Second, 3))
		r.enqueue("a", []string{"first"}, queue.UniqueKey("k"))
		r.at(0)
		holder := r.enqueue("a", []string{"holder"}, queue.UniqueKey("k"), queue.Delay(time.Hour))[0]
		r.at(10 * time.Second)
		require.Equal(t, 1, r.count())
		require.NoError(t, r.client.Cancel(t.Context(), holder))
		r.at(20 * time.Second)
		require.Equal(t, 2, r.count())
	})
}

// Several schedulers, and what they say of it.
func TestARetryHappensOnceHoweverManySchedulersThereAre(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		r := newRig(t, db, clock.NewFake(epoch), scheduler.Logger(logger))
		const jobs = 700 // two looks
		r.task("a", alwaysFails, scheduler.MaxRetries(0), scheduler.DLQRetry(time.Minute, 1))
		r.enqueue("a", numbered(jobs))
		r.at(0)
		var mu sync.Mutex
		starts := map[string]int{}
		var schedulers []*scheduler.Scheduler
		for range 3 {
			s := r.scheduler()
			require.NoError(t, scheduler.Register(s, "a", func(_ context.Context, job *queue.Job[string]) error {
				mu.Lock()
				defer mu.Unlock()
				starts[job.Args]++
				return nil
			}, scheduler.DLQRetry(time.Minute, 1)))
			schedulers = append(schedulers, s)
		}
		r.clock.Advance(time.Minute)
		var wg sync.WaitGroup
		for _, s := range schedulers {
			wg.Go(func() {
				if err := s.Drain(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.drain()
		for _, s := range schedulers {
			require.NoError(t, s.Drain(t.Context()))
		}
		require.Empty(t, r.letters())
		mu.Lock()
		defer mu.Unlock()
		total := r.count() - jobs
		for args, n := range starts {
			require.Equal(t, 1, n, args)
			total += n
		}
		require.Equal(t, jobs, total)
	})
}

func TestARetryOfDeadLettersOutOfItsRangeIsRefused(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			after time.Duration
			max   int
			want  string
		}{
			{0, 1, `task "a": dlq_retry: after 0s: use 1s to 366 days`},
			{367 * 24 * time.Hour, 1, `task "a": dlq_retry: after 8808h0m0s: use 1s to 366 days`},
			{time.Hour, 0, `task "a": dlq_retry: max 0: use 1 to 100`},
			{time.Hour, 101, `task "a": dlq_retry: max 101: use 1 to 100`},
		} {
			err := scheduler.Register(r.s, "a", func(context.Context, *queue.Job[string]) error { return nil }, scheduler.DLQRetry(c.after, c.max))
			require.EqualError(t, err, c.want)
		}
	})
}

func TestDeadLettersAreKeptByAgeAndByNumber(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var log bytes.Buffer
		r := newRig(t, db, clock.NewFake(epoch))
		r.task("fails", alwaysFails, scheduler.MaxRetries(0))
		r.task("drops", nil, scheduler.RateLimit("1/d"), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("drops", numbered(4))
		r.enqueue("fails", numbered(5))
		r.at(0)
		page, err := r.dead.List(t.Context(), dlq.Filter{Kind: dlq.Failed, Limit: 2})
		require.NoError(t, err)
		r.clock.Advance(time.Hour + time.Second)
		r.enqueue("drops", numbered(1))
		r.drain()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		other := r.scheduler(scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))),
			scheduler.DeadRetention(dlq.Shed, scheduler.Keep{Age: time.Hour}), scheduler.DeadRetention(dlq.Failed, scheduler.Keep{Count: 2}))
		require.NoError(t, scheduler.Register(other, queue.Task[string]("another"), func(context.Context, *queue.Job[string]) error { return nil }))
		running.Go(func() {
			if err := other.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		require.Eventually(t, func() bool {
			n, err := r.dead.Count(t.Context(), dlq.Filter{})
			return err == nil && n.N == 3
		}, 20*time.Second, time.Millisecond)
		stop()
		running.Wait()
		left := r.letters()
		require.Equal(t, dlq.Shed, left[0].Kind)
		require.Equal(t, page.Items, left[1:], "the latest of those that failed")
		stats, err := r.dead.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []dlq.Removed{{Kind: dlq.Failed, ByCount: 3}, {Kind: dlq.Shed, ByAge: 3}}, stats.Removed)
		require.Equal(t, 2, strings.Count(log.String(), "msg=dead_letters_removed"))
	})
}

func TestARetentionOfDeadLettersThatCannotBeMeantIsRefused(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for want, opts := range map[string][]scheduler.Option{
			`scheduler: retention of dead letters, x: kind "x": use shed, failed or expired`:           {scheduler.DeadRetention("x", scheduler.Keep{Count: 1})},
			`scheduler: retention of dead letters, shed: age 1s: use 1m or more, or leave it out`:      {scheduler.DeadRetention(dlq.Shed, scheduler.Keep{Age: time.Second})},
			`scheduler: retention of dead letters, shed: count -1: use 1 or more, or leave it out`:     {scheduler.DeadRetention(dlq.Shed, scheduler.Keep{Count: -1})},
			`scheduler: retention of dead letters, shed: neither an age nor a count: give one of them`: {scheduler.DeadRetention(dlq.Shed, scheduler.Keep{})},
			`scheduler: retention of dead letters, shed: given twice: keep one`: {
				scheduler.DeadRetention(dlq.Shed, scheduler.Keep{Count: 1}), scheduler.DeadRetention(dlq.Shed, scheduler.Keep{Count: 2}),
			},
		} {
			_, err := scheduler.New(r.client, opts...)
			require.EqualError(t, err, want)
		}
	})
}

// Of a flood each turn sheds its share, whatever its length: what is asked of
// the database does not grow with the jobs.
func TestAFloodCostsStatementsByTheBatch(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/s"), scheduler.OnExcess(scheduler.Drop))
		r.at(0)
		jobs := 100_000
		if testing.Short() {
			jobs = 10_000
		}
		r.enqueue("a", make([]string, jobs))
		statements, looks := r.faults.Count(`.`), r.s.Stats().Looks
		r.at(0)
		asked := statements.Statements()
		looks = r.s.Stats().Looks - looks
		t.Logf("%d jobs: %d looks, %d statements", jobs, looks, asked)
		require.EqualValues(t, jobs-10, r.limit("task:a").Shed)
		require.EqualValues(t, 10, r.limit("task:a").Started)
		require.LessOrEqual(t, looks, int64(jobs/100+1), "a hundred at a time")
		require.Less(t, asked, 15*looks+100)
		stats, err := r.dead.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []dlq.Group{{Kind: dlq.Shed, Task: "a", Reason: "rate_limit: task:a 10/s", Count: int64(jobs - 10)}}, stats.Groups)
	})
}

// Work that has nothing to do with a flood is started by the next look; and
// however much of it comes, the flood goes on.
func TestAFloodGivesWayToWorkThatJustCame(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		looks := func(news int, line store.Line) int64 {
			r := newRig(t, db, clock.NewFake(epoch))
			for _, name := range []string{"a", "b"} {
				r.task(name, nil, scheduler.RateLimit("1/h"), scheduler.OnExcess(scheduler.Drop))
			}
			r.at(0)
			began, shed := r.s.Stats().Looks, r.limit("task:a").Shed
			r.enqueue("a", numbered(2001))
			for i := range news {
				r.faults.Before(`from \S*weir_limits\b`, i+4, func() { r.client.Store().Wake(t.Context(), store.Wake{Lines: []store.Line{line}}) })
			}
			r.drain()
			require.GreaterOrEqual(t, r.limit("task:a").Shed-shed, int64(2000))
			return r.s.Stats().Looks - began
		}
		looks(0, store.Line{}) // takes the token
		undisturbed := looks(0, store.Line{})
		require.Equal(t, undisturbed+2, looks(1, store.Line{Task: "b", Queue: "default"}), "one that sheds nothing, and one that looks at the other line")
		require.Equal(t, undisturbed, looks(1, store.Line{Task: "a", Queue: "other"}), "the same limit covers it")
		require.Equal(t, undisturbed, looks(1, store.Line{Task: "unknown", Queue: "default"}))
		require.Less(t, looks(50, store.Line{Task: "b", Queue: "default"}), 50+2*undisturbed)
	})
}
