package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// TurnRequest is what a process brings to a turn.
type TurnRequest struct {
	Results []Result
	// Sweep also brings due scheduled jobs and jobs whose lease ran out back
	// into line.
	Sweep bool
	// KeepLeases leaves out the leases: for a while after the clock stepped.
	KeepLeases bool
	// Limits are locked, in the order given: by name.
	Limits []Declared
	// Windows, of exact limits, are locked beside them, by name as well.
	Windows []string
	// Gates, caps and breakers, are locked after them, by name as well.
	Gates []string
	// Claim names the jobs this turn starts. It is unique for ever, and the
	// fencing token of those jobs.
	Claim int64
	Lease time.Duration
	// SkipLocked passes over rows that other sessions have locked instead of
	// waiting for them, on PostgreSQL: limits and gates are told as Busy, and
	// results whose jobs are locked come back as Postponed.
	SkipLocked bool
	// Admit decides. It may be called again when the transaction is retried.
	Admit Admission
	// More says what else to read, given what was read so far, until it says
	// nothing. Optional.
	More func(read [][]Candidate) []Ask
}

// Admission decides on values who may start.
type Admission interface {
	// Ask says how much to read of which line, given what is locked.
	Ask(now int64, locked Locked) []Ask
	// Decide says what becomes of what was read, one slice for each Ask, in
	// line order.
	Decide(read [][]Candidate) Plan
}

// Locked is what a turn holds while it decides, in the order of the request.
type Locked struct {
	Limits  []Limit
	Windows []Window
	Gates   []Gate
	Running []LineCount // read only where there are gates
	// Uncounted are results of the request that this turn does not record: they
	// were refused or postponed, or an earlier turn recorded them.
	Uncounted []Result
}

// Ask reads the first Max jobs of a line, or the first that come after one.
type Ask struct {
	Line
	Of    int // of those that More returns: which of the first asks it goes on with
	Max   int
	After *Candidate // nil: the head of the line
	// Fresh leaves out the jobs that were granted before.
	Fresh bool
}

// Candidate is a waiting job, as far as admission looks at it.
type Candidate struct {
	ID       int64
	Rank     int
	FirstDue int64
	Granted  bool // it was started before
	Expires  bool // it is to be started before a time
	// MaxRetries of the job's own; -1: its task's.
	MaxRetries int
}

// Plan is what admission decided.
type Plan struct {
	Start []int64
	Defer []int64
	Shed  []Shed
	// Locked rows that changed.
	Save        []Limit
	SaveGates   []Gate
	SaveWindows []SavedWindow
}

// DeferFor is by how much a deferred job's run_at is put off.
const DeferFor = time.Second

// TurnResult is what a turn did.
type TurnResult struct {
	// Now is the clock read under the locks; At is the process's own time
	// at that moment, to time what follows from.
	Now int64
	At  time.Time

	Started []Job    // in the order of Plan.Start
	Refused []Result // late results: somebody else has the job
	// Postponed were not written, because their jobs are locked.
	Postponed []Result
	Swept     Swept
}

// Turn is the one transaction of a look: results first, before any limit is
// locked; then the limits' rows; then the clock; then what admission decides.
func (s *Store) Turn(ctx context.Context, req TurnRequest) (TurnResult, error) {
	var out TurnResult
	err := s.writeFor(ctx, turning, func(t *tx) error {
		out = TurnResult{}
		return s.turn(ctx, t, &req, &out)
	})
	if err != nil {
		return TurnResult{}, fmt.Errorf("turn: %w", err)
	}
	return out, nil
}

