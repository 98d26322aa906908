package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

var errAlways = errors.New("it never works")

func always(*queue.Job[string]) error { return errAlways }

func TestAJobIsStartedOnceMoreThanItsMaxRetriesSay(t *testing.T) {
	for _, c := range []struct {
		name   string
		task   []scheduler.TaskOption
		job    []queue.EnqueueOption
		starts int
	}{
		{"the default is three", nil, nil, 4},
		{"none", []scheduler.TaskOption{scheduler.MaxRetries(0)}, nil, 1},
		{"one", []scheduler.TaskOption{scheduler.MaxRetries(1)}, nil, 2},
		{"the job's own count wins", []scheduler.TaskOption{scheduler.MaxRetries(5)}, []queue.EnqueueOption{queue.MaxRetries(1)}, 2},
		{"and its none is not unset", []scheduler.TaskOption{scheduler.MaxRetries(5)}, []queue.EnqueueOption{queue.MaxRetries(0)}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				told := map[int]bool{}
				r.task("a", func(job *queue.Job[string]) error {
					told[job.MaxRetries] = true
					return errAlways
				}, append(c.task, scheduler.Backoff{Base: time.Second, Factor: 2})...)
				id := r.enqueue("a", []string{"x"}, c.job...)[0]
				r.meddle(`update weir_jobs set deferrals = 2147483646`)

				// The retries come 1, 2 and 4 seconds after the failures.
				var want []start
				at := time.Duration(0)
				for n := range c.starts {
					want = append(want, start{at, "a", "x", n + 1})
					at += time.Second << n
				}
				for _, s := range []int{0, 1, 2, 3, 6, 7, 20} {
					r.at(time.Duration(s) * time.Second)
				}
				require.Equal(t, want, r.ledger())
				require.Equal(t, map[int]bool{c.starts - 1: true}, told, "the handler is told what holds")

				e := r.letter(id)
				require.Equal(t, dlq.Failed, e.Kind)
				require.Equal(t, "it never works", e.Reason)
				require.Equal(t, c.starts, e.Attempts)
				require.EqualValues(t, 2147483646, e.Deferrals)
				require.Len(t, e.Errors, c.starts)
				for n, x := range e.Errors {
					require.Equal(t, n+1, x.Attempt)
					require.Equal(t, epoch.Add(want[n].at), x.At.UTC())
					require.Equal(t, "it never works", x.Error)
				}
				require.EqualValues(t, 1, r.s.Stats().Failed)
				require.EqualValues(t, c.starts-1, r.s.Stats().Retried)
			})
		})
	}
}

func TestDeferralsBurnNoAttempts(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", always, scheduler.RateLimit("4/m"), scheduler.Burst(1), scheduler.MaxRetries(1), scheduler.Backoff{Base: time.Second})
		ids := r.enqueue("a", []string{"first", "second"})
		for s := range 15 * 4 {
			r.at(time.Duration(s) * time.Second)
			if s == 0 { // a great many deferrals later
				r.meddle(`update weir_jobs set deferrals = 4000000000 where uid = ?`, ids[1])
			}
		}
		require.Equal(t, []start{
			{0, "a", "first", 1},
			{15 * time.Second, "a", "second", 1},
			{30 * time.Second, "a", "first", 2},
			{45 * time.Second, "a", "second", 2},
		}, r.ledger())
		require.Equal(t, int64(4_000_000_000+14+29), r.letter(ids[1]).Deferrals, "until 15 s, and from 16 s to 45 s")
		require.Equal(t, 2, r.letter(ids[1]).Attempts)
	})
}

