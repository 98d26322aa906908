package scheduler_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
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
	os.Exit(storetest.Main(m))
}

// epoch is when the tests' clocks start.
var epoch = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rig is a scheduler under a clock that the test moves.
type rig struct {
	t      *testing.T
	db     storetest.Database
	faults *storetest.Faults
	clock  *clock.Fake
	client *queue.Client
	dead   *dlq.Letters
	s      *scheduler.Scheduler
	// strategy is that of schedulers that are given no other.
	strategy scheduler.StrategyName

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

// each runs do on both databases, beside other tests, with a rig whose scheduler
// has the options.
func each(t *testing.T, do func(*testing.T, *rig), opts ...scheduler.Option) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		do(t, newRig(t, db, clock.NewFake(epoch), opts...))
	})
}

// eachAlone is each while no other test runs, for one that counts goroutines.
func eachAlone(t *testing.T, do func(*testing.T, *rig), opts ...scheduler.Option) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		do(t, newRig(t, db, clock.NewFake(epoch), opts...))
	})
}

// eachStrategy runs do under both strategies on both databases: what it shows does
// not depend on how limits let jobs start.
func eachStrategy(t *testing.T, do func(*testing.T, *rig), opts ...scheduler.Option) {
	t.Helper()
	for _, name := range []scheduler.StrategyName{scheduler.TokenBucket, scheduler.FixedWindow} {
		t.Run(string(name), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.strategy = name
				do(t, r)
			}, append(slices.Clone(opts), scheduler.Strategy(name))...)
		})
	}
}

func newRig(t *testing.T, db storetest.Database, c *clock.Fake, opts ...scheduler.Option) *rig {
	t.Helper()
	r := &rig{t: t, db: db, faults: &storetest.Faults{}, clock: c}
	r.client = queue.From(db.Open(t, store.Options{Clock: c, Wrap: r.faults.Wrap}))
	r.dead = dlq.From(r.client)
	r.s = r.scheduler(opts...)
	return r
}

// scheduler makes another scheduler on the rig's client.
func (r *rig) scheduler(opts ...scheduler.Option) *scheduler.Scheduler {
	r.t.Helper()
	s, err := scheduler.New(r.client, append([]scheduler.Option{
		scheduler.Concurrency(2000), scheduler.Logger(slog.New(slog.DiscardHandler)), scheduler.Strategy(cmp.Or(r.strategy, scheduler.TokenBucket)),
	}, opts...)...)
	require.NoError(r.t, err)
	return s
}

// beside is another process on the same database, under the same clock.
func (r *rig) beside(opts ...scheduler.Option) *rig {
	r.t.Helper()
	return newRig(r.t, r.db, r.clock, append([]scheduler.Option{scheduler.Strategy(cmp.Or(r.strategy, scheduler.TokenBucket))}, opts...)...)
}

// again is what a restart makes of the rig: a scheduler that has registered
// nothing yet. The ledger stays.
func (r *rig) again(opts ...scheduler.Option) {
	r.t.Helper()
	r.s = r.scheduler(opts...)
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

// numbered are n arguments in ascending order.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%06d", i)
	}
	return out
}

// drain runs what may start now.
func (r *rig) drain() {
	r.t.Helper()
	require.NoError(r.t, r.s.Drain(r.t.Context()))
}

// ledger is what was started, in the order of the clock.
func (r *rig) ledger() []start {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.starts)
}

// tally counts the starts of a task.
func (r *rig) tally(task string) (n int) {
	for _, x := range r.ledger() {
		if x.task == task {
			n++
		}
	}
	return n
}

// get is a live or finished job.
func (r *rig) get(id string) *queue.JobInfo {
	r.t.Helper()
	job, err := r.client.Get(r.t.Context(), id)
	require.NoError(r.t, err)
	return job
}

// letter is the dead letter of a job, with its arguments.
func (r *rig) letter(jobID string) *dlq.Entry {
	r.t.Helper()
	e, err := r.dead.Get(r.t.Context(), jobID)
	require.NoError(r.t, err)
	return e
}

// letters are the dead letters, the latest first.
func (r *rig) letters() []dlq.Entry {
	r.t.Helper()
	var out []dlq.Entry
	for f := (dlq.Filter{Limit: dlq.LargestLimit}); ; {
		page, err := r.dead.List(r.t.Context(), f)
		require.NoError(r.t, err)
		out = append(out, page.Items...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return out
		}
	}
}

// jobs are the live and finished jobs in a state, the latest first.
func (r *rig) jobs(states ...queue.State) []queue.JobInfo {
	r.t.Helper()
	var out []queue.JobInfo
	for f := (queue.Filter{States: states, Limit: queue.LargestLimit}); ; {
		page, err := r.client.List(r.t.Context(), f)
		require.NoError(r.t, err)
		out = append(out, page.Items...)
		if f.Cursor = page.Next; f.Cursor == "" {
			return out
		}
	}
}

// conserved checks that of the jobs enqueued each is in exactly one place.
func (r *rig) conserved(enqueued int) {
	r.t.Helper()
	seen := map[string]bool{}
	for _, j := range r.jobs() {
		require.False(r.t, seen[j.ID], "job %s is in two places", j.ID)
		seen[j.ID] = true
	}
	for _, e := range r.letters() {
		require.False(r.t, seen[e.JobID], "job %s is in two places", e.JobID)
		seen[e.JobID] = true
	}
	require.Len(r.t, seen, enqueued)
}

// meddle writes into the database behind Weir's back: ? stands for an argument.
func (r *rig) meddle(statement string, args ...any) {
	r.t.Helper()
	res, err := r.db.SQL(r.t).ExecContext(r.t.Context(), sqlx.Rebind(sqlx.BindType(r.driver()), statement), args...)
	require.NoError(r.t, err)
	n, err := res.RowsAffected()
	require.NoError(r.t, err)
	require.Positive(r.t, n, "rows changed by %s", statement)
}

func (r *rig) driver() string {
	if r.db.Dialect == store.Postgres {
		return "postgres"
	}
	return "sqlite3"
}

// tokens is what a limit's row holds, in whole tokens and parts.
func (r *rig) tokens(name string) float64 {
	r.t.Helper()
	return float64(r.limit(name).Level) / float64(bucket.Token)
}

// heldFor is how long from now on a limit is on hold.
func (r *rig) heldFor(name string) time.Duration {
	r.t.Helper()
	return max(0, time.UnixMicro(r.limit(name).HeldUntil).Sub(r.clock.Now()))
}