func (s *Store) turn(ctx context.Context, t *tx, req *TurnRequest, out *TurnResult) (err error) {
	results, skip := req.Results, req.SkipLocked && s.target.dialect == Postgres
	if skip {
		if results, out.Postponed, err = s.unlocked(ctx, t, results); err != nil {
			return err
		}
	}
	results, repeated, err := s.recorded(ctx, t, results)
	if err != nil {
		return err
	}
	if out.Refused, err = s.writeResults(ctx, t, results); err != nil {
		return err
	}
	if req.Sweep {
		if out.Swept, err = s.sweep(ctx, t, req.KeepLeases); err != nil {
			return err
		}
		if out.Swept.Lost > 0 {
			s.heads.forget(out.Swept.Lines)
		}
	}
	if req.Admit == nil {
		return nil
	}
	limits, now, err := s.lockLimits(ctx, t, req.Limits, skip)
	if err != nil {
		return err
	}
	locked := Locked{Limits: limits, Uncounted: slices.Concat(out.Refused, out.Postponed, repeated)}
	if locked.Windows, now, err = s.lockWindows(ctx, t, req.Windows, now, skip); err != nil {
		return err
	}
	if locked.Gates, locked.Running, now, err = s.lockGates(ctx, t, req.Gates, now, skip); err != nil {
		return err
	}
	out.Now, out.At = now, s.clock.Now()
	read, err := s.readLines(ctx, t, req, now, locked, out.Swept.Expired == expireRows)
	if err != nil {
		return err
	}
	plan := req.Admit.Decide(read)
	if out.Started, err = s.start(ctx, t, plan.Start, now, req.Claim, req.Lease); err != nil {
		return err
	}
	if err := s.deferJobs(ctx, t, plan.Defer, now); err != nil {
		return err
	}
	if err := s.shed(ctx, t, plan.Shed, now); err != nil {
		return err
	}
	if err := s.saveGates(ctx, t, plan.SaveGates); err != nil {
		return err
	}
	if err := s.saveWindows(ctx, t, plan.SaveWindows); err != nil {
		return err
	}
	return s.saveLimits(ctx, t, plan.Save)
}

// One bounded walk of the line index for each line asked. A job that was to be
// started before now is left to the sweep.
var candidatesSQL = &statement{
	lasting: true,
	postgres: `
select l.n, j.id, j.rank, j.first_due, j.started_at is not null, j.expires_at is not null, coalesce(j.max_retries, -1)
from unnest($1::text[], $2::text[], $3::int[], $4::bool[], $6::int[], $7::bigint[], $8::bigint[], $9::int[])
     as l(task, queue, k, fresh, rank, first_due, id, n),
lateral (
    select id, rank, first_due, started_at, expires_at, max_retries from weir_jobs
    where state = 0 and task = l.task and queue = l.queue and (not l.fresh or started_at is null)
      and (rank, first_due, id) > (l.rank, l.first_due, l.id)
      and (expires_at is null or expires_at > $5 or started_at is not null)
    order by rank, first_due, id limit l.k
    for update skip locked
) j`,
	sqlite: `
select $9, id, rank, first_due, started_at is not null, expires_at is not null, coalesce(max_retries, -1) from weir_jobs
where state = 0 and task = $1 and queue = $2 and (not $4 or started_at is null) and (rank, first_due, id) > ($6, $7, $8)
  and (expires_at is null or expires_at > $5 or started_at is not null)
order by rank, first_due, id limit $3`,
}

// crowdedSQL looks no further than a thousand jobs behind what is asked for: more
// have expired than one sweep takes, and a line may begin with all of them. The
// sum keeps the line's index out of the second step, whose rows have ids.
var crowdedSQL = &statement{
	postgres: `
select l.n, j.id, j.rank, j.first_due, j.started_at is not null, j.expires_at is not null, coalesce(j.max_retries, -1)
from unnest($1::text[], $2::text[], $3::int[], $4::bool[], $6::int[], $7::bigint[], $8::bigint[], $9::int[])
     as l(task, queue, k, fresh, rank, first_due, id, n),
lateral (
    select id, rank, first_due, started_at, expires_at, max_retries from weir_jobs
    where state + 0 = 0 and id = any(array(
        select id from (
            select id, expires_at, started_at from weir_jobs
            where state = 0 and task = l.task and queue = l.queue and (not l.fresh or started_at is null)
              and (rank, first_due, id) > (l.rank, l.first_due, l.id)
            order by rank, first_due, id limit l.k + 1000) w
        where expires_at is null or expires_at > $5 or started_at is not null limit l.k))
    order by rank, first_due, id
    for update skip locked
) j`,
	sqlite: `
select $9, id, rank, first_due, started_at is not null, expires_at is not null, coalesce(max_retries, -1) from (
    select id, rank, first_due, started_at, expires_at, max_retries from weir_jobs
    where state = 0 and task = $1 and queue = $2 and (not $4 or started_at is null) and (rank, first_due, id) > ($6, $7, $8)
    order by rank, first_due, id limit $3 + 1000)
where expires_at is null or expires_at > $5 or started_at is not null limit $3`,
}

