package scheduler_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
	"github.com/weirq/weir/scheduler"
)

func nothing(context.Context, *queue.Job[string]) error { return nil }

func TestAnOptionThatCannotBeIsRefusedWithItsMend(t *testing.T) {
	client := queuetest.Open(t)
	tasks := scheduler.Tasks("a")
	const day = 24 * time.Hour
	for _, c := range []struct {
		opts []scheduler.Option
		want string
	}{
		{[]scheduler.Option{scheduler.Concurrency(0)}, `scheduler: concurrency 0: use 1 to 100000`},
		{[]scheduler.Option{scheduler.Concurrency(100_001)}, `scheduler: concurrency 100001: use 1 to 100000`},
		{[]scheduler.Option{scheduler.Lease(999 * time.Millisecond)}, `scheduler: lease 999ms: use 1s to 24h`},
		{[]scheduler.Option{scheduler.Lease(day + 1)}, `scheduler: lease 24h0m0.000000001s: use 1s to 24h`},
		{[]scheduler.Option{scheduler.ShutdownGrace(-1)}, `scheduler: shutdown grace -1ns: use 0 or more`},
		{[]scheduler.Option{scheduler.Logger(nil)}, `scheduler: logger is nil: use slog.New(slog.DiscardHandler) to hear nothing`},
		{[]scheduler.Option{scheduler.Random(nil)}, `scheduler: random source is nil: leave the option out for the real one`},
		{[]scheduler.Option{scheduler.Concurrency(1), nil}, `scheduler: option 2 is nil: leave it out`},
		{[]scheduler.Option{scheduler.Middleware(nil)}, `scheduler: middleware is nil: leave it out`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "1/m", nil)}, `scheduler: queue "q": option 1 is nil: leave it out`},
		{[]scheduler.Option{scheduler.QueueCap("", 1)}, `scheduler: queue "": it is empty: use 1 to 255 bytes`},
		{[]scheduler.Option{scheduler.Elsewhere("b", "")}, `scheduler: elsewhere: task "": it is empty: use 1 to 255 bytes`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "100")}, `scheduler: queue "q": rate "100": no "/": write a count and a period, as in "100/m"`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "1/m", scheduler.Burst(0))}, `scheduler: queue "q": burst 0: use a whole number from 1 to 1000000000, as in burst 20`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "1/m", scheduler.Defer("soon"))}, `scheduler: queue "q": defer "soon": use "until_token" or leave it out`},
		{[]scheduler.Option{scheduler.SharedLimit("s", "nan/s", tasks)}, `scheduler: limit "s": rate "nan/s": count "nan" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
		{[]scheduler.Option{scheduler.SharedLimit("task:s", "1/s", tasks)}, `scheduler: limit "task:s": names that begin with "task:" are Weir's own: choose another, as in "stripe"`},
		{[]scheduler.Option{scheduler.SharedLimit("task@m:s", "1/s", tasks)}, `scheduler: limit "task@m:s": names that begin with "task@" are Weir's own: choose another, as in "stripe"`},
		{[]scheduler.Option{scheduler.SharedLimit("queue:s", "1/s", tasks)}, `scheduler: limit "queue:s": names that begin with "queue:" are Weir's own: choose another, as in "stripe"`},
		// Every fault is told at once, each with its place.
		{[]scheduler.Option{scheduler.Concurrency(0), scheduler.QueueLimit("q", "", scheduler.Burst(-1)), scheduler.Lease(0)}, `scheduler: concurrency 0: use 1 to 100000
scheduler: queue "q": burst -1: use a whole number from 1 to 1000000000, as in burst 20
scheduler: lease 0s: use 1s to 24h`},
	} {
		s, err := scheduler.New(client, c.opts...)
		require.EqualError(t, err, c.want)
		require.Nil(t, s)
	}
}

