package store_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// TestTheLifeOfJobsFollowsTheModelOnBothDatabases walks random histories of
// jobs: enqueues, starts, ends of every kind, processes that vanish, leases
// that run out, replies to commits that get lost, clocks that step, and
// cancellations. After each step SQLite, PostgreSQL and a model in memory hold
// the same jobs in the same places.
func TestTheLifeOfJobsFollowsTheModelOnBothDatabases(t *testing.T) {
	histories := flag.Lookup("rapid.checks")
	if before := histories.Value.String(); before == "100" { // rapid's own default
		require.NoError(t, flag.Set("rapid.checks", "200"))
		defer func() { require.NoError(t, flag.Set("rapid.checks", before)) }()
	}
	for name, database := range map[string]func(testing.TB) storetest.Database{"sqlite": storetest.SQLite, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			w := newModelWorld(t, database(t))
			rapid.Check(t, func(rt *rapid.T) { w.history(rt) })
		})
	}
}

// modelJob is a job as the model sees it.
type modelJob struct {
	uid, task, key             string
	order                      int // of arrival
	place                      string
	rank                       int
	state                      store.State
	firstDue, runAt            int64
	expiresAt                  int64 // 0: none
	startedAt, leaseUntil      int64 // 0: none
	claim                      int64
	attempt, givenBack, errors int
	deferrals                  int64
	maxRetries                 int
	reason                     string
}

func (j *modelJob) live() bool { return j.place == "jobs" }

// modelWorld is a database and the model beside it.
type modelWorld struct {
	t      *testing.T
	store  *store.Store
	raw    *sql.DB
	faults *storetest.Faults
	clock  *clock.Fake

	jobs  []*modelJob
	claim int64
	held  []heldByProcess // what a living process believes it holds
}

type heldByProcess struct {
	job   *modelJob
	row   store.Job
	claim int64
}

const modelLease = 10 * time.Second

func newModelWorld(t *testing.T, db storetest.Database) *modelWorld {
	t.Helper()
	raw := db.SQL(t)
	db = db.Hasty(t)
	w := &modelWorld{t: t, raw: raw, faults: &storetest.Faults{}, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	w.store = db.Open(t, store.Options{Clock: w.clock, Wrap: w.faults.Wrap})
	require.NoError(t, w.store.Register(t.Context(), []store.Task{{Name: "a", Queue: "q", MaxRetries: 2, Definition: "{}"}, {Name: "b", Queue: "q", MaxRetries: 0, Definition: "{}"}}, nil))
	return w
}

func (w *modelWorld) now() int64 { return w.clock.Now().UnixMicro() }

func (w *modelWorld) history(rt *rapid.T) {
	for _, table := range []string{"weir_jobs", "weir_history", "weir_dead"} {
		_, err := w.raw.ExecContext(context.Background(), "delete from "+table)
		require.NoError(rt, err)
	}
	w.jobs, w.held = nil, nil
	steps := []struct {
		name string
		do   func(*rapid.T)
	}{
		{"enqueue", w.enqueue},
		{"enqueue", w.enqueue},
		{"start", w.start},
		{"start", w.start},
		{"finish", w.finish},
		{"finish", w.finish},
		{"kill", w.kill},
		{"clock", w.stepClock},
		{"sweep", w.sweep},
		{"renew", w.renew},
		{"cancel", w.cancel},
		{"shed", w.shed},
		{"defer", w.putOff},
	}
	for range rapid.IntRange(5, 40).Draw(rt, "steps") {
		step := rapid.SampledFrom(steps).Draw(rt, "step")
		step.do(rt)
		require.Equal(rt, w.expected(), w.stored(rt), "after %s", step.name)
	}
}

// replyLost draws whether the reply to a commit is lost. It is seldom: on
// PostgreSQL that costs a new connection, which is cold for a while.
func replyLost(rt *rapid.T) bool { return rapid.IntRange(0, 7).Draw(rt, "reply, lost at 7") == 7 }

// enqueue adds a job, or repeats an enqueue whose reply was lost.
func (w *modelWorld) enqueue(rt *rapid.T) {
	job := store.NewJob{
		UID: newID(), Task: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "task"), Args: []byte("{}"),
		Priority:  rapid.IntRange(-1, 1).Draw(rt, "priority"),
		Delay:     rapid.SampledFrom([]int64{0, 0, 5_000_000}).Draw(rt, "delay"),
		ExpiresIn: rapid.SampledFrom([]int64{0, 0, 8_000_000}).Draw(rt, "expires in"),
		UniqueKey: rapid.SampledFrom([]string{"", "", "k"}).Draw(rt, "key"),
	}
	if lost := replyLost(rt); lost {
		w.faults.LoseReply(`insert into \S*weir_jobs`, 1)
		_, err := w.store.Insert(context.Background(), []store.NewJob{job})
		require.ErrorIs(rt, err, store.ErrOutcomeUnknown)
		job.Repeat = true
	}
	out, err := w.store.Insert(context.Background(), []store.NewJob{job})
	require.NoError(rt, err)
	for _, other := range w.jobs {
		if other.live() && other.task == job.Task && job.UniqueKey != "" && other.key == job.UniqueKey {
			require.Equal(rt, store.Inserted{UID: other.uid, Duplicate: true}, out[0])
			return
		}
	}
	require.Equal(rt, store.Inserted{UID: job.UID, Existed: job.Repeat}, out[0])
	j := &modelJob{
		uid: job.UID, task: job.Task, key: job.UniqueKey, order: len(w.jobs), place: "jobs", rank: -job.Priority,
		firstDue: w.now() + job.Delay, runAt: w.now() + job.Delay, maxRetries: map[string]int{"a": 2, "b": 0}[job.Task],
	}
	if job.Delay > 0 {
		j.state = store.Scheduled
	}
	if job.ExpiresIn > 0 {
		j.expiresAt = w.now() + job.ExpiresIn
	}
	w.jobs = append(w.jobs, j)
}

