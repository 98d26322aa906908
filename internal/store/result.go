package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// Outcome is what became of an attempt.
type Outcome int

// The outcomes of an attempt.
const (
	// Done: completed.
	Done Outcome = iota
	// Dead: a dead letter.
	Dead
	// DeadLost: a dead letter, because the last lease it was entitled to ran
	// out. Its process may still report; that is refused.
	DeadLost
	// Retry: back in line at the end of its back-off, which is its new place.
	Retry
	// GiveBack: never handed to its handler, so the attempt is taken back.
	GiveBack
	// Interrupted: cancelled at the end of the grace of a stop; the attempt
	// counts, but not against max_retries.
	Interrupted
	// Lost: back in line at its old place, because its lease ran out.
	Lost

	outcomes
)

// Result is the end of an attempt. It counts only while the job is running
// under that claim.
type Result struct {
	ID      int64   `json:"id"`
	Claim   int64   `json:"claim"`
	UID     string  `json:"-"`
	Outcome Outcome `json:"-"`
	Delay   int64   `json:"delay"` // of a Retry: microseconds
	Reason  string  `json:"reason"`
	// Errors is the job's whole list of errors, this one included; unset
	// keeps what is stored.
	Errors string `json:"errors"`
	// Repeated: it was in a turn whose outcome is not known.
	Repeated bool `json:"-"`

	// What the process keeps with it: the store does not look at it.
	Line      Line   `json:"-"`
	StartedAt int64  `json:"-"`
	Text      string `json:"-"` // the error
	Failed    bool   `json:"-"` // the attempt failed, and not by the job's own fault

	// Kept: the handler's slot went to another job already.
	Kept bool `json:"-"`

	Cancelled bool `json:"-"` // of a refused one: the job was cancelled
}

const (
	historyColumns = `id, uid, task, queue, state, rank, first_due, run_at, enqueued_at, started_at, expires_at, claim, attempt,
       given_back, max_retries, timeout, deferrals, unique_key, args, metadata, errors, replay_of, replays, finished_at`
	historyFrom = `select j.id, j.uid, j.task, j.queue, %s, j.rank, j.first_due, j.run_at, j.enqueued_at, j.started_at, j.expires_at, %s,
       j.attempt, j.given_back, j.max_retries, j.timeout, j.deferrals, j.unique_key, j.args, j.metadata, j.errors, j.replay_of, j.replays, %s`
)

// A result counts only under its own claim, also where another job of the set
// has the claim that took this one. A join with pairs of both would cost a
// third of a turn, and a claim beside an id, each as a set of its own, lets
// such pairs cross. So the rows are found by their ids and checked by a seal,
// which belongs to one job under one claim, as good as surely: claims are
// random. PostgreSQL has the ids as $1 and the seals as $2, of which it makes a
// hash: it does so of an array only where it plans for that very array, and
// without "= true" it would make a join.
const (
	pgSealed   = `(((id << 20) # claim) in (select unnest($2::bigint[]))) = true`
	sqliteSeal = `(((id << 20) | claim) - ((id << 20) & claim))` // exclusive or, as well
)

func seal(id, claim int64) int64 { return id<<20 ^ claim }

// seals splits results into ids and seals.
func seals(set []Result) (ids, seals []int64) {
	ids, seals = make([]int64, len(set)), make([]int64, len(set))
	for i, r := range set {
		ids[i], seals[i] = r.ID, seal(r.ID, r.Claim)
	}
	return ids, seals
}

// A row that already stands where a job is to go, after a repair by hand or a
// restore, is the same job: it stays as it is, and nothing waits behind it.
var doneSQL = &statement{
	lasting: true,
	postgres: `
with j as (delete from weir_jobs where id = any($1::bigint[]) and ` + pgSealed + ` and state = 1 returning *)
insert into weir_history (` + historyColumns + `)
` + fmt.Sprintf(historyFrom, `3`, `j.claim`, `coalesce($3::bigint, `+pgNow+`)`) + ` from j on conflict do nothing`,
	sqlite: `
insert into weir_history (` + historyColumns + `)
` + fmt.Sprintf(historyFrom, `3`, `j.claim`, `$3`) + `
from weir_jobs j
where j.id in (select value from json_each($1)) and ` + sqliteSeal + ` in (select value from json_each($2)) and j.state = 1
on conflict do nothing`,
}

var doneDeleteSQL = &statement{sqlite: `
delete from weir_jobs
where id in (select value from json_each($1)) and ` + sqliteSeal + ` in (select value from json_each($2)) and state = 1`}