func TestARetryTakesItsPlaceAtTheEndOfItsBackOff(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Args == "fails" && job.Attempt == 1 {
				return errAlways
			}
			return nil
		}, scheduler.RateLimit("1/s"), scheduler.Backoff{Base: 2500 * time.Millisecond})
		id := r.enqueue("a", []string{"fails", "1", "2"})[0]
		r.at(0)
		job := r.get(id)
		require.Equal(t, queue.StateScheduled, job.State)
		require.Equal(t, epoch.Add(2500*time.Millisecond), job.RunAt.UTC())
		require.Equal(t, epoch.Add(2500*time.Millisecond), job.FirstDueAt.UTC())
		require.Equal(t, "it never works", job.LastError)
		require.Len(t, job.Errors, 1)
		r.at(time.Second)
		r.at(2 * time.Second)
		r.at(2200 * time.Millisecond)
		r.enqueue("a", []string{"before it"})
		r.at(2600 * time.Millisecond)
		r.enqueue("a", []string{"after it"})
		for s := 3; s <= 6; s++ {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, []start{
			{0, "a", "fails", 1},
			{1 * time.Second, "a", "1", 1},
			{2 * time.Second, "a", "2", 1},
			{3 * time.Second, "a", "before it", 1},
			{4 * time.Second, "a", "fails", 2},
			{5 * time.Second, "a", "after it", 1},
		}, r.ledger())
		done := r.get(id)
		require.Equal(t, queue.StateCompleted, done.State)
		require.Len(t, done.Errors, 1, "what went wrong stays with it")
	})
}

// Whichever way a job comes into line, it passes the limit: at most ten starts
// in the first minute at 5/m.
func TestNoPathGoesRoundTheLimit(t *testing.T) {
	const jobs = 30
	for _, c := range []struct {
		name   string
		arrive func(t *testing.T, r *rig)
	}{
		{name: "one by one", arrive: func(_ *testing.T, r *rig) {
			for range jobs {
				r.enqueue("a", []string{"x"})
			}
		}},
		{name: "in bulk", arrive: func(_ *testing.T, r *rig) { r.enqueue("a", numbered(jobs)) }},
		{name: "a delay that ends for all at once", arrive: func(_ *testing.T, r *rig) {
			r.enqueue("a", numbered(jobs), queue.Delay(time.Hour))
			r.clock.Advance(time.Hour)
		}},
		{name: "another queue", arrive: func(_ *testing.T, r *rig) {
			r.enqueue("a", numbered(jobs/2), queue.Queue("q"))
			r.enqueue("a", numbered(jobs/2), queue.Queue("r"))
		}},
		{name: "in the caller's transaction", arrive: func(t *testing.T, r *rig) {
			tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			for range jobs / 2 {
				_, err = queue.Task[string]("a").EnqueueTx(t.Context(), r.client, tx, "x")
				require.NoError(t, err)
			}
			_, err = queue.Task[string]("a").EnqueueManyTx(t.Context(), r.client, tx, numbered(jobs/2))
			require.NoError(t, err)
			require.NoError(t, tx.Commit())
		}},
		{name: "brought into line by hand", arrive: func(t *testing.T, r *rig) {
			ids := r.enqueue("a", numbered(jobs/2), queue.Delay(time.Hour))
			retries := r.enqueue("a", numbered(jobs/2))
			for _, job := range r.claim("a") {
				r.later(job, time.Hour)
			}
			for _, id := range append(ids, retries...) {
				require.NoError(t, r.client.RunNow(t.Context(), id))
			}
		}},
		{name: "a retry of all at once", arrive: func(_ *testing.T, r *rig) {
			r.enqueue("a", numbered(jobs))
			for _, job := range r.claim("a") {
				r.report(job, store.Retry)
			}
		}},
		{name: "given back", arrive: func(_ *testing.T, r *rig) {
			r.enqueue("a", numbered(jobs))
			for _, job := range r.claim("a") {
				r.report(job, store.GiveBack)
			}
		}},
		{name: "cut off by a stop", arrive: func(_ *testing.T, r *rig) {
			r.enqueue("a", numbered(jobs))
			for _, job := range r.claim("a") {
				r.report(job, store.Interrupted)
			}
		}},
		{name: "leases that are lost", arrive: func(_ *testing.T, r *rig) {
			r.enqueue("a", numbered(jobs))
			r.claim("a")
			r.clock.Advance(30 * time.Second)
		}},
		{name: "a replay of one after the other", arrive: func(t *testing.T, r *rig) {
			for _, id := range r.die(jobs) {
				_, err := r.dead.Replay(t.Context(), id)
				require.NoError(t, err)
			}
		}},
		{name: "a replay of all", arrive: func(t *testing.T, r *rig) {
			r.die(jobs)
			done, err := r.dead.ReplayWhere(t.Context(), dlq.Filter{Kind: dlq.Failed})
			require.NoError(t, err)
			require.EqualValues(t, jobs, done.Replayed)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("5/m"))
				r.drain()
				c.arrive(t, r)
				begin := r.clock.Now().Sub(epoch)
				r.drain()
				require.Equal(t, 5, r.count())
				for s := 1; s <= 60; s++ {
					if s < 3 || s%4 == 0 {
						r.at(begin + time.Duration(s)*time.Second)
					}
				}
				require.Equal(t, 10, r.count())
				require.LessOrEqual(t, scheduler.MostAbove(mustLimit(t, "5/m", 0), r.grants(), 0), 1e-6)
			})
		})
	}
}