// line lists the jobs of a task that may start, in order.
func (w *modelWorld) line(task string) []*modelJob {
	var out []*modelJob
	for _, j := range w.jobs {
		if j.live() && j.state == store.Waiting && j.task == task && (j.expiresAt == 0 || j.expiresAt > w.now() || j.startedAt != 0) {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.firstDue, b.firstDue), cmp.Compare(a.order, b.order))
	})
	return out
}

// read lists the candidates of a task in a turn that does nothing else.
func (w *modelWorld) turn(rt *rapid.T, task string, limit int, decide func([]store.Candidate) store.Plan) (store.TurnResult, []*modelJob, error) {
	want := w.line(task)
	if len(want) > limit {
		want = want[:limit]
	}
	w.claim++
	a := &admission{asks: []store.Ask{ask(task, limit)}, decide: func(read [][]store.Candidate) store.Plan {
		require.Len(rt, read[0], len(want))
		for i, c := range read[0] {
			require.Equal(rt, want[i].firstDue, c.FirstDue)
			require.Equal(rt, want[i].startedAt != 0, c.Granted)
		}
		return decide(read[0])
	}}
	out, err := w.store.Turn(context.Background(), store.TurnRequest{Claim: w.claim, Lease: modelLease, Admit: a})
	return out, want, err
}

// start starts the first jobs of a task; the reply may get lost.
func (w *modelWorld) start(rt *rapid.T) {
	task := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "task")
	limit := rapid.IntRange(1, 3).Draw(rt, "most")
	lost := len(w.line(task)) > 0 && replyLost(rt)
	if lost {
		w.faults.LoseReply(`update \S*weir_jobs set state = 1`, 1)
	}
	out, jobs, err := w.turn(rt, task, limit, func(read []store.Candidate) store.Plan { return store.Plan{Start: ids(read)} })
	rows := out.Started
	if lost {
		require.ErrorIs(rt, err, store.ErrOutcomeUnknown)
		rows, err = w.store.Claimed(context.Background(), w.claim)
	}
	require.NoError(rt, err)
	require.Len(rt, rows, len(jobs))
	for _, j := range jobs {
		j.state, j.startedAt, j.leaseUntil, j.claim = store.Running, w.now(), w.now()+modelLease.Microseconds(), w.claim
		j.attempt++
		i := slices.IndexFunc(rows, func(r store.Job) bool { return r.UID == j.uid })
		require.GreaterOrEqual(rt, i, 0)
		require.Equal(rt, j.attempt, rows[i].Attempt)
		w.held = append(w.held, heldByProcess{j, rows[i], w.claim})
	}
}

