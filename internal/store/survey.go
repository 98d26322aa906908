package store

import (
	"context"
	"database/sql"
	"fmt"
)

// Survey is what a process that looks around finds: hints for its next turn,
// read without a lock.
type Survey struct {
	Lines  []Line              // with waiting jobs
	Due    int64               // the next scheduled job; 0: none
	Lease  int64               // the next lease to run out; 0: none
	Expiry int64               // the next job to expire; 0: none
	Held   map[string]int64    // the holds of limits, by name
	Over   map[string]string   // what operators say in their place, by name: as text, to compare
	Paused map[string]struct{} // queues
	Now    int64
}

type surveyRow struct {
	Kind  string `db:"kind"`
	Name  string `db:"name"`
	Queue string `db:"queue"`
	At    *int64 `db:"at"`
}

// The lines are found by skipping through the line index, a probe each,
// whatever the backlog. A hold that lies behind the clock by more than a second
// is none: the clock stepped back.
var surveySQL = &statement{
	lasting: true,
	postgres: `
with recursive l(task, queue) as (
    select t.task, (select j.queue from weir_jobs j where j.state = 0 and j.task = t.task order by j.queue limit 1)
    from unnest($1::text[] collate "C") t(task)
    union all
    select l.task, (select j.queue from weir_jobs j where j.state = 0 and j.task = l.task and j.queue > l.queue order by j.queue limit 1)
    from l where l.queue is not null
)
select 'line' as kind, task as name, queue, 0::bigint as at from l where queue is not null
union all select 'limit', name, case when override_until is null or override_until > c.now then concat(override_rate, ' ', override_burst) else ' ' end,
       case when held_from <= c.now + 1000000 then held_until else 0 end
from weir_limits, (select coalesce($3::bigint, ` + pgNow + `) as now offset 0) c where key = '' and name = any($2::text[])
union all select 'paused', '', name, 0 from weir_queues where paused
union all select kind, '', '', at from (values
    ('due', (select first_due from weir_jobs where state = 2 order by first_due limit 1)),
    ('expiry', (select expires_at from weir_jobs where expires_at is not null and started_at is null order by expires_at limit 1)),
    ('lease', (select lease_until from weir_jobs where lease_until is not null and state = 1 and claim is not null order by lease_until limit 1)),
    ('now', coalesce($3::bigint, ` + pgNow + `))) times(kind, at)`,
	sqlite: `
with recursive l(task, queue) as (
    select t.value, (select min(j.queue) from weir_jobs j where j.state = 0 and j.task = t.value) from json_each($1) t
    union all
    select l.task, (select min(j.queue) from weir_jobs j where j.state = 0 and j.task = l.task and j.queue > l.queue)
    from l where l.queue is not null
)
select 'line' as kind, task as name, queue, 0 as at from l where queue is not null
union all select 'limit', name, case when override_until is null or override_until > $3 then coalesce(override_rate, '') || ' ' || coalesce(override_burst, '') else ' ' end,
       case when held_from <= $3 + 1000000 then held_until else 0 end from weir_limits
where key = '' and name in (select value from json_each($2))
union all select 'due', '', '', min(first_due) from weir_jobs where state = 2
union all select 'paused', '', name, 0 from weir_queues where paused
union all select 'expiry', '', '', min(expires_at) from weir_jobs where expires_at is not null and started_at is null
union all select 'lease', '', '', (select lease_until from weir_jobs where lease_until is not null and state = 1 and claim is not null order by lease_until limit 1)
union all select 'now', '', '', $3`,
}

// surveying keeps the plan of a survey: with the statistics of a moment at which all
// jobs ran, PostgreSQL would read the whole table for the next lease to run out.
var surveying = purpose{begin: beginPostgresGuarded + keepPlans, engine: true}

// askSurvey runs ask on what answers surveys. On SQLite the statement is prepared
// once: to read it takes longer than to run it, and an idle process does little else.
func (s *Store) askSurvey(ctx context.Context, ask func(Handle) error) error {
	if s.writer == nil {
		return s.writeFor(ctx, surveying, func(t *tx) error { return ask(t) })
	}
	stmt, err := s.surveyStmt(ctx)
	if err != nil {
		return err
	}
	return ask(prepared{s.read, stmt})
}

func (s *Store) surveyStmt(ctx context.Context) (*sql.Stmt, error) {
	s.surveying.Lock()
	defer s.surveying.Unlock()
	if s.survey == nil {
		stmt, err := s.read.PrepareContext(ctx, s.text(surveySQL))
		if err != nil {
			return nil, err
		}
		s.survey = stmt
	}
	return s.survey, nil
}

// prepared asks its statement, whatever the text.
type prepared struct {
	*pool

	stmt *sql.Stmt
}

func (p prepared) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	if p.closed.Load() {
		return nil, ErrClosed
	}
	return p.stmt.QueryContext(ctx, args...)
}

// InPlace fails, with ErrFileGone, where SQLite's file was deleted or replaced: a
// read finds what was there, and nothing more comes.
func (s *Store) InPlace() error {
	if s.writer == nil {
		return nil
	}
	return s.writer.checkFile(s.target.path)
}

// Survey looks for the lines of tasks that have waiting jobs, the holds of
// limits, and the next times at which something is due.
func (s *Store) Survey(ctx context.Context, tasks, limits []string) (Survey, error) {
	out := Survey{Held: map[string]int64{}, Over: map[string]string{}, Paused: map[string]struct{}{}}
	if err := s.InPlace(); err != nil {
		return out, err
	}
	var rows []surveyRow
	err := s.askSurvey(ctx, func(h Handle) (err error) {
		rows, err = selectRows[surveyRow](ctx, h, s.text(surveySQL), s.names(tasks), s.names(limits), s.given())
		return err
	})
	if err != nil {
		return out, fmt.Errorf("look for work: %w", err)
	}
	for _, r := range rows {
		var at int64
		if r.At != nil {
			at = *r.At
		}
		switch r.Kind {
		case "line":
			out.Lines = append(out.Lines, Line{Task: r.Name, Queue: r.Queue})
		case "limit":
			out.Held[r.Name], out.Over[r.Name] = at, r.Queue
		case "paused":
			out.Paused[r.Queue] = struct{}{}
		case "expiry":
			out.Expiry = at
		case "due":
			out.Due = at
		case "lease":
			out.Lease = at
		case "now":
			out.Now = at
		}
	}
	return out, nil
}