func (s *Store) readLines(ctx context.Context, t *tx, req *TurnRequest, now int64, locked Locked, crowded bool) ([][]Candidate, error) {
	st := candidatesSQL
	if crowded {
		st = crowdedSQL
	}
	asks := req.Admit.Ask(now, locked)
	for i := range asks {
		asks[i].Of = i
	}
	read := make([][]Candidate, len(asks))
	for len(asks) > 0 {
		if err := s.candidates(ctx, t, st, asks, read, now); err != nil {
			return nil, err
		}
		if asks = nil; req.More != nil {
			asks = req.More(read)
		}
	}
	return read, nil
}

// beforeAll comes before every job.
var beforeAll = Candidate{Rank: math.MinInt32, FirstDue: math.MinInt64}

func (a *Ask) after() Candidate {
	if a.After == nil {
		return beforeAll
	}
	return *a.After
}

// candidates appends what is asked for to what was read.
func (s *Store) candidates(ctx context.Context, t *tx, st *statement, asks []Ask, read [][]Candidate, now int64) error {
	if s.target.dialect == SQLite {
		for _, a := range asks {
			c := a.after()
			if err := s.readCandidates(ctx, t, st, read, a.Task, a.Queue, a.Max, a.Fresh, now, c.Rank, c.FirstDue, c.ID, a.Of); err != nil {
				return err
			}
		}
		return nil
	}
	n := len(asks)
	tasks, queues, fresh := make([]string, n), make([]string, n), make([]bool, n)
	maxs, ranks, of := make([]int32, n), make([]int32, n), make([]int32, n)
	dues, ids := make([]int64, n), make([]int64, n)
	fronts, began := make([]bool, n), s.elapsed()
	for i, a := range asks {
		var c Candidate
		c, fronts[i] = s.heads.begins(&a, began)
		tasks[i], queues[i], maxs[i], fresh[i] = a.Task, a.Queue, int32(a.Max), a.Fresh //nolint:gosec // hundreds
		ranks[i], dues[i], ids[i], of[i] = int32(c.Rank), c.FirstDue, c.ID, int32(a.Of) //nolint:gosec // a smallint, and an index
	}
	err := s.readCandidates(ctx, t, st, read, texts(tasks), texts(queues), integers(maxs), bools(fresh), now,
		integers(ranks), bigints(dues), bigints(ids), integers(of))
	if err == nil {
		ended := s.elapsed()
		s.heads.learn(asks, fronts, read, ended, ended-began)
	}
	return err
}