// finish reports an attempt's end, timely or late, once or twice.
func (w *modelWorld) finish(rt *rapid.T) {
	if len(w.held) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(rt, "which")
	h := w.held[i]
	w.held = slices.Delete(w.held, i, i+1)
	r := store.Result{ID: h.row.ID, UID: h.row.UID, Claim: h.claim, Reason: "why"}
	r.Outcome = rapid.SampledFrom([]store.Outcome{store.Done, store.Done, store.Dead, store.Retry, store.GiveBack, store.Interrupted}).Draw(rt, "outcome")
	if r.Outcome == store.Retry {
		r.Delay = rapid.SampledFrom([]int64{0, 3_000_000}).Draw(rt, "back-off")
	}
	if r.Outcome == store.Retry || r.Outcome == store.Dead {
		r.Errors = store.AppendError(h.row.Errors.String, store.AttemptError{Attempt: h.row.Attempt, At: w.now(), Error: "why"})
	}
	if replyLost(rt) {
		w.faults.LoseReply(`weir_jobs`, 1)
		_, err := w.store.Turn(context.Background(), store.TurnRequest{Results: []store.Result{r}})
		require.ErrorIs(rt, err, store.ErrOutcomeUnknown)
	}
	out, err := w.store.Turn(context.Background(), store.TurnRequest{Results: []store.Result{r}})
	require.NoError(rt, err)
	j := h.job
	if !j.live() || j.state != store.Running || j.claim != h.claim {
		require.Len(rt, out.Refused, 1, "it came late")
		return
	}
	require.Empty(rt, out.Refused)
	j.leaseUntil = 0
	switch r.Outcome {
	case store.Done:
		j.place, j.state = "history", store.Completed
	case store.Dead:
		j.place, j.reason, j.errors = "dead", "failed: why", j.errors+1
	case store.Retry:
		j.errors++
		j.state, j.runAt, j.firstDue = store.Waiting, w.now()+r.Delay, w.now()+r.Delay
		if r.Delay > 0 {
			j.state = store.Scheduled
		}
	case store.GiveBack:
		j.state, j.runAt, j.attempt = store.Waiting, w.now(), j.attempt-1
	case store.Interrupted:
		j.state, j.runAt, j.givenBack = store.Waiting, w.now(), j.givenBack+1
	default:
	}
}

// kill forgets what a process held: it is gone, or thinks it still holds it.
func (w *modelWorld) kill(*rapid.T) { w.held = nil }

func (w *modelWorld) stepClock(rt *rapid.T) {
	w.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 1000, 4000, 11_000, -500, -20_000}).Draw(rt, "ms")) * time.Millisecond)
}

// sweep ends what expired, and brings back what is due or lost its lease.
func (w *modelWorld) sweep(rt *rapid.T) {
	out, err := w.store.Turn(context.Background(), store.TurnRequest{Sweep: true})
	require.NoError(rt, err)
	var promoted, lost, dead, expired int
	for _, j := range w.jobs {
		switch {
		case !j.live():
		case j.state != store.Running && j.startedAt == 0 && j.expiresAt != 0 && j.expiresAt <= w.now():
			at := time.UnixMicro(j.expiresAt).UTC().Format("2006-01-02T15:04:05Z")
			j.place, j.reason = "dead", "expired: expired: not started by "+at
			expired++
		case j.state == store.Scheduled && j.runAt <= w.now():
			j.state = store.Waiting
			promoted++
		case j.state == store.Running && j.leaseUntil <= w.now():
			j.errors++
			j.claim, j.leaseUntil = 0, 0
			if j.attempt-j.givenBack > j.maxRetries {
				j.place, j.reason = "dead", "failed: lease lost"
				dead++
			} else {
				j.state, j.runAt = store.Waiting, w.now()
				lost++
			}
		}
	}
	require.Equal(rt, []int{promoted, lost, dead, expired}, []int{out.Swept.Promoted, out.Swept.Lost, len(out.Swept.Dead), out.Swept.Expired})
}

// renew extends what the process holds, and tells it what it lost.
func (w *modelWorld) renew(rt *rapid.T) {
	if len(w.held) == 0 {
		return
	}
	names := make([]store.Held, len(w.held))
	for i, h := range w.held {
		names[i] = store.Held{ID: h.row.ID, Claim: h.claim}
	}
	kept, err := w.store.Renew(context.Background(), names, modelLease.Microseconds())
	require.NoError(rt, err)
	for _, h := range w.held {
		j := h.job
		mine := j.live() && j.state == store.Running && j.claim == h.claim
		young := j.leaseUntil >= w.now()+modelLease.Microseconds()*3/4 && j.leaseUntil <= w.now()+modelLease.Microseconds()
		if mine && !young {
			j.leaseUntil = w.now() + modelLease.Microseconds()
		}
		left, still := kept[store.Held{ID: h.row.ID, Claim: h.claim}]
		require.Equal(rt, mine, still)
		if mine {
			require.Equal(rt, j.leaseUntil-w.now(), left)
		}
	}
}

