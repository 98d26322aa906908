package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weirq/weir/bucket"
)

// DeclaredQuota is a limit as a process declares it under the fixed-window
// strategy.
type DeclaredQuota struct {
	Name   string
	Quota  bucket.Quota
	Tasks  []string
	Queues []string
}

// What was declared last is kept for people: each process enforces its own. A new
// row has no window; the first start opens one. A row that says it already is left
// out before the insert: that would wait for the row's lock, whatever its where says.
var declareQuotasSQL = &statement{
	postgres: `
insert into weir_limits (name, rate_count, rate_period, burst, level, remainder, stamp, covers)
select r.name, r.count, r.period, 0, r.count, 0, coalesce($2::bigint, ` + pgNow + `), r.covers
from json_to_recordset($1::json) as r(name text, count bigint, period bigint, covers text)
where not exists (
    select 1 from weir_limits l
    where l.name = r.name and l.key = '' and (l.rate_count, l.rate_period, l.covers) = (r.count, r.period, r.covers))
order by r.name collate "C"
on conflict (name, key) do update set rate_count = excluded.rate_count, rate_period = excluded.rate_period, covers = excluded.covers
where (weir_limits.rate_count, weir_limits.rate_period, weir_limits.covers) is distinct from (excluded.rate_count, excluded.rate_period, excluded.covers)`,
	sqlite: `
insert into weir_limits (name, rate_count, rate_period, burst, level, remainder, stamp, covers)
select r.value ->> 'name', r.value ->> 'count', r.value ->> 'period', 0, r.value ->> 'count', 0, $2, r.value ->> 'covers'
from json_each($1) r
where not exists (
    select 1 from weir_limits l
    where l.name = r.value ->> 'name' and l.key = ''
      and (l.rate_count, l.rate_period, l.covers) = (r.value ->> 'count', r.value ->> 'period', r.value ->> 'covers'))
order by 1
on conflict (name, key) do update set rate_count = excluded.rate_count, rate_period = excluded.rate_period, covers = excluded.covers
where (weir_limits.rate_count, weir_limits.rate_period, weir_limits.covers) is not (excluded.rate_count, excluded.rate_period, excluded.covers)`,
}

// DeclareQuotas makes sure that each limit has its row. One that is as declared is
// not written to; another that a session keeps locked is ErrLocked. PostgreSQL.
func (s *Store) DeclareQuotas(ctx context.Context, quotas []DeclaredQuota) error {
	if len(quotas) == 0 {
		return nil
	}
	rows := make([]declaredRow, 0, len(quotas))
	for _, q := range quotas {
		covers, err := json.Marshal(Covers{Tasks: q.Tasks, Queues: q.Queues})
		if err != nil {
			return fmt.Errorf("limit %q: %w", q.Name, err)
		}
		rows = append(rows, declaredRow{
			Name: q.Name, Count: q.Quota.Count * bucket.Token, Period: q.Quota.Period.Microseconds(), Covers: string(covers),
		})
	}
	err := s.declare(ctx, func(t *tx) error {
		_, err := s.execJSON(ctx, t, declareQuotasSQL, rows, s.given())
		return err
	})
	if err != nil {
		return fmt.Errorf("declare %d limits: %w", len(quotas), err)
	}
	return nil
}

// Quota is a limit's row under the fixed-window strategy, as people look at it.
type Quota struct {
	Window

	RateCount  int64    `db:"rate_count"`
	RatePeriod int64    `db:"rate_period"`
	OverReason nullText `db:"override_reason"`
	Covers     string   `db:"covers"`
	Started    int64    `db:"started"`
}

// Declared is the quota as it was last declared.
func (q *Quota) Declared() (bucket.Quota, error) {
	quota, err := bucket.NewQuota(q.RateCount/bucket.Token, time.Duration(q.RatePeriod)*time.Microsecond)
	if err != nil {
		return bucket.Quota{}, fmt.Errorf("its row holds no possible window: %w", err)
	}
	return quota, nil
}

const quotaColumns = windowColumns + `, rate_count, rate_period, override_reason, covers, started`

var (
	quotasSQL = &statement{
		postgres: `select ` + quotaColumns + `, coalesce($1::bigint, ` + pgNow + `) as now from weir_limits where key = '' order by name`,
		sqlite:   `select ` + quotaColumns + `, $1 as now from weir_limits where key = '' order by name`,
	}
	quotaSQL = &statement{
		postgres: `select ` + quotaColumns + `, coalesce($1::bigint, ` + pgNow + `) as now from weir_limits where key = '' and name = $2`,
		sqlite:   `select ` + quotaColumns + `, $1 as now from weir_limits where key = '' and name = $2`,
	}
)

// Quotas lists the limits' rows by name, as the fixed-window strategy reads them.
func (s *Store) Quotas(ctx context.Context) ([]Quota, error) {
	rows, err := selectRows[Quota](ctx, s.read, s.text(quotasSQL), s.given())
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return rows, nil
}

// Quota returns the row of the limit of that name, if there is one.
func (s *Store) Quota(ctx context.Context, name string) (Quota, bool, error) {
	rows, err := selectRows[Quota](ctx, s.read, s.text(quotaSQL), s.given(), name)
	if err != nil {
		return Quota{}, false, fmt.Errorf("get limit %q: %w", name, err)
	}
	if len(rows) == 0 {
		return Quota{}, false, nil
	}
	return rows[0], true, nil
}
