package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// One sweep takes at most so many jobs; more of them, and the next follows.
const (
	promoteRows = 1000
	reclaimRows = 500
)

// Swept is what a sweep brought back into line.
type Swept struct {
	Lines    []Line
	Promoted int      // scheduled jobs whose time came
	Lost     int      // jobs whose lease ran out: back in line
	Expired  int      // jobs that were not started in time: dead letters
	Dead     []Result // jobs whose last lease ran out: dead letters
	// The next times at which a sweep is due; 0: none known.
	Due, Lease, Expiry int64
	Now                int64
	At                 time.Time // the process's own time when Now was read
}

// LeaseLost is the reason of a dead letter whose last lease ran out.
const LeaseLost = "lease lost"

// DefaultMaxRetries is how often a failed job is tried again if neither it nor
// its task says so.
const DefaultMaxRetries = 3

// OutOfStarts tells whether a job that was started attempt times, of which
// givenBack do not count, may not be started again.
func OutOfStarts(attempt, givenBack, maxRetries int) bool {
	return attempt-givenBack > maxRetries
}

// The clock stands in a select of its own: a volatile function beside a
// column could not use the column's index.
var promoteSQL = &statement{
	postgres: `
update weir_jobs set state = 0 where id = any(array(
    select id from weir_jobs where state = 2 and first_due <= (select coalesce($1::bigint, ` + pgNow + `))
    order by first_due limit $2 for update skip locked))
returning task, queue`,
	sqlite: `
update weir_jobs set state = 0 where id in (
    select id from weir_jobs where state = 2 and first_due <= $1 order by first_due limit $2)
returning task, queue`,
}

var lapsedSQL = &statement{
	postgres: `
select id, uid, task, queue, claim, attempt, given_back, errors,
       coalesce(max_retries, (select t.max_retries from weir_tasks t where t.name = j.task)) as max_retries, c.now
from (select coalesce($1::bigint, ` + pgNow + `) as now offset 0) c,
lateral (select * from weir_jobs where lease_until <= c.now and state = 1 and claim is not null order by lease_until limit $2 for update skip locked) j`,
	sqlite: `
select id, uid, task, queue, claim, attempt, given_back, errors,
       coalesce(max_retries, (select t.max_retries from weir_tasks t where t.name = weir_jobs.task)) as max_retries, $1 as now
from weir_jobs where lease_until <= $1 and state = 1 and claim is not null order by lease_until limit $2`,
}

// sweep promotes scheduled jobs and takes back jobs whose lease ran out.
func (s *Store) sweep(ctx context.Context, t *tx, keepLeases bool) (out Swept, err error) {
	lines := map[Line]struct{}{}
	if out.Expired, err = s.expire(ctx, t); err != nil {
		return out, err
	}
	due, err := selectRows[Line](ctx, t, s.text(promoteSQL), s.given(), promoteRows)
	if err != nil {
		return out, fmt.Errorf("bring scheduled jobs into line: %w", err)
	}
	for _, l := range due {
		lines[l] = struct{}{}
	}
	out.Promoted = len(due)

	if !keepLeases {
		if err := s.reclaim(ctx, t, &out, lines); err != nil {
			return out, fmt.Errorf("take back lost leases: %w", err)
		}
	}
	for l := range lines {
		out.Lines = append(out.Lines, l)
	}
	next, err := selectRow[struct {
		Due    sql.NullInt64 `db:"due"`
		Lease  sql.NullInt64 `db:"lease"`
		Expiry sql.NullInt64 `db:"expiry"`
		Now    int64         `db:"now"`
	}](ctx, t, s.text(nextSQL), s.given())
	if err != nil {
		return out, fmt.Errorf("look for the next scheduled job: %w", err)
	}
	out.At = s.clock.Now()
	out.Due, out.Lease, out.Expiry, out.Now = next.Due.Int64, next.Lease.Int64, next.Expiry.Int64, next.Now
	return out, nil
}

// reclaim takes back jobs whose lease ran out.
func (s *Store) reclaim(ctx context.Context, t *tx, out *Swept, lines map[Line]struct{}) error {
	lapsed, err := selectRows[struct {
		Job
		Now int64 `db:"now"`
	}](ctx, t, s.text(lapsedSQL), s.given(), reclaimRows)
	if err != nil {
		return err
	}
	results := make([]Result, 0, len(lapsed))
	for _, j := range lapsed {
		maxRetries := DefaultMaxRetries
		if j.MaxRetries.Valid {
			maxRetries = int(j.MaxRetries.Int64)
		}
		r := Result{ID: j.ID, UID: j.UID, Claim: j.Claim.Int64, Line: Line{j.Task, j.Queue}, Outcome: Lost}
		r.Errors = AppendError(j.Errors.String, AttemptError{Attempt: j.Attempt, At: j.Now, Error: LeaseLost})
		if OutOfStarts(j.Attempt, j.GivenBack, maxRetries) {
			r.Outcome, r.Reason = DeadLost, LeaseLost
			out.Dead = append(out.Dead, r)
		} else {
			lines[r.Line] = struct{}{}
			out.Lost++
		}
		results = append(results, r)
	}
	_, err = s.writeResults(ctx, t, results)
	return err
}