func TestASchedulerThatIsNoneIsAnErrorAndNoPanic(t *testing.T) {
	s, err := scheduler.New(nil)
	require.EqualError(t, err, "scheduler: the client is nil: open one with queue.Open")
	require.Nil(t, s)
	for _, s := range []*scheduler.Scheduler{nil, {}} {
		require.EqualError(t, scheduler.Register(s, "a", nothing), `task "a": the scheduler is none: make one with scheduler.New`)
		require.EqualError(t, s.Run(t.Context()), "the scheduler is none: make one with scheduler.New")
		require.EqualError(t, s.Drain(t.Context()), "the scheduler is none: make one with scheduler.New")
	}
}

// What can be seen only once the tasks are registered.
func TestLimitsThatDoNotFitTheTasksAreRefusedBeforeAnythingRuns(t *testing.T) {
	client := queuetest.Open(t)
	for _, c := range []struct {
		opts []scheduler.Option
		want string
	}{
		{[]scheduler.Option{scheduler.QueueLimit("", "1/m")}, `queue "": queue "": it is empty: use 1 to 255 bytes`},
		{[]scheduler.Option{scheduler.QueueLimit("q\n", "1/m")}, `queue "q\n": queue "q\n": it has the control character U+000A at byte 1: leave it out`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "1/m"), scheduler.QueueLimit("q", "1/m")}, `queue "q" is declared twice: keep one`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "1/m", scheduler.Tasks("a"))}, `queue "q": a queue's limit covers that queue alone: use SharedLimit for more`},
		{[]scheduler.Option{scheduler.QueueLimit("q", "1/m", scheduler.Queues("r"))}, `queue "q": a queue's limit covers that queue alone: use SharedLimit for more`},
		{[]scheduler.Option{scheduler.SharedLimit("s", "1/s")}, `limit "s": it covers nothing: name tasks or queues`},
		{[]scheduler.Option{scheduler.SharedLimit("", "1/s", scheduler.Tasks("a"))}, `limit "": limit "": it is empty: use 1 to 255 bytes`},
		{[]scheduler.Option{scheduler.SharedLimit("s", "1/s", scheduler.Tasks("a", "mail"))}, `limit "s": it names the task "mail", which is not registered: register it, or declare it with Elsewhere if another process runs it`},
		{[]scheduler.Option{scheduler.SharedLimit("s", "1/s", scheduler.Queues("q", ""))}, `limit "s": queue "": it is empty: use 1 to 255 bytes`},
		{[]scheduler.Option{scheduler.SharedLimit("s", "1/s", scheduler.Queues("q")), scheduler.SharedLimit("s", "2/s", scheduler.Tasks("a"))}, `limit "s" is declared twice: keep one`},
	} {
		s, err := scheduler.New(client, c.opts...)
		require.NoError(t, err)
		require.NoError(t, scheduler.Register(s, "a", nothing))
		require.EqualError(t, s.Validate(), c.want)
		require.EqualError(t, s.Run(t.Context()), "scheduler: "+c.want)
		require.EqualError(t, s.Drain(t.Context()), "scheduler: "+c.want)
	}
	limits, err := client.Limits(t.Context())
	require.NoError(t, err)
	require.Empty(t, limits, "nothing is stored")
	tasks, err := client.Tasks(t.Context())
	require.NoError(t, err)
	require.Empty(t, tasks)
}