// later reports a failed attempt whose back-off is long.
func (r *rig) later(job store.Job, delay time.Duration) {
	r.t.Helper()
	_, err := r.client.Store().Turn(r.t.Context(), store.TurnRequest{Results: []store.Result{
		{ID: job.ID, UID: job.UID, Claim: job.Claim.Int64, Outcome: store.Retry, Delay: delay.Microseconds()},
	}})
	require.NoError(r.t, err)
}

// die makes n dead letters of the task a, and returns the jobs' ids.
func (r *rig) die(n int) []string {
	r.t.Helper()
	ids := r.enqueue("a", numbered(n))
	for _, job := range r.claim("a") {
		r.report(job, store.Dead)
	}
	return ids
}

// endingError is what a mock may be whose text is asked for without being expected.
type endingError struct{}

func (endingError) Error() string { runtime.Goexit(); return "" }

// panics is a value that cannot even be shown.
type panics struct{}

func (panics) String() string { panic("no text") }

type panickingIsError struct{}

func (panickingIsError) Error() string { return "nothing" }
func (panickingIsError) Is(error) bool { panic("and like nothing") }

type panickingError struct{}

func (panickingError) Error() string { panic("no text either") }

// Whatever a handler does, the attempt fails with a reason that can be read,
// and its slot is free.
func TestAHandlerCannotTakeTheWorkerWithIt(t *testing.T) {
	ways := []struct {
		name   string
		do     func(context.Context) error
		reason string // what its first line begins with
	}{
		{"a string", func(context.Context) error { panic("a word") }, "panic: a word"},
		{"an error", func(context.Context) error { panic(errAlways) }, "panic: it never works"},
		{"nil", func(context.Context) error { panic(nil) }, "panic: panic called with nil argument"},
		{"a value without a text", func(context.Context) error { panic(panics{}) }, "panic: "},
		{"an index", func(context.Context) error { var none []int; _ = none[len(none)]; return nil }, "panic: runtime error: index out of range"},
		{"the end of the goroutine", func(context.Context) error { runtime.Goexit(); return nil }, "the handler ended its goroutine (runtime.Goexit)"},
		{"a deferred call", func(context.Context) error { defer func() { panic("deferred") }(); return errAlways }, "panic: deferred"},
		{"a deferred call over a panic", func(context.Context) error { defer func() { panic("the second") }(); panic("the first") }, "panic: "},
		{"a deferred call over the end", func(context.Context) error { defer func() { panic("at the end") }(); runtime.Goexit(); return nil }, "panic: at the end"},
		{"a wait for its timeout", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, "timed out after 20ms"},
		{"a timeout that it says nothing of", func(ctx context.Context) error { <-ctx.Done(); return nil }, "timed out after 20ms"},
		{"an error without a text", func(context.Context) error { return errors.New(" \t\n") }, "an error without a text"},
		{"an error whose text panics", func(context.Context) error { return panickingError{} }, "an error whose text panics: no text either"},
		{"an error whose text ends the goroutine", func(context.Context) error { return endingError{} }, "the handler ended its goroutine (runtime.Goexit)"},
		{"a nil pointer as an error", func(context.Context) error { var e *os.PathError; return e }, "an error whose text panics: runtime error: invalid memory address"},
		{"an error that is nothing", func(context.Context) error { return panickingIsError{} }, "nothing"},
		{"bytes that are no text", func(context.Context) error { return errors.New("a\x00b\xffc\xc3(d\u2028") }, "a\uFFFDb\uFFFDc\uFFFD(d\u2028"},
	}
	eachStrategy(t, func(t *testing.T, r *rig) {
		const slots, rounds = 4, 5
		for _, w := range ways {
			require.NoError(t, scheduler.Register(r.s, queue.Task[string](w.name),
				func(ctx context.Context, _ *queue.Job[string]) error { return w.do(ctx) },
				scheduler.MaxRetries(0), scheduler.Timeout(20*time.Millisecond)))
			r.enqueue(w.name, numbered(rounds))
		}
		r.at(0)
		letters := r.letters()
		require.Len(t, letters, rounds*len(ways))
		for _, w := range ways {
			seen := 0
			for _, e := range letters {
				if e.Task != w.name {
					continue
				}
				seen++
				require.Equal(t, dlq.Failed, e.Kind)
				require.True(t, strings.HasPrefix(e.Reason, w.reason), "%s: %q", w.name, e.Reason)
				require.Len(t, e.Errors, 1)
				require.Equal(t, e.Reason, e.Errors[0].Error)
				if strings.HasPrefix(w.reason, "panic") {
					require.Regexp(t, `^panic: [^\n]*( \[recovered.*\])?\n[^\n]*scheduler_test\.[^\n]+\n\t[^\n]*life_test\.go:`, e.Reason, "where it happened, first")
				}
			}
			require.Equal(t, rounds, seen, w.name)
		}

		// All slots are there: as many good jobs run at once.
		var meet sync.WaitGroup
		meet.Add(slots)
		require.EqualValues(t, slots, r.s.Stats().Free)
		good := r.scheduler(scheduler.Concurrency(slots))
		require.NoError(t, scheduler.Register(good, "good", func(context.Context, *queue.Job[string]) error {
			meet.Done()
			meet.Wait()
			return nil
		}))
		r.enqueue("good", numbered(slots))
		require.NoError(t, good.Drain(t.Context()))
		require.Len(t, r.jobs(queue.StateCompleted), slots)
	}, scheduler.Concurrency(4))
}

