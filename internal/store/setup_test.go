package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

const second = int64(time.Second / time.Microsecond)

// lease is how long the tests' grants last.
const lease = 30 * time.Second

// How long a condition is waited for that comes at once unless all is lost,
// and how often it is looked at.
const (
	waitFor = 10 * time.Second
	tick    = time.Millisecond
)

// bundle is an open store under a clock that the test moves, and its database
// beside it.
type bundle struct {
	*store.Store
	clock  *clock.Fake
	db     storetest.Database
	beside *sql.DB
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// setup gives a test empty tables. PostgreSQL's take a while to make, so tests
// that leave nothing but rows behind have them one after the other.
func setup(t testing.TB, db storetest.Database) *bundle {
	t.Helper()
	if db.Dialect == store.Postgres {
		return sharedPostgres(t, db)
	}
	b := &bundle{clock: clock.NewFake(noon), db: db.Hasty(t), beside: db.SQL(t)}
	b.Store = b.db.Open(t, store.Options{Clock: b.clock})
	return b
}

// open gives a test empty tables and a store of its own on them.
func open(t testing.TB, db storetest.Database, opts store.Options) *store.Store {
	t.Helper()
	return setup(t, db).db.Open(t, opts)
}

var shared *bundle

func sharedPostgres(t testing.TB, db storetest.Database) *bundle {
	t.Helper()
	if shared == nil {
		b := &bundle{clock: clock.NewFake(noon), db: db.Kept(t).Hasty(t)}
		var err error
		b.Store, err = store.Open(context.Background(), b.db.DSN, store.Options{Clock: b.clock, Migrate: true})
		require.NoError(t, err)
		b.beside = b.db.OpenSQL(t)
		shared = b
	}
	shared.exec(t, `delete from weir_jobs; delete from weir_history; delete from weir_dead; delete from weir_limits;
delete from weir_tasks; delete from weir_queues; delete from weir_gates; delete from weir_schedules;
delete from weir_dead_counts; delete from weir_dead_hours; delete from weir_dead_removed; delete from weir_audit; delete from weir_settings; delete from weir_processes`)
	for !shared.clock.Now().Equal(noon) { // a Duration spans 292 years
		shared.clock.Advance(noon.Sub(shared.clock.Now()))
	}
	return shared
}

// closeShared leaves nothing behind on the server.
func closeShared() {
	if shared == nil {
		return
	}
	_ = shared.Close()
	_, err := shared.beside.ExecContext(context.Background(), `do $$ begin execute format('drop schema %I cascade', current_schema()); end $$`)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = shared.beside.Close()
}

// now is the clock's time as the store has it.
func (b *bundle) now() int64 { return b.clock.Now().UnixMicro() }

// count asks the database beside.
func (b *bundle) count(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, b.beside.QueryRowContext(t.Context(), query, args...).Scan(&n))
	return n
}

func (b *bundle) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := b.beside.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

// stored is the live or finished job of that id, which must be there.
func (b *bundle) stored(t testing.TB, uid string) store.Job {
	t.Helper()
	j, found, err := b.Get(t.Context(), uid)
	require.NoError(t, err)
	require.True(t, found, "job %s", uid)
	return j
}

// dead is the dead letter of that job, which must be there.
func (b *bundle) dead(t testing.TB, uid string) store.DeadLetter {
	t.Helper()
	d, found, err := b.GetDeadByJob(t.Context(), uid)
	require.NoError(t, err)
	require.True(t, found, "dead letter of job %s", uid)
	return d
}

// requireOnce fails unless the job is in exactly one table.
func (b *bundle) requireOnce(t testing.TB, uid string) {
	t.Helper()
	n := b.count(t, `select (select count(*) from weir_jobs where uid = $1) + (select count(*) from weir_history where uid = $1)
		+ (select count(*) from weir_dead where job_id = $1)`, uid)
	require.EqualValues(t, 1, n, "job %s", uid)
}