func TestATaskOptionThatCannotBeIsRefusedWithItsMend(t *testing.T) {
	client := queuetest.Open(t)
	rate := scheduler.RateLimit("1/s")
	for _, c := range []struct {
		opts []scheduler.TaskOption
		want string
	}{
		{[]scheduler.TaskOption{scheduler.RateLimit("")}, `rate_limit: rate "": it is empty: write a count and a period, as in "100/m"`},
		{[]scheduler.TaskOption{scheduler.RateLimit("100/mo")}, `rate_limit: rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`},
		{[]scheduler.TaskOption{scheduler.RateLimit("0/m")}, `rate_limit: rate "0/m": count "0" is below 1: use at least 1 and a longer period, as in "1/15m"`},
		{[]scheduler.TaskOption{scheduler.RateLimit("1/0s")}, `rate_limit: rate "1/0s": period "0s" is zero: use a multiplier of at least 1, as in "5/30s"`},
		{[]scheduler.TaskOption{scheduler.RateLimit("1/367d")}, `rate_limit: rate "1/367d": period "367d" is longer than 366 days: use at most that, as in "1/366d"`},
		{[]scheduler.TaskOption{rate, scheduler.Burst(0)}, `rate_limit: burst 0: use a whole number from 1 to 1000000000, as in burst 20`},
		{[]scheduler.TaskOption{rate, scheduler.Burst(1_000_000_001)}, `rate_limit: burst 1000000001: use a whole number from 1 to 1000000000, as in burst 20`},
		{[]scheduler.TaskOption{nil}, `option 1 is nil: leave it out`},
		{[]scheduler.TaskOption{scheduler.Defer(scheduler.UntilToken)}, `defer without rate_limit: add a rate, as in "100/m"`},
		{[]scheduler.TaskOption{scheduler.Defer(scheduler.DeferSecond)}, `defer without rate_limit: add a rate, as in "100/m"`},
		{[]scheduler.TaskOption{scheduler.Burst(3)}, `burst without rate_limit: add a rate, as in "100/m"`},
		{[]scheduler.TaskOption{rate, scheduler.Defer("later")}, `defer "later": use "until_token" or leave it out`},
		{[]scheduler.TaskOption{scheduler.OnExcess("shed")}, `on_excess "shed": use "defer" or "drop"`},
		{[]scheduler.TaskOption{scheduler.OnExcess("")}, `on_excess "": use "defer" or "drop"`},
		{[]scheduler.TaskOption{scheduler.Queue("")}, `queue "": it is empty: use 1 to 255 bytes`},
		{[]scheduler.TaskOption{scheduler.Queue("a\x00")}, `queue "a\x00": it has the control character U+0000 at byte 1: leave it out`},
		{[]scheduler.TaskOption{scheduler.MaxRetries(-1)}, `max_retries -1: use 0 to 1000000`},
		{[]scheduler.TaskOption{scheduler.MaxRetries(1_000_001)}, `max_retries 1000001: use 0 to 1000000`},
		{[]scheduler.TaskOption{scheduler.Timeout(-1)}, `timeout -1ns: use 0 (none) or more`},
		{[]scheduler.TaskOption{scheduler.Backoff{Base: 1}}, `retry_backoff: base 1ns: use 1ms to 366 days`},
		{[]scheduler.TaskOption{scheduler.Backoff{Factor: 0.5}}, `retry_backoff: factor 0.5: use 1 or more, as in 2.0`},
		{[]scheduler.TaskOption{scheduler.Backoff{Factor: -1}}, `retry_backoff: factor -1: use 1 or more, as in 2.0`},
		{[]scheduler.TaskOption{scheduler.Backoff{Factor: math.NaN()}}, `retry_backoff: factor NaN: use 1 or more, as in 2.0`},
		{[]scheduler.TaskOption{scheduler.Backoff{Factor: math.Inf(1)}}, `retry_backoff: factor +Inf: use 1 or more, as in 2.0`},
		{[]scheduler.TaskOption{scheduler.Backoff{Base: time.Minute, Max: time.Second}}, `retry_backoff: max 1s: use the base (1m0s) or more, up to 366 days`},
		{[]scheduler.TaskOption{scheduler.Backoff{Max: 367 * 24 * time.Hour}}, `retry_backoff: max 8808h0m0s: use the base (1s) or more, up to 366 days`},
		{[]scheduler.TaskOption{scheduler.Backoff{Jitter: 1.1}}, `retry_backoff: jitter 1.1: use 0 to 1`},
		{[]scheduler.TaskOption{scheduler.Backoff{Jitter: math.NaN()}}, `retry_backoff: jitter NaN: use 0 to 1`},
		{[]scheduler.TaskOption{rate, scheduler.RateLimit("2/s")}, `rate_limit is given twice: keep one`},
		{[]scheduler.TaskOption{rate, scheduler.Burst(1), scheduler.Burst(1)}, `burst is given twice: keep one`},
		{[]scheduler.TaskOption{rate, scheduler.Defer(scheduler.UntilToken), scheduler.Defer(scheduler.UntilToken)}, `defer is given twice: keep one`},
		{[]scheduler.TaskOption{scheduler.Backoff{}, scheduler.Backoff{}}, `retry_backoff is given twice: keep one`},
		{[]scheduler.TaskOption{scheduler.Breaker{Failures: 1}, scheduler.Breaker{Failures: 2}}, `breaker is given twice: keep one`},
		// Every fault is told at once, each with its place.
		{[]scheduler.TaskOption{scheduler.RateLimit("x"), scheduler.MaxRetries(-1), scheduler.Backoff{Factor: 0.5, Jitter: 2}}, `max_retries -1: use 0 to 1000000
task "send_email": retry_backoff: factor 0.5: use 1 or more, as in 2.0
task "send_email": retry_backoff: jitter 2: use 0 to 1
task "send_email": rate_limit: rate "x": no "/": write a count and a period, as in "100/m"`},
	} {
		s, err := scheduler.New(client)
		require.NoError(t, err)
		require.EqualError(t, scheduler.Register(s, "send_email", nothing, c.opts...), `task "send_email": `+c.want)
		require.Empty(t, s.Describe(), "nothing is registered")
	}
	s, err := scheduler.New(client)
	require.NoError(t, err)
	err = scheduler.Register(s, "send_email", nothing, scheduler.RateLimit("100/mo"))
	var syntax *bucket.SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.ErrorIs(t, scheduler.Register(s, "a", nothing, scheduler.Queue("")), queue.ErrInvalid)
}

