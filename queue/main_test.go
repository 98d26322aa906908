package queue_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// bundle is an empty database with a client and a clock that stands still.
type bundle struct {
	*queue.Client
	db    storetest.Database
	clock *queuetest.Clock
	claim int64
}

// each runs do on both databases.
func each(t *testing.T, do func(t *testing.T, b *bundle)) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		do(t, newBundle(t, db))
	})
}

func newBundle(t *testing.T, db storetest.Database) *bundle {
	t.Helper()
	b := &bundle{db: db, clock: queuetest.NewClock(start)}
	b.Client = open(t, db, queue.WithClock(b.clock))
	return b
}

func open(t testing.TB, db storetest.Database, opts ...queue.Option) *queue.Client {
	t.Helper()
	db.Prepare(t)
	c, err := queue.Open(t.Context(), db.DSN, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// line starts the first jobs of a line, as a scheduler does.
type line struct {
	store.Line
	max int
}

func (l line) Ask(int64, store.Locked) []store.Ask { return []store.Ask{{Line: l.Line, Max: l.max}} }

func (line) Decide(read [][]store.Candidate) store.Plan {
	var p store.Plan
	for _, c := range read[0] {
		p.Start = append(p.Start, c.ID)
	}
	return p
}

// start starts up to 1,000 waiting jobs of a task in a queue.
func (b *bundle) start(t *testing.T, task, inQueue string) []store.Job {
	t.Helper()
	b.claim++
	out, err := b.Store().Turn(t.Context(), store.TurnRequest{
		Sweep: true, Claim: b.claim, Lease: time.Minute, Admit: line{store.Line{Task: task, Queue: inQueue}, 1000},
	})
	require.NoError(t, err)
	return out.Started
}

// finish reports the outcome of jobs that were started.
func (b *bundle) finish(t *testing.T, jobs []store.Job, outcome store.Outcome, reason string) {
	t.Helper()
	results := make([]store.Result, len(jobs))
	for i, j := range jobs {
		results[i] = store.Result{ID: j.ID, UID: j.UID, Claim: j.Claim.Int64, Outcome: outcome, Reason: reason}
		if reason != "" {
			results[i].Errors = store.AppendError(j.Errors.String, store.AttemptError{Attempt: j.Attempt, At: b.clock.Now().UnixMicro(), Error: reason})
		}
	}
	out, err := b.Store().Turn(t.Context(), store.TurnRequest{Results: results})
	require.NoError(t, err)
	require.Empty(t, out.Refused)
}

// get returns a job that must be there.
func (b *bundle) get(t *testing.T, id string) *queue.JobInfo {
	t.Helper()
	info, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	return info
}

// all lists every job, page by page.
func (b *bundle) all(t *testing.T, f queue.Filter) []queue.JobInfo {
	t.Helper()
	var items []queue.JobInfo
	for {
		page, err := b.List(t.Context(), f)
		require.NoError(t, err)
		items = append(items, page.Items...)
		if f.Cursor = page.Next; page.Next == "" {
			return items
		}
	}
}