// A retry's place is the end of its back-off; one without is in line at once. A
// job that is given back keeps its place in line.
var backSQL = &statement{
	postgres: `
with c as materialized (select coalesce($2::bigint, ` + pgNow + `) as now)
update weir_jobs j set state = case when $3 = 'retry' and r.delay > 0 then 2 else 0 end, lease_until = null,
       run_at = case when $3 = 'retry' then c.now + r.delay else c.now end,
       first_due = case when $3 = 'retry' then c.now + r.delay else j.first_due end,
       attempt = j.attempt - case when $3 = 'give back' then 1 else 0 end,
       given_back = j.given_back + case when $3 = 'interrupted' then 1 else 0 end,
       claim = case when $3 = 'lost' then null else j.claim end,
       errors = coalesce(nullif(r.errors, ''), j.errors)
from c, json_to_recordset($1::json) as r(id bigint, claim bigint, delay bigint, errors text)
where j.id = r.id and j.claim = r.claim and j.state = 1`,
	sqlite: `
update weir_jobs set state = case when $3 = 'retry' and r.value ->> 'delay' > 0 then 2 else 0 end, lease_until = null,
       run_at = case when $3 = 'retry' then $2 + (r.value ->> 'delay') else $2 end,
       first_due = case when $3 = 'retry' then $2 + (r.value ->> 'delay') else first_due end,
       attempt = attempt - case when $3 = 'give back' then 1 else 0 end,
       given_back = given_back + case when $3 = 'interrupted' then 1 else 0 end,
       claim = case when $3 = 'lost' then null else claim end,
       errors = coalesce(nullif(r.value ->> 'errors', ''), errors)
from json_each($1) r
where weir_jobs.id = r.value ->> 'id' and claim = r.value ->> 'claim' and state = 1`,
}

var deadSQL = counted(
	`r as (select * from json_to_recordset($1::json) as r(id bigint, claim bigint, reason text, errors text)),
j as (delete from weir_jobs j using r where j.id = r.id and j.claim = r.claim and j.state = 1
      returning j.*, r.reason as why, r.errors as list)`,
	`
insert into weir_dead (`+deadColumns+`)
`+fmt.Sprintf(deadFrom, `'`+KindFailed+`'`, `j.why`, `null`, `case when $3 = 'lost' then null else j.claim end`, `coalesce(nullif(j.list, ''), j.errors)`, `coalesce($2::bigint, `+pgNow+`)`)+`
from j order by j.id on conflict do nothing`,
	`
insert into weir_dead (`+deadColumns+`)
`+fmt.Sprintf(deadFrom, `'`+KindFailed+`'`, `r.value ->> 'reason'`, `null`, `case when $3 = 'lost' then null else j.claim end`, `coalesce(nullif(r.value ->> 'errors', ''), j.errors)`, `$2`)+`
from json_each($1) r join weir_jobs j on j.id = r.value ->> 'id' and j.claim = r.value ->> 'claim' and j.state = 1
order by j.id on conflict do nothing`,
)

// writeResults records the ends of attempts, set by set, and returns those
// that no longer count. A set that is written again, because the reply to its
// commit was lost, finds its jobs already where they belong.
func (s *Store) writeResults(ctx context.Context, t *tx, results []Result) ([]Result, error) {
	var sets [outcomes][]Result
	for _, r := range results {
		sets[r.Outcome] = append(sets[r.Outcome], r)
	}
	var refused []Result
	for outcome, set := range sets {
		if len(set) == 0 {
			continue
		}
		n, err := s.writeSet(ctx, t, Outcome(outcome), set)
		if err != nil {
			return nil, fmt.Errorf("write %d results: %w", len(set), err)
		}
		if n == int64(len(set)) {
			continue
		}
		late, err := s.late(ctx, t, set)
		if err != nil {
			return nil, err
		}
		refused = append(refused, late...)
	}
	return refused, nil
}

func (s *Store) writeSet(ctx context.Context, t *tx, outcome Outcome, set []Result) (int64, error) {
	switch outcome {
	case Done:
		return s.writeDone(ctx, t, set)
	case Dead:
		return s.writeDead(ctx, t, set, "")
	case DeadLost:
		return s.writeDead(ctx, t, set, "lost")
	case Retry:
		return s.execJSON(ctx, t, backSQL, set, s.given(), "retry")
	case GiveBack:
		return s.execJSON(ctx, t, backSQL, set, s.given(), "give back")
	case Interrupted:
		return s.execJSON(ctx, t, backSQL, set, s.given(), "interrupted")
	case Lost:
		return s.execJSON(ctx, t, backSQL, set, s.given(), "lost")
	case outcomes:
	}
	return 0, fmt.Errorf("no such outcome: %d", outcome)
}