func TestARunWithNothingToRunIsRefused(t *testing.T) {
	s, err := scheduler.New(queuetest.Open(t))
	require.NoError(t, err)
	require.EqualError(t, s.Run(t.Context()), "scheduler: no task is registered, so nothing would ever run: call scheduler.Register before Run")
	require.NoError(t, s.Drain(t.Context()), "there is nothing to wait for")
}

func TestATaskIsRegisteredOnceAndBeforeTheRun(t *testing.T) {
	client := queuetest.Open(t)
	s, err := scheduler.New(client)
	require.NoError(t, err)
	require.EqualError(t, scheduler.Register[string](s, "a", nil), `task "a": its handler is nil`)
	require.EqualError(t, scheduler.Register(s, "", nothing), `task "": task "": it is empty: use 1 to 255 bytes`)
	require.NoError(t, scheduler.Register(s, "a", nothing))
	require.EqualError(t, scheduler.Register(s, "a", nothing), `task "a" is registered twice: keep one`)
	require.NoError(t, s.Drain(t.Context()))
	err = scheduler.Register(s, "b", nothing)
	require.EqualError(t, err, `task "b": the scheduler was started already: register tasks before Run`)
	require.ErrorIs(t, err, scheduler.ErrRunning)
	require.ErrorIs(t, s.Run(t.Context()), scheduler.ErrRunning)
}

