package dlq_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(victimEnv); dsn != "" {
		fmt.Fprintln(os.Stderr, victim(dsn))
		return
	}
	os.Exit(storetest.Main(m))
}

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// bundle is a database with dead letters and what is needed to make more.
type bundle struct {
	*dlq.Letters
	client *queue.Client
	db     storetest.Database
	clock  *queuetest.Clock
	claim  int64
}

// each runs do on both databases.
func each(t *testing.T, do func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := &bundle{db: db, clock: queuetest.NewClock(start)}
		var err error
		db.Prepare(t)
		b.client, err = queue.Open(t.Context(), db.DSN, queue.WithClock(b.clock))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.client.Close()) })
		b.Letters = dlq.From(b.client)
		do(t, b)
	})
}

// verdict starts the first jobs of a line, or sheds them.
type verdict struct {
	store.Line
	shed string // the reason; empty: they start
}

func (v verdict) Ask(int64, store.Locked) []store.Ask {
	return []store.Ask{{Line: v.Line, Max: 10_000}}
}

func (v verdict) Decide(read [][]store.Candidate) store.Plan {
	var p store.Plan
	for _, c := range read[0] {
		if v.shed != "" {
			p.Shed = append(p.Shed, store.Shed{ID: c.ID, Reason: v.shed})
		} else {
			p.Start = append(p.Start, c.ID)
		}
	}
	return p
}

func (b *bundle) enqueue(t *testing.T, jobs ...queue.NewJob) []string {
	t.Helper()
	receipts, err := b.client.EnqueueMany(t.Context(), jobs)
	require.NoError(t, err)
	ids := make([]string, len(receipts))
	for i, r := range receipts {
		require.False(t, r.Duplicate)
		ids[i] = r.ID
	}
	return ids
}

// turn gives a verdict on the waiting jobs of a task in queue "default".
func (b *bundle) turn(t *testing.T, task, shed string) []store.Job {
	t.Helper()
	b.claim++
	out, err := b.client.Store().Turn(t.Context(), store.TurnRequest{
		Sweep: true, Claim: b.claim, Lease: time.Minute, Admit: verdict{store.Line{Task: task, Queue: "default"}, shed},
	})
	require.NoError(t, err)
	return out.Started
}

// fail lets the waiting jobs of a task start and end for good.
func (b *bundle) fail(t *testing.T, task, reason string) {
	t.Helper()
	var results []store.Result
	for _, j := range b.turn(t, task, "") {
		results = append(results, store.Result{
			ID: j.ID, UID: j.UID, Claim: j.Claim.Int64, Outcome: store.Dead, Reason: reason,
			Errors: store.AppendError(j.Errors.String, store.AttemptError{Attempt: j.Attempt, At: b.clock.Now().UnixMicro(), Error: reason}),
		})
	}
	_, err := b.client.Store().Turn(t.Context(), store.TurnRequest{Results: results})
	require.NoError(t, err)
}

// dead makes dead letters of new jobs of a task and returns the jobs' ids.
func (b *bundle) dead(t *testing.T, kind dlq.Kind, task string, n int) []string {
	t.Helper()
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		jobs[i] = queue.NewJob{Task: task, Args: fmt.Append(nil, i)}
	}
	ids := b.enqueue(t, jobs...)
	if kind == dlq.Shed {
		b.turn(t, task, "rate_limit: task:"+task+" 1/m")
	} else {
		b.fail(t, task, "no such host")
	}
	return ids
}

// register declares a task, its limit and that of its queue.
func (b *bundle) register(t *testing.T, task, definition string) {
	t.Helper()
	limit := func(name, rate string, covers store.Declared) store.Declared {
		l, err := bucket.NewLimit(rate, 0)
		require.NoError(t, err)
		covers.Name, covers.Limit = name, l
		return covers
	}
	require.NoError(t, b.client.Store().Register(t.Context(),
		[]store.Task{{Name: task, Queue: "default", MaxRetries: 3, Definition: definition}},
		[]store.Declared{limit("task:"+task, "1/m", store.Declared{Tasks: []string{task}}), limit("queue:default", "5/s", store.Declared{Queues: []string{"default"}})}))
}

// all lists dead letters, page by page.
func (b *bundle) all(t *testing.T, f dlq.Filter) []dlq.Entry {
	t.Helper()
	var items []dlq.Entry
	for {
		page, err := b.List(t.Context(), f)
		require.NoError(t, err)
		items = append(items, page.Items...)
		if f.Cursor = page.Next; page.Next == "" {
			return items
		}
	}
}

// pending lists the jobs that wait of task "a".
func (b *bundle) pending(t *testing.T) []queue.JobInfo {
	t.Helper()
	page, err := b.client.List(t.Context(), queue.Filter{Task: "a", States: []queue.State{queue.StatePending}, Limit: queue.LargestLimit})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	return page.Items
}

func jobsOf(entries []dlq.Entry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.JobID
	}
	return ids
}

// another is an empty database of the same kind.
func another(t *testing.T, db storetest.Database) storetest.Database {
	t.Helper()
	if db.Dialect == store.SQLite {
		return storetest.SQLite(t)
	}
	return storetest.Postgres(t)
}
