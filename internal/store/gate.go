package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Gate is the row of a task or queue that has a cap or a breaker.
type Gate struct {
	Name       string `db:"name"        json:"name"` // task:NAME or queue:NAME
	Failures   int64  `db:"failures"    json:"failures"`
	WindowFrom int64  `db:"window_from" json:"window_from"`
	OpenedAt   int64  `db:"opened_at"   json:"opened_at"`
	OpenUntil  int64  `db:"open_until"  json:"open_until"` // 0: the breaker is closed
	// Probing is how many jobs run that were started since OpenUntil.
	Probing int `db:"-" json:"-"`
	// Busy: the row is locked by another session and was not read.
	Busy bool `db:"-" json:"-"`
}

// LineCount is how many jobs run under leases that are held, of a line that
// passes one of the gates asked for.
type LineCount struct {
	Line
	Running int `db:"running"`
}

var declareGatesSQL = &statement{
	postgres: `
insert into weir_gates (name) select value from json_array_elements_text($1::json) order by value collate "C" on conflict do nothing`,
	sqlite: `
insert into weir_gates (name) select value from json_each($1) where true order by 1 on conflict do nothing`,
}

var lockGatesSQL = lockingStatements(func(lock string) *statement {
	return &statement{
		lasting: true,
		postgres: `
with g as materialized (
    select * from weir_gates where name = any(array(select value from json_array_elements_text($1::json))) order by name ` + lock + `
)
select g.*, coalesce($2::bigint, ` + pgNow + `) as now from g`,
		sqlite: `select *, $2 as now from weir_gates where name in (select value from json_each($1)) order by name`,
	}
})

// The lease index holds just the running jobs.
var runningSQL = &statement{
	lasting: true,
	postgres: `
select task, queue, count(*) as running from weir_jobs
where lease_until > $1 and state = 1
  and (task = any(array(select value from json_array_elements_text($2::json))) or queue = any(array(select value from json_array_elements_text($3::json))))
group by task, queue`,
	sqlite: `
select task, queue, count(*) as running from weir_jobs
where lease_until > $1 and state = 1 and (task in (select value from json_each($2)) or queue in (select value from json_each($3)))
group by task, queue`,
}

// Of the jobs that run, those that were started since a breaker let probes
// start.
var probingSQL = &statement{
	postgres: `
select g.name, count(*) as running from weir_gates g join weir_jobs j on j.task = substr(g.name, 6)
where g.open_until > 0 and g.name = any(array(select value from json_array_elements_text($2::json)))
  and j.lease_until > $1 and j.state = 1 and j.started_at >= g.open_until
group by g.name`,
	sqlite: `
select g.name, count(*) as running from weir_gates g join weir_jobs j on j.task = substr(g.name, 6)
where g.open_until > 0 and g.name in (select value from json_each($2))
  and j.lease_until > $1 and j.state = 1 and j.started_at >= g.open_until
group by g.name`,
}

// lockGates locks the rows of gates in the order of their names, reads the
// clock, and counts the jobs that run behind them. Whoever starts such a job
// holds the row, so the count stays true until the commit.
func (s *Store) lockGates(ctx context.Context, t *tx, names []string, now int64, skip bool) ([]Gate, []LineCount, int64, error) {
	if len(names) == 0 {
		return nil, nil, now, nil
	}
	type lockedRow struct {
		Gate
		Now int64 `db:"now"`
	}
	rows, err := selectJSON[lockedRow](ctx, s, t, lockGatesSQL.of(skip), names, s.given())
	if err == nil && len(rows) < len(names) && !skip {
		if _, err = s.execJSON(ctx, t, declareGatesSQL, names); err == nil {
			rows, err = selectJSON[lockedRow](ctx, s, t, lockGatesSQL.of(skip), names, s.given())
		}
	}
	if err == nil && len(rows) != len(names) && !skip {
		err = fmt.Errorf("%d of %d rows are there", len(rows), len(names))
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("lock caps and breakers: %w", err)
	}
	gates := make([]Gate, len(names))
	for i, name := range names {
		gates[i] = Gate{Name: name, Busy: true}
	}
	for _, r := range rows {
		i, _ := slices.BinarySearch(names, r.Name)
		gates[i] = r.Gate
		now = max(now, r.Now)
	}
	var tasks, queues []string
	for _, name := range names {
		if task, ok := strings.CutPrefix(name, "task:"); ok {
			tasks = append(tasks, task)
		} else {
			queues = append(queues, strings.TrimPrefix(name, "queue:"))
		}
	}
	counts, err := selectRows[LineCount](ctx, t, s.text(runningSQL), now, document(tasks), document(queues))
	if err != nil {
		return nil, nil, 0, fmt.Errorf("count running jobs: %w", err)
	}
	half := func(g Gate) bool { return g.OpenUntil > 0 && g.OpenUntil <= now }
	if !slices.ContainsFunc(gates, half) {
		return gates, counts, now, nil
	}
	probing, err := selectRows[struct {
		Name    string `db:"name"`
		Running int    `db:"running"`
	}](ctx, t, s.text(probingSQL), now, document(names))
	if err != nil {
		return nil, nil, 0, fmt.Errorf("count probes: %w", err)
	}
	for _, p := range probing {
		i, _ := slices.BinarySearch(names, p.Name)
		gates[i].Probing = p.Running
	}
	return gates, counts, now, nil
}

var saveGatesSQL = &statement{
	postgres: `
update weir_gates g set failures = r.failures, window_from = r.window_from, opened_at = r.opened_at, open_until = r.open_until
from json_to_recordset($1::json) as r(name text, failures bigint, window_from bigint, opened_at bigint, open_until bigint)
where g.name = r.name`,
	sqlite: `
update weir_gates set failures = r.value ->> 'failures', window_from = r.value ->> 'window_from',
       opened_at = r.value ->> 'opened_at', open_until = r.value ->> 'open_until'
from json_each($1) r where weir_gates.name = r.value ->> 'name'`,
}

func (s *Store) saveGates(ctx context.Context, t *tx, gates []Gate) error {
	if len(gates) == 0 {
		return nil
	}
	n, err := s.execJSON(ctx, t, saveGatesSQL, gates)
	if err == nil && n != int64(len(gates)) {
		err = fmt.Errorf("%d of %d rows were there", n, len(gates))
	}
	if err != nil {
		return fmt.Errorf("save breakers: %w", err)
	}
	return nil
}