func (w *modelWorld) cancel(rt *rapid.T) {
	if len(w.jobs) == 0 {
		return
	}
	j := rapid.SampledFrom(w.jobs).Draw(rt, "job")
	if replyLost(rt) && j.live() {
		w.faults.LoseReply(`weir_history`, 1)
		_, err := w.store.Cancel(context.Background(), j.uid)
		require.ErrorIs(rt, err, store.ErrOutcomeUnknown)
		j.cancel()
	}
	found, err := w.store.Cancel(context.Background(), j.uid)
	require.NoError(rt, err)
	require.Equal(rt, j.live(), found)
	if found {
		j.cancel()
	}
}

func (j *modelJob) cancel() {
	j.place, j.state, j.claim, j.leaseUntil = "history", store.Cancelled, 0, 0
}

func (w *modelWorld) shed(rt *rapid.T) {
	_, jobs, err := w.turn(rt, "b", 2, func(read []store.Candidate) (p store.Plan) {
		for _, c := range read {
			p.Shed = append(p.Shed, store.Shed{ID: c.ID, Reason: "rate_limit: x"})
		}
		return p
	})
	require.NoError(rt, err)
	for _, j := range jobs {
		j.place, j.reason = "dead", "shed: rate_limit: x"
	}
}

func (w *modelWorld) putOff(rt *rapid.T) {
	_, jobs, err := w.turn(rt, "a", 2, func(read []store.Candidate) store.Plan { return store.Plan{Defer: ids(read)} })
	require.NoError(rt, err)
	for _, j := range jobs {
		j.runAt = w.now() + store.DeferFor.Microseconds()
		j.deferrals++
	}
}

// expected lists the model's jobs as stored does.
func (w *modelWorld) expected() []string {
	out := []string{}
	for _, j := range w.jobs {
		line := fmt.Sprintf("%s %s attempt=%d deferrals=%d due=%d started=%d errors=%d claim=%d", j.uid, j.place, j.attempt, j.deferrals, j.firstDue, j.startedAt, j.errors, j.claim)
		switch j.place {
		case "jobs":
			line += fmt.Sprintf(" state=%d run=%d back=%d lease=%d", j.state, j.runAt, j.givenBack, j.leaseUntil)
		case "history":
			line += fmt.Sprintf(" state=%d run=%d back=%d", j.state, j.runAt, j.givenBack)
		case "dead":
			line += " " + j.reason
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// stored lists what the three tables hold.
func (w *modelWorld) stored(rt *rapid.T) []string {
	out := []string{}
	for place, query := range map[string]string{
		"jobs":    `select uid, attempt, deferrals, first_due, started_at, errors, claim, ' state=' || state || ' run=' || run_at || ' back=' || given_back || ' lease=' || coalesce(lease_until, 0) from weir_jobs`,
		"history": `select uid, attempt, deferrals, first_due, started_at, errors, claim, ' state=' || state || ' run=' || run_at || ' back=' || given_back from weir_history`,
		"dead":    `select job_id, attempt, deferrals, first_due, started_at, errors, claim, ' ' || kind || ': ' || reason from weir_dead`,
	} {
		rows, err := w.raw.QueryContext(context.Background(), query)
		require.NoError(rt, err)
		for rows.Next() {
			var uid, rest string
			var attempt int
			var deferrals, due int64
			var started, claim sql.NullInt64
			var list sql.NullString
			require.NoError(rt, rows.Scan(&uid, &attempt, &deferrals, &due, &started, &list, &claim, &rest))
			out = append(out, fmt.Sprintf("%s %s attempt=%d deferrals=%d due=%d started=%d errors=%d claim=%d%s", uid, place, attempt, deferrals, due,
				started.Int64, len(store.ParseErrors(list.String)), claim.Int64, rest))
		}
		require.NoError(rt, errors.Join(rows.Err(), rows.Close()))
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