func TestDescribeTellsHowTasksAreRun(t *testing.T) {
	client := queuetest.Open(t)
	s, err := scheduler.New(client)
	require.NoError(t, err)
	require.NoError(t, scheduler.Register(s, "plain", nothing))
	require.NoError(t, scheduler.Register(s, "full", nothing, scheduler.RateLimit(" 60 / 60s "), scheduler.Burst(5), scheduler.OnExcess(scheduler.Drop),
		scheduler.Queue("q"), scheduler.MaxRetries(0), scheduler.Timeout(time.Minute)))
	want := []scheduler.TaskInfo{
		{Name: "full", Queue: "q", RateLimit: "60/m", Burst: 5, OnExcess: scheduler.Drop, MaxRetries: 0, Timeout: time.Minute},
		{Name: "plain", Queue: "default", OnExcess: scheduler.Postpone, MaxRetries: 3},
	}
	require.Equal(t, want, s.Describe())
	require.NoError(t, s.Drain(t.Context()))
	tasks, err := client.Tasks(t.Context())
	require.NoError(t, err)
	require.Len(t, tasks, 2)
	require.Equal(t, "full", tasks[0].Name)
	require.JSONEq(t, `{"name":"full","queue":"q","rate_limit":"60/m","burst":5,"on_excess":"drop","max_retries":0,"timeout":60000000000}`, string(tasks[0].Definition))

	// Producers find the queue there.
	receipt, err := queue.Task[string]("full").Enqueue(t.Context(), client, "x")
	require.NoError(t, err)
	job, err := client.Get(t.Context(), receipt.ID)
	require.NoError(t, err)
	require.Equal(t, "q", job.Queue)
}

// Whatever the attempt, a delay is neither below the base nor above the
// ceiling, and none is shorter than the one before.
func TestNoBackOffOverflows(t *testing.T) {
	const year = 366 * 24 * time.Hour
	for _, base := range []time.Duration{time.Millisecond, time.Second, time.Hour, year} {
		for _, factor := range []float64{1, 1.0000001, 2, 10, 1e6, math.MaxFloat64} {
			for _, top := range []time.Duration{base, base + time.Second, year} {
				if top > year {
					continue
				}
				for _, jitter := range []float64{0, 0.1, 1} {
					b := scheduler.Backoff{Base: base, Factor: factor, Max: top, Jitter: jitter}
					last := time.Duration(0)
					for attempt := -1; attempt <= 200; attempt++ {
						for _, chance := range []float64{0, 0.5, 1} {
							d := b.Delay(attempt, chance)
							require.GreaterOrEqual(t, d, base, "%+v attempt %d", b, attempt)
							require.LessOrEqual(t, d, top, "%+v attempt %d", b, attempt)
						}
						plain := b.Delay(attempt, 0)
						require.GreaterOrEqual(t, plain, last, "%+v attempt %d", b, attempt)
						last = plain
					}
					for _, attempt := range []int{math.MaxInt32, math.MaxInt, math.MinInt} {
						require.GreaterOrEqual(t, b.Delay(attempt, 1), base)
						require.LessOrEqual(t, b.Delay(attempt, 1), top)
					}
				}
			}
		}
	}
	// What is left out has its default, and is not nothing.
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 12: 2048 * time.Second, 13: time.Hour, 200: time.Hour, math.MaxInt32: time.Hour} {
		require.Equal(t, want, scheduler.Backoff{}.Delay(attempt, 1), "attempt %d", attempt)
	}
	require.Equal(t, 2*time.Hour, scheduler.Backoff{Base: 2 * time.Hour}.Delay(9, 0), "a base over the default ceiling")
	b := scheduler.Backoff{Base: time.Second, Factor: 2, Max: time.Minute, Jitter: 0.5}
	require.Equal(t, time.Second, b.Delay(1, 0))
	require.Equal(t, 1500*time.Millisecond, b.Delay(1, 1))
	require.Equal(t, 8*time.Second, b.Delay(4, 0))
	require.Equal(t, 40*time.Second, b.Delay(100, 0), "the ceiling leaves room for the jitter")
	require.Equal(t, time.Minute, b.Delay(100, 1))
}

func TestJitterComesFromTheRandomSource(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.again(scheduler.Random(func() uint64 { return 1 << 63 })) // half of everything
		r.task("a", always, scheduler.Backoff{Base: 10 * time.Second, Jitter: 1})
		id := r.enqueue("a", []string{"x"})[0]
		r.at(0)
		require.Equal(t, epoch.Add(15*time.Second), r.get(id).RunAt.UTC())
	})
}