var nextSQL = &statement{
	postgres: `
select (select min(first_due) from weir_jobs where state = 2) as due,
       (select lease_until from weir_jobs where lease_until is not null and state = 1 and claim is not null order by lease_until limit 1) as lease,
       (select min(expires_at) from weir_jobs where expires_at is not null and started_at is null) as expiry,
       coalesce($1::bigint, ` + pgNow + `) as now`,
	sqlite: `
select (select min(first_due) from weir_jobs where state = 2) as due,
       (select lease_until from weir_jobs where lease_until is not null and state = 1 and claim is not null order by lease_until limit 1) as lease,
       (select min(expires_at) from weir_jobs where expires_at is not null and started_at is null) as expiry, $1 as now`,
}

// A job keeps the errors of so many attempts: the first, and the latest.
const keptErrors = 50

// AppendError adds an attempt's error to a job's list.
func AppendError(list string, e AttemptError) string {
	errs := append(ParseErrors(list), e)
	if n := len(errs); n > keptErrors {
		errs = append(errs[:1], errs[n-keptErrors+1:]...)
	}
	doc, _ := json.Marshal(errs) //nolint:errchkjson // texts and numbers always encode
	return string(doc)
}

// A lease is written again when a quarter of it is over, or when a clock that
// stepped made it longer than it is. A job that another session has locked
// keeps its lease as it is: it cannot be taken back either.
var renewSQL = &statement{
	lasting: true,
	postgres: `
with mine as materialized (
    select id from weir_jobs where id = any($1::bigint[]) and ` + pgSealed + ` and state = 1
    and coalesce(lease_until, 0) - (select coalesce($3::bigint, ` + pgNow + `)) not between $4::bigint * 3 / 4 and $4::bigint
    order by id for update skip locked
)
update weir_jobs set lease_until = (select coalesce($3::bigint, ` + pgNow + `)) + $4::bigint
where id = any(array(select id from mine)) and ` + pgSealed + ` and state = 1`,
	sqlite: `
update weir_jobs set lease_until = $3 + $4
where id in (select value from json_each($1)) and ` + sqliteSeal + ` in (select value from json_each($2)) and state = 1
  and lease_until - $3 not between $4 * 3 / 4 and $4`,
}

var stillHeldSQL = &statement{
	lasting: true,
	postgres: `
select id, claim, coalesce(lease_until, 0) - (select coalesce($3::bigint, ` + pgNow + `)) as remaining from weir_jobs
where id = any($1::bigint[]) and ` + pgSealed + ` and state = 1`,
	sqlite: `
select id, claim, coalesce(lease_until, 0) - $3 as remaining from weir_jobs
where id in (select value from json_each($1)) and ` + sqliteSeal + ` in (select value from json_each($2)) and state = 1`,
}

// Held names a running job by its id and the claim that started it.
type Held struct {
	ID    int64 `db:"id"`
	Claim int64 `db:"claim"`
}

// Renew extends the leases of the jobs named and returns those that are still
// this process's, and how much longer, in microseconds. Leases that are young, and
// those of jobs which another session has locked, are left as they are.
func (s *Store) Renew(ctx context.Context, held []Held, lease int64) (map[Held]int64, error) {
	kept := make(map[Held]int64, len(held))
	ids, seals := make([]int64, len(held)), make([]int64, len(held))
	for i, h := range held {
		ids[i], seals[i] = h.ID, seal(h.ID, h.Claim)
	}
	err := s.writeFor(ctx, renewing, func(t *tx) error {
		if _, err := s.exec(ctx, t, renewSQL, s.ids(ids), s.ids(seals), s.given(), lease); err != nil {
			return err
		}
		ours, err := selectRows[struct {
			Held
			Remaining int64 `db:"remaining"`
		}](ctx, t, s.text(stillHeldSQL), s.ids(ids), s.ids(seals), s.given())
		if err != nil {
			return err
		}
		clear(kept)
		for _, h := range ours {
			kept[h.Held] = h.Remaining
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("renew %d leases: %w", len(held), err)
	}
	return kept, nil
}