// insert stores jobs and returns their ids.
func (b *bundle) insert(t testing.TB, jobs ...store.NewJob) []string {
	t.Helper()
	out, err := b.Insert(t.Context(), jobs)
	require.NoError(t, err)
	uids := make([]string, len(jobs))
	for i, r := range out {
		require.Equal(t, store.Inserted{UID: jobs[i].UID}, r)
		uids[i] = r.UID
		if jobs[i].Metadata == fullMetadata {
			b.exec(t, `update weir_jobs set replay_of = uid, replays = 1 where uid = $1`, r.UID)
		}
	}
	return uids
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func newJob(task string) store.NewJob {
	return store.NewJob{UID: newID(), Task: task, Queue: "q", Args: []byte(`{}`)}
}

func newJobs(task string, n int) []store.NewJob {
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob(task)
	}
	return jobs
}

// ask reads up to max of the jobs of a task in queue q.
func ask(task string, limit int) store.Ask {
	return store.Ask{Line: store.Line{Task: task, Queue: "q"}, Max: limit}
}

// admission is one that a test makes up.
type admission struct {
	asks   []store.Ask
	decide func(read [][]store.Candidate) store.Plan

	now    int64 // what Ask got
	limits []store.Limit
	read   [][]store.Candidate
}

func (a *admission) Ask(now int64, locked store.Locked) []store.Ask {
	limits := locked.Limits
	a.now, a.limits = now, limits
	return a.asks
}

func (a *admission) Decide(read [][]store.Candidate) store.Plan {
	a.read = read
	if a.decide == nil {
		return store.Plan{}
	}
	return a.decide(read)
}

// startAll starts whatever was read.
func startAll(read [][]store.Candidate) (p store.Plan) {
	for _, line := range read {
		p.Start = append(p.Start, ids(line)...)
	}
	return p
}

func ids(line []store.Candidate) []int64 {
	out := make([]int64, len(line))
	for i, c := range line {
		out[i] = c.ID
	}
	return out
}

func (b *bundle) turn(t testing.TB, req store.TurnRequest) store.TurnResult {
	t.Helper()
	if req.Lease == 0 {
		req.Lease = lease
	}
	out, err := b.Turn(t.Context(), req)
	require.NoError(t, err)
	return out
}

// grant starts up to n jobs of a task.
func (b *bundle) grant(t testing.TB, claim int64, task string, n int) []store.Job {
	t.Helper()
	return b.turn(t, store.TurnRequest{Claim: claim, Admit: &admission{asks: []store.Ask{ask(task, n)}, decide: startAll}}).Started
}

// running stores a job and starts it.
func (b *bundle) running(t testing.TB, claim int64, job store.NewJob) store.Job {
	t.Helper()
	b.insert(t, job)
	started := b.grant(t, claim, job.Task, 1)
	require.Len(t, started, 1)
	return started[0]
}

// end is the end of an attempt.
func end(j store.Job, outcome store.Outcome) store.Result {
	return store.Result{ID: j.ID, Claim: j.Claim.Int64, UID: j.UID, Outcome: outcome}
}

func limit(t testing.TB, rate string) bucket.Limit {
	t.Helper()
	l, err := bucket.NewLimit(rate, 0)
	require.NoError(t, err)
	return l
}

// blocked waits until n statements on Weir's tables wait for a lock
// (PostgreSQL).
func (b *bundle) blocked(t testing.TB, n int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		return b.count(t, `select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%'`, b.schema(t)) >= n
	}, waitFor, tick)
}

func (b *bundle) schema(t testing.TB) (name string) {
	t.Helper()
	require.NoError(t, b.beside.QueryRowContext(context.Background(), `select current_schema()`).Scan(&name))
	return name
}

var (
	noNumber sql.NullInt64
	noText   sql.NullString
)

func number(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: true} }
func text(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