func (s *Store) writeDead(ctx context.Context, t *tx, set []Result, why string) (int64, error) {
	doc, err := json.Marshal(set)
	if err != nil {
		return 0, fmt.Errorf("encode %d results: %w", len(set), err)
	}
	n, err := s.bury(ctx, t, deadSQL, string(doc), s.given(), why)
	if err == nil && s.target.dialect == SQLite {
		ids, seals := seals(set)
		_, err = s.exec(ctx, t, doneDeleteSQL, s.ids(ids), s.ids(seals))
	}
	return n, err
}

func (s *Store) writeDone(ctx context.Context, t *tx, set []Result) (int64, error) {
	ids, seals := seals(set)
	n, err := affected(t.ExecContext(ctx, s.moving(t, doneSQL), s.ids(ids), s.ids(seals), s.given()))
	if err == nil && s.target.dialect == SQLite {
		_, err = s.exec(ctx, t, doneDeleteSQL, s.ids(ids), s.ids(seals))
	}
	return n, err
}

// Where results of these claims went that are no longer running. A cancelled
// job has no claim any more.
var settledSQL = &statement{
	postgres: `
select uid, claim from weir_jobs where id = any($1::bigint[]) and claim = any($2::bigint[]) and state <> 1
union all select uid, claim from weir_history where id = any($1::bigint[]) and (claim = any($2::bigint[]) or state = 4)
union all select job_id, claim from weir_dead
where job_id = any(array(select value::uuid from json_array_elements_text($3::json))) and claim = any($2::bigint[])`,
	sqlite: `
select uid, claim from weir_jobs where id in (select value from json_each($1)) and claim in (select value from json_each($2)) and state <> 1
union all select uid, claim from weir_history
where id in (select value from json_each($1)) and (claim in (select value from json_each($2)) or state = 4)
union all select job_id, claim from weir_dead
where job_id in (select value from json_each($3)) and claim in (select value from json_each($2))`,
}

// recorded parts results into those to write and those that an earlier turn has
// recorded, the reply to whose commit was lost.
func (s *Store) recorded(ctx context.Context, t *tx, results []Result) (write, before []Result, err error) {
	var repeated []Result
	for _, r := range results {
		if r.Repeated {
			repeated = append(repeated, r)
		} else {
			write = append(write, r)
		}
	}
	if len(repeated) == 0 {
		return results, nil, nil
	}
	settled, err := s.settled(ctx, t, repeated)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range repeated {
		if settled.has(r) {
			before = append(before, r)
		} else {
			write = append(write, r)
		}
	}
	return write, before, nil
}

// attempts is a set of attempts; one of a cancelled job has no claim.
type attempts map[attempt]struct{}

type attempt struct {
	UID   string        `db:"uid"`
	Claim sql.NullInt64 `db:"claim"`
}

func (a attempts) has(r Result) bool {
	_, ok := a[attempt{r.UID, sql.NullInt64{Int64: r.Claim, Valid: true}}]
	return ok
}

// settled returns the attempts of these jobs that ended, under these claims.
func (s *Store) settled(ctx context.Context, t *tx, set []Result) (attempts, error) {
	ids, claims, uids := make([]int64, len(set)), make([]int64, len(set)), make([]string, len(set))
	for i, r := range set {
		ids[i], claims[i], uids[i] = r.ID, r.Claim, r.UID
	}
	rows, err := selectRows[attempt](ctx, t, s.text(settledSQL), s.ids(ids), s.ids(claims), document(uids))
	if err != nil {
		return nil, fmt.Errorf("look for late results: %w", err)
	}
	settled := make(attempts, len(rows))
	for _, a := range rows {
		settled[a] = struct{}{}
	}
	return settled, nil
}

// late returns the results of a set that count for nothing: the job went to
// another claim, or was cancelled. What this very result made of its job in
// an earlier try is not late.
func (s *Store) late(ctx context.Context, t *tx, set []Result) ([]Result, error) {
	settled, err := s.settled(ctx, t, set)
	if err != nil {
		return nil, err
	}
	var late []Result
	for _, r := range set {
		if !settled.has(r) {
			_, r.Cancelled = settled[attempt{UID: r.UID}]
			late = append(late, r)
		}
	}
	return late, nil
}
