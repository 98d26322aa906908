package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

var quiet = scheduler.Logger(slog.New(slog.DiscardHandler))

// open opens a client until the test ends.
func open(t *testing.T, db storetest.Database, opts ...queue.Option) *queue.Client {
	t.Helper()
	client, err := queue.Open(context.WithoutCancel(t.Context()), db.DSN, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// overlap measures how many handlers run at once.
type overlap struct {
	mu           sync.Mutex
	running, top int
	total        int
}

func (o *overlap) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running++
	o.total++
	o.top = max(o.top, o.running)
}

func (o *overlap) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running--
}

func TestACapIsReachedAndNeverPassedOverTwoSchedulers(t *testing.T) {
	for name, c := range map[string]struct {
		most    int
		options []scheduler.Option
		task    []scheduler.TaskOption
	}{
		"one of a task":   {1, nil, []scheduler.TaskOption{scheduler.Cap(1)}},
		"two of a task":   {2, nil, []scheduler.TaskOption{scheduler.Cap(2)}},
		"five of a task":  {5, nil, []scheduler.TaskOption{scheduler.Cap(5)}},
		"two of a queue":  {2, []scheduler.Option{scheduler.QueueCap("q", 2)}, nil},
		"both, the lower": {2, []scheduler.Option{scheduler.QueueCap("q", 2)}, []scheduler.TaskOption{scheduler.Cap(4)}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				const jobs = 60
				ctx, stop := context.WithCancel(t.Context())
				var o overlap
				handler := func(context.Context, *queue.Job[string]) error {
					o.enter()
					defer o.leave()
					if o.mu.Lock(); o.total == jobs {
						defer stop()
					}
					o.mu.Unlock()
					wait, release := clock.System{}.Timer(2 * time.Millisecond)
					<-wait
					release()
					return nil
				}
				client := open(t, db)
				_, err := queue.Task[string]("a").EnqueueMany(ctx, client, make([]string, jobs), queue.Queue("q"))
				require.NoError(t, err)
				var both sync.WaitGroup
				for range 2 {
					s, err := scheduler.New(open(t, db), append([]scheduler.Option{quiet}, c.options...)...)
					require.NoError(t, err)
					require.NoError(t, scheduler.Register(s, "a", handler, c.task...))
					both.Go(func() { _ = s.Run(ctx) })
				}
				both.Wait()
				require.Equal(t, jobs, o.total)
				require.Equal(t, c.most, o.top)
			})
		})
	}
}

func TestAnOpenBreakerMakesJobsWaitAndProbesDecide(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		down := true
		r.task("a", func(*queue.Job[string]) error {
			if down {
				return errors.New("down")
			}
			return nil
		}, scheduler.RateLimit("1000/s"), scheduler.OnExcess(scheduler.Drop), scheduler.MaxRetries(0),
			scheduler.Breaker{Failures: 3, Window: time.Minute, Open: 30 * time.Second, Probes: 2}, scheduler.Cap(1))
		r.enqueue("a", numbered(100))

		r.at(0)
		require.Equal(t, 3, r.count(), "the third failure opens it")
		level := r.limit("task:a").Level

		r.at(29 * time.Second)
		require.Equal(t, 3, r.count())
		require.Equal(t, level, r.limit("task:a").Level, "waiting spends no token")

		r.at(30 * time.Second)
		require.Equal(t, 4, r.count(), "a probe fails and opens it again")

		down = false
		r.at(60 * time.Second)
		require.Equal(t, 100, r.count(), "a probe that succeeds closes it")
		stats, err := r.dead.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []dlq.Group{{Kind: dlq.Failed, Task: "a", Reason: "down", Count: 4}}, stats.Groups, "an open breaker sheds nothing")
	})
}

// An attempt from before the breaker opened takes no probe's place, and its
// end decides nothing.
func TestOnlyProbesCountAsProbes(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s := r.stuck("a", scheduler.MaxRetries(0), scheduler.Breaker{Failures: 1, Window: time.Minute, Open: 30 * time.Second, Probes: 2})
		r.enqueue("a", numbered(2))
		stop, done := r.serve()
		<-s.begun
		<-s.begun
		s.answer <- errors.New("down") // one fails and opens it, the other goes on
		require.Eventually(t, func() bool { return len(r.letters()) == 1 }, time.Minute, time.Millisecond)
		r.enqueue("a", numbered(5))
		for range 2 {
			until(r, time.Second, s.begun)
		}
		require.GreaterOrEqual(t, r.clock.Now().Sub(epoch), 30*time.Second)
		r.clock.Advance(10 * time.Second)
		s.answer <- nil // the one from before, or a probe: all wait alike
		stop()
		for range 2 {
			s.answer <- nil
		}
		require.NoError(t, <-done)
		require.Empty(t, s.begun, "no third probe")
	})
}