// No later attempt would read anything else.
func TestArgumentsThatDoNotDecodeAreADeadLetterAtOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		require.NoError(t, scheduler.Register(r.s, "a", func(context.Context, *queue.Job[int]) error { return nil }))
		id := r.enqueue("a", []string{"x"})[0]
		r.at(0)
		e := r.letter(id)
		require.Equal(t, dlq.Failed, e.Kind)
		require.Equal(t, 1, e.Attempts)
		require.Equal(t, "decode arguments into int: json: cannot unmarshal string into Go value of type int", e.Reason)
	})
}

func TestAfterPanicsEverySlotIsFree(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		const slots = 4
		var now, most atomic.Int64
		full := make(chan struct{})
		var once sync.Once
		require.NoError(t, scheduler.Register(r.s, "a", func(_ context.Context, job *queue.Job[string]) error {
			switch job.Args {
			case "panic":
				panic("on purpose")
			case "goexit":
				runtime.Goexit()
			}
			defer now.Add(-1)
			n := now.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			if n == slots {
				once.Do(func() { close(full) })
			}
			<-full // the overlap is reached or the test hangs
			return nil
		}, scheduler.MaxRetries(0)))
		for range 25 {
			r.enqueue("a", []string{"panic", "goexit"})
		}
		r.at(0)
		require.Len(t, r.letters(), 50)
		r.enqueue("a", make([]string, 40))
		r.drain()
		require.EqualValues(t, slots, most.Load())
		require.Len(t, r.jobs(queue.StateCompleted), 40)
		require.Equal(t, scheduler.Stats{
			Started: 90, Completed: 40, Failed: 50, Free: slots, Looks: r.s.Stats().Looks,
		}, r.s.Stats())
	}, scheduler.Concurrency(4))
}

func TestALongErrorIsKeptBoundedAndOfManyErrorsTheLatest(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Attempt < 55 {
				return fmt.Errorf("attempt %d", job.Attempt)
			}
			return fmt.Errorf("attempt %d: %s", job.Attempt, strings.Repeat("ä", 10_000))
		}, scheduler.MaxRetries(54), scheduler.Backoff{Base: time.Second, Factor: 1})
		id := r.enqueue("a", []string{"x"})[0]
		for s := range 55 {
			r.at(time.Duration(s) * time.Second)
		}
		e := r.letter(id)
		require.Equal(t, 55, e.Attempts)
		require.True(t, strings.HasPrefix(e.Reason, "attempt 55: äää"))
		require.LessOrEqual(t, len(e.Reason), 4096+len(" ..."))
		require.True(t, strings.HasSuffix(e.Reason, "ä ..."), "cut between letters")
		require.Len(t, e.Errors, 50)
		require.Equal(t, "attempt 1", e.Errors[0].Error, "the first")
		for i, x := range e.Errors[1:] {
			require.Equal(t, 7+i, x.Attempt, "and the latest")
		}
	})
}

