package scheduler_test

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	code := storetest.Announce(m.Run())
	if code == 0 {
		if err := goleak.Find(); err != nil {
			slog.Error("goroutines are left", "error", err)
			code = 1
		}
	}
	os.Exit(code)
}

// epoch is when the tests' clocks start.
var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rig is a scheduler under a clock that the test moves.
type rig struct {
	t      *testing.T
	clock  *clock.Fake
	client *queue.Client
	dead   *dlq.Letters
	s      *scheduler.Scheduler

	mu     sync.Mutex
	starts []start
}

// start is a line of the ledger that handlers keep.
type start struct {
	at      time.Duration // since the epoch
	task    string
	args    string
	attempt int
}

// each runs do on both databases, with a rig whose scheduler has the options.
func each(t *testing.T, do func(*rig), opts ...scheduler.Option) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		do(newRig(t, db, clock.NewFake(epoch), opts...))
	})
}

func newRig(t *testing.T, db storetest.Database, c *clock.Fake, opts ...scheduler.Option) *rig {
	t.Helper()
	client, err := queue.Open(t.Context(), db.DSN, queue.WithClock(c))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	s, err := scheduler.New(client, append([]scheduler.Option{
		scheduler.Concurrency(2000), scheduler.Logger(slog.New(slog.DiscardHandler)),
	}, opts...)...)
	require.NoError(t, err)
	return &rig{t: t, clock: c, client: client, dead: dlq.From(client), s: s}
}

// task registers a task whose handler writes the ledger and then does do.
func (r *rig) task(name string, do func(*queue.Job[string]) error, opts ...scheduler.TaskOption) {
	r.t.Helper()
	handler := func(_ context.Context, job *queue.Job[string]) error {
		r.mu.Lock()
		r.starts = append(r.starts, start{r.clock.Now().Sub(epoch), job.Task, job.Args, job.Attempt})
		r.mu.Unlock()
		if do == nil {
			return nil
		}
		return do(job)
	}
	require.NoError(r.t, scheduler.Register(r.s, queue.Task[string](name), handler, opts...))
}

// enqueue adds jobs with these arguments, in this order.
func (r *rig) enqueue(task string, args []string, opts ...queue.EnqueueOption) []string {
	r.t.Helper()
	receipts, err := queue.Task[string](task).EnqueueMany(r.t.Context(), r.client, args, opts...)
	require.NoError(r.t, err)
	ids := make([]string, len(receipts))
	for i, x := range receipts {
		ids[i] = x.ID
	}
	return ids
}

// at moves the clock to a time after the epoch and runs what may start then.
func (r *rig) at(d time.Duration) {
	r.t.Helper()
	r.clock.Advance(d - r.clock.Now().Sub(epoch))
	require.NoError(r.t, r.s.Drain(r.t.Context()))
}

// started lists the arguments of what was started at a time.
func (r *rig) started(at time.Duration) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []string{}
	for _, x := range r.starts {
		if x.at == at {
			out = append(out, x.args)
		}
	}
	return out
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.starts)
}

// limit is a limit's row.
func (r *rig) limit(name string) store.Limit {
	r.t.Helper()
	rows, err := r.client.Store().Limits(r.t.Context())
	require.NoError(r.t, err)
	for _, row := range rows {
		if row.Name == name {
			return row
		}
	}
	r.t.Fatalf("no limit %q", name)
	return store.Limit{}
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
	}
	return out
}