func (s *Store) readCandidates(ctx context.Context, t *tx, st *statement, read [][]Candidate, args ...any) error {
	rows, err := t.QueryContext(ctx, s.text(st), args...)
	if err != nil {
		return fmt.Errorf("read lines: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var n int
		var c Candidate
		if err := rows.Scan(&n, &c.ID, &c.Rank, &c.FirstDue, &c.Granted, &c.Expires, &c.MaxRetries); err != nil {
			return fmt.Errorf("read lines: %w", err)
		}
		read[n] = append(read[n], c)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read lines: %w", err)
	}
	return nil
}

// What a handler may see, and what is needed to write what became of it.
const startedColumns = `id, uid, task, queue, rank, first_due, enqueued_at, started_at, claim, attempt,
       given_back, max_retries, timeout, deferrals, unique_key, args, metadata, errors, replay_of`

var startSQL = &statement{
	lasting: true,
	postgres: `
update weir_jobs set state = 1, attempt = least(attempt, 2147483646) + 1, started_at = $2, claim = $3, lease_until = $4
where id = any($1::bigint[]) returning ` + startedColumns,
	sqlite: `
update weir_jobs set state = 1, attempt = min(attempt, 2147483646) + 1, started_at = $2, claim = $3, lease_until = $4
where id in (select value from json_each($1)) returning ` + startedColumns,
}

func (s *Store) start(ctx context.Context, t *tx, ids []int64, now, claim int64, lease time.Duration) ([]Job, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	jobs, err := s.startedJobs(ctx, t, len(ids), startSQL, s.ids(ids), now, claim, now+lease.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("start %d jobs: %w", len(ids), err)
	}
	if len(jobs) != len(ids) {
		return nil, fmt.Errorf("start %d jobs: %d were there", len(ids), len(jobs))
	}
	// RETURNING has no order.
	place := make(map[int64]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Compare(place[a.ID], place[b.ID]) })
	return jobs, nil
}

// startedJobs reads jobs of startedColumns. To let sqlx find the fields would cost
// more than all the rest of what a turn does here for a job.
func (s *Store) startedJobs(ctx context.Context, t *tx, about int, st *statement, args ...any) ([]Job, error) {
	rows, err := t.QueryContext(ctx, s.text(st), args...)
	if err != nil {
		return nil, cancelled(ctx, err)
	}
	defer rows.Close()
	jobs := make([]Job, 0, about)
	for rows.Next() {
		jobs = append(jobs, Job{})
		j := &jobs[len(jobs)-1]
		if err := rows.Scan(&j.ID, &j.UID, &j.Task, &j.Queue, &j.Rank, &j.FirstDue, &j.EnqueuedAt, &j.StartedAt, &j.Claim, &j.Attempt,
			&j.GivenBack, &j.MaxRetries, &j.Timeout, &j.Deferrals, &j.UniqueKey, &j.Args, &j.Metadata, &j.Errors, &j.ReplayOf); err != nil {
			return nil, err
		}
	}
	return jobs, cancelled(ctx, rows.Err())
}

var deferSQL = &statement{
	lasting:  true,
	postgres: `update weir_jobs set run_at = $2, deferrals = deferrals + 1 where id = any($1::bigint[])`,
	sqlite:   `update weir_jobs set run_at = $2, deferrals = deferrals + 1 where id in (select value from json_each($1))`,
}

func (s *Store) deferJobs(ctx context.Context, t *tx, ids []int64, now int64) error {
	if len(ids) == 0 {
		return nil
	}
	n, err := s.exec(ctx, t, deferSQL, s.ids(ids), now+DeferFor.Microseconds())
	if err == nil && n != int64(len(ids)) {
		err = fmt.Errorf("%d were there", n)
	}
	if err != nil {
		return fmt.Errorf("defer %d jobs: %w", len(ids), err)
	}
	return nil
}

// ids is a set of ids as one parameter.
func (s *Store) ids(ids []int64) any {
	if s.target.dialect == Postgres {
		return bigints(ids)
	}
	return document(ids)
}

// names is a set of names as one parameter.
func (s *Store) names(names []string) any {
	if s.target.dialect == Postgres {
		return texts(names)
	}
	return document(names)
}

var claimedSQL = &statement{
	postgres: `select ` + startedColumns + ` from weir_jobs where lease_until is not null and claim = $1 for update`,
	sqlite:   `select ` + startedColumns + ` from weir_jobs where lease_until is not null and claim = $1`,
}

// Claimed returns the jobs that a claim started and still has: asked after a
// commit whose outcome is unknown. It does not write, but the guards of a turn
// keep its plan, and a server that is the primary no longer may not answer.
func (s *Store) Claimed(ctx context.Context, claim int64) ([]Job, error) {
	var jobs []Job
	err := s.writeFor(ctx, turning, func(t *tx) (err error) {
		jobs, err = s.startedJobs(ctx, t, 0, claimedSQL, claim)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look up claim %d: %w", claim, err)
	}
	return jobs, nil
}