// The timeout bounds an attempt, not the time in line.
func TestATimeoutCountsRunningTimeOnly(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"), scheduler.Timeout(5*time.Second))
		r.enqueue("a", numbered(5))
		for m := range 5 {
			r.at(time.Duration(m) * time.Minute)
		}
		require.Equal(t, 5, r.count())
		require.Empty(t, r.letters())
	})
}

func TestTheJobsOwnTimeoutWins(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		require.NoError(t, scheduler.Register(r.s, "a", func(ctx context.Context, job *queue.Job[string]) error {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), scheduler.ErrTimeout)
			return ctx.Err()
		}, scheduler.MaxRetries(0), scheduler.Timeout(time.Hour)))
		id := r.enqueue("a", []string{"x"}, queue.Timeout(10*time.Millisecond))[0]
		r.at(0)
		require.Equal(t, "timed out after 10ms", r.letter(id).Reason)
	})
}

func TestArgumentsThatDoNotFitFailTheAttempt(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.MaxRetries(0))
		receipt, err := r.client.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: []byte(`{"not":"a string"}`)})
		require.NoError(t, err)
		r.at(0)
		require.Zero(t, r.count())
		require.Contains(t, r.letter(receipt.ID).Reason, "a")
		require.Equal(t, dlq.Failed, r.letter(receipt.ID).Kind)
	})
}

func TestAUniqueJobThatIsDeferredStaysTheOnlyOne(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Args == "fails" {
				return errAlways
			}
			return nil
		}, scheduler.RateLimit("1/m"), scheduler.MaxRetries(0))
		unique := func(args string) queue.Receipt {
			receipt, err := queue.Task[string]("a").Enqueue(t.Context(), r.client, args, queue.UniqueKey("k"))
			require.NoError(t, err)
			return receipt
		}
		r.enqueue("a", []string{"takes the token"})
		first := unique("waits")
		for s := range 21 {
			r.at(time.Duration(s) * time.Second)
			require.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, unique("again"))
		}
		r.wants(first.ID, queue.StateWaiting, epoch.Add(21*time.Second), 21)
		r.at(time.Minute)
		require.Equal(t, queue.StateCompleted, r.get(first.ID).State)

		// What failed for good or was cancelled holds its key no more.
		failed := unique("fails")
		r.at(2 * time.Minute)
		require.Equal(t, dlq.Failed, r.letter(failed.ID).Kind)
		cancelled := unique("cancelled")
		require.False(t, cancelled.Duplicate)
		require.NoError(t, r.client.Cancel(t.Context(), cancelled.ID))
		live := unique("live")
		require.False(t, live.Duplicate)

		// A replay does not take it from a live job.
		done, err := r.dead.Replay(t.Context(), failed.ID)
		require.NoError(t, err)
		require.Equal(t, "duplicate of "+live.ID, done[0].Skipped)
		require.Equal(t, dlq.Failed, r.letter(failed.ID).Kind)
	})
}

func TestJobsOfATaskThatNobodyServesWait(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		old := r.beside()
		old.task("known", nil)
		r.task("known", nil)
		r.task("new", nil, scheduler.RateLimit("10/s"))
		ids := r.enqueue("new", numbered(15))
		for ms := range 10 {
			old.at(time.Duration(ms) * 100 * time.Millisecond)
		}
		require.Zero(t, old.count())
		for _, id := range ids {
			r.wants(id, queue.StateWaiting, epoch, 0)
		}
		require.Zero(t, old.s.Stats().Looks)
		tasks, err := r.client.Tasks(t.Context())
		require.NoError(t, err)
		require.Len(t, tasks, 2)
		require.Equal(t, queue.TaskInfo{Name: "new", Queue: "default", MaxRetries: 3, Waiting: 15}, tasks[1], "nobody has a handler for it")
		r.at(time.Second)
		require.Equal(t, 10, r.count())
	})
}
