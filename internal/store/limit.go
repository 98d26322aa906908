package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirq/weir/bucket"
)

// Limit is a limit's row: its bucket, its hold, and an operator's word on it.
type Limit struct {
	Name       string        `db:"name"`
	RateCount  int64         `db:"rate_count"`
	RatePeriod int64         `db:"rate_period"`
	Burst      int64         `db:"burst"`
	Level      int64         `db:"level"`
	Remainder  int64         `db:"remainder"`
	Stamp      int64         `db:"stamp"`
	HeldFrom   int64         `db:"held_from"`
	HeldUntil  int64         `db:"held_until"` // held while now is before it
	DeferredAt int64         `db:"deferred_at"`
	Paused     bool          `db:"paused"`
	Rate       nullText      `db:"override_rate"`
	OverBurst  sql.NullInt64 `db:"override_burst"`
	OverUntil  sql.NullInt64 `db:"override_until"`
	OverReason nullText      `db:"override_reason"`
	Covers     string        `db:"covers"`
	Started    int64         `db:"started"`
	Deferred   int64         `db:"deferred"`
	Shed       int64         `db:"shed"`
	// Busy: the row is locked by another session and was not read.
	Busy bool `db:"-"`
}

type nullText = sql.NullString

// Bucket is the row's bucket, under the limit it was last run with. A row
// that somebody damaged is read as the nearest possible one.
func (l *Limit) Bucket() (bucket.Bucket, error) {
	rate, err := bucket.FromParts(l.RateCount, l.RatePeriod)
	if err != nil {
		return bucket.Bucket{}, fmt.Errorf("its row holds no possible rate: %w", err)
	}
	b := bucket.Bucket{
		Limit: bucket.Limit{Rate: rate, Burst: l.Burst},
		Level: l.Level, Remainder: l.Remainder, Stamp: l.Stamp,
	}
	b, _ = b.Repair()
	return b, nil
}

// SetBucket writes b into the row.
func (l *Limit) SetBucket(b bucket.Bucket) {
	l.RateCount, l.RatePeriod, l.Burst = b.Limit.Rate.Count(), b.Limit.Rate.Period().Microseconds(), b.Limit.Burst
	l.Level, l.Remainder, l.Stamp = b.Level, b.Remainder, b.Stamp
}

// Declared is a limit as a process declares it.
type Declared struct {
	Name   string
	Limit  bucket.Limit
	Tasks  []string
	Queues []string
}

const limitColumns = `name, rate_count, rate_period, burst, level, remainder, stamp, held_from, held_until, deferred_at,
       paused, override_rate, override_burst, override_until, override_reason, covers, started, deferred, shed`

// Rows are inserted in the order in which looks lock them, by bytes. A new limit
// starts full. An old one keeps what it has; a new rate reaches
// it at the next look, which first credits the time at the old one. A row that is as
// declared is left out before the insert: that would wait for the row's lock, whatever
// its where says.
var declareLimitsSQL = &statement{
	postgres: `
insert into weir_limits (name, rate_count, rate_period, burst, level, remainder, stamp, covers)
select r.name, r.count, r.period, r.burst, r.capacity, 0, coalesce($2::bigint, ` + pgNow + `), r.covers
from json_to_recordset($1::json) as r(name text, count bigint, period bigint, burst bigint, capacity bigint, covers text)
where not exists (select 1 from weir_limits l where l.name = r.name and l.key = '' and l.covers = r.covers)
order by r.name collate "C"
on conflict (name, key) do update set covers = excluded.covers where weir_limits.covers <> excluded.covers`,
	sqlite: `
insert into weir_limits (name, rate_count, rate_period, burst, level, remainder, stamp, covers)
select r.value ->> 'name', r.value ->> 'count', r.value ->> 'period', r.value ->> 'burst', r.value ->> 'capacity', 0, $2, r.value ->> 'covers'
from json_each($1) r
where not exists (select 1 from weir_limits l where l.name = r.value ->> 'name' and l.key = '' and l.covers = r.value ->> 'covers')
order by 1
on conflict (name, key) do update set covers = excluded.covers where weir_limits.covers <> excluded.covers`,
}

type declaredRow struct {
	Name     string `json:"name"`
	Count    int64  `json:"count"`
	Period   int64  `json:"period"`
	Burst    int64  `json:"burst"`
	Capacity int64  `json:"capacity"`
	Covers   string `json:"covers"`
}

func (s *Store) declareLimits(ctx context.Context, h Handle, limits []Declared) error {
	if len(limits) == 0 {
		return nil
	}
	rows := make([]declaredRow, 0, len(limits))
	for _, l := range limits {
		covers, err := json.Marshal(Covers{Tasks: l.Tasks, Queues: l.Queues})
		if err != nil {
			return fmt.Errorf("limit %q: %w", l.Name, err)
		}
		rows = append(rows, declaredRow{
			Name: l.Name, Count: l.Limit.Rate.Count(), Period: l.Limit.Rate.Period().Microseconds(),
			Burst: l.Limit.Burst, Capacity: l.Limit.Capacity(), Covers: string(covers),
		})
	}
	if _, err := s.execJSON(ctx, h, declareLimitsSQL, rows, s.given()); err != nil {
		return fmt.Errorf("declare limits: %w", err)
	}
	return nil
}

// Covers is what a limit covers, as a limit's row tells it to people.
type Covers struct {
	Tasks  []string `json:"tasks,omitempty"`
	Queues []string `json:"queues,omitempty"`
}

var (
	limitsSQL = &statement{postgres: `select ` + limitColumns + ` from weir_limits where key = '' order by name`}
	limitSQL  = &statement{postgres: `select ` + limitColumns + ` from weir_limits where key = '' and name = $1`}
)

// Limits lists the limits' rows by name.
func (s *Store) Limits(ctx context.Context) ([]Limit, error) {
	rows, err := selectRows[Limit](ctx, s.read, s.text(limitsSQL))
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return rows, nil
}

// Limit returns the row of the limit of that name, if there is one.
func (s *Store) Limit(ctx context.Context, name string) (Limit, bool, error) {
	rows, err := selectRows[Limit](ctx, s.read, s.text(limitSQL), name)
	if err != nil {
		return Limit{}, false, fmt.Errorf("get limit %q: %w", name, err)
	}
	if len(rows) == 0 {
		return Limit{}, false, nil
	}
	return rows[0], true, nil
}

// The clock is read per row, after that row's lock is held: the last row's
// reading comes after every lock. Inside the locking select itself it would
// be read before the wait.
var lockLimitsSQL = lockingStatements(func(lock string) *statement {
	return &statement{
		lasting: true,
		postgres: `
with l as materialized (
    select ` + limitColumns + ` from weir_limits
    where key = '' and name = any($1::text[])
    order by name ` + lock + `
)
select l.*, coalesce($2::bigint, ` + pgNow + `) as now from l`,
		sqlite: `
select ` + limitColumns + `, $2 as now from weir_limits
where key = '' and name in (select value from json_each($1)) order by name`,
	}
})

// lockLimits locks the rows of limits, in the order of their names, and then
// reads the clock. A row that is gone is declared anew, full; when locked ones
// are skipped, what is not there counts as Busy.
func (s *Store) lockLimits(ctx context.Context, t *tx, declared []Declared, skip bool) ([]Limit, int64, error) {
	rows, now, err := s.lockRows(ctx, t, declared, skip)
	if err != nil || len(rows) == len(declared) {
		return rows, now, err
	}
	if skip {
		return besideBusy(declared, rows), now, nil
	}
	if err := s.declareLimits(ctx, t, declared); err != nil {
		return nil, 0, err
	}
	rows, now, err = s.lockRows(ctx, t, declared, skip)
	if err == nil && len(rows) != len(declared) {
		err = fmt.Errorf("lock %d limits: %d rows are there", len(declared), len(rows))
	}
	return rows, now, err
}

// besideBusy puts the rows that were read in the order of what was asked for.
func besideBusy(declared []Declared, read []Limit) []Limit {
	all := make([]Limit, len(declared))
	for i, d := range declared {
		if all[i] = (Limit{Name: d.Name, Busy: true}); len(read) > 0 && read[0].Name == d.Name {
			all[i], read = read[0], read[1:]
		}
	}
	return all
}

func (s *Store) lockRows(ctx context.Context, t *tx, declared []Declared, skip bool) ([]Limit, int64, error) {
	names := make([]string, len(declared))
	for i, l := range declared {
		names[i] = l.Name
	}
	type lockedRow struct {
		Limit
		Now int64 `db:"now"`
	}
	var rows []lockedRow
	if len(names) > 0 {
		var err error
		if rows, err = selectRows[lockedRow](ctx, t, s.text(lockLimitsSQL.of(skip)), s.names(names), s.given()); err != nil {
			return nil, 0, fmt.Errorf("lock limits: %w", err)
		}
	}
	if len(rows) == 0 {
		now, err := s.nowIn(ctx, t)
		return nil, now, err
	}
	limits := make([]Limit, 0, len(rows))
	var now int64
	for _, r := range rows {
		now = max(now, r.Now)
		limits = append(limits, r.Limit)
	}
	slices.SortFunc(limits, func(a, b Limit) int { return strings.Compare(a.Name, b.Name) })
	return limits, now, nil
}

var saveLimitsSQL = &statement{
	postgres: `
update weir_limits l set rate_count = r.rate_count, rate_period = r.rate_period, burst = r.burst,
       level = r.level, remainder = r.remainder, stamp = r.stamp,
       held_from = r.held_from, held_until = r.held_until, deferred_at = r.deferred_at,
       started = r.started, deferred = r.deferred, shed = r.shed
from json_to_recordset($1::json) as r(name text, rate_count bigint, rate_period bigint, burst bigint, level bigint, remainder bigint,
       stamp bigint, held_from bigint, held_until bigint, deferred_at bigint, started bigint, deferred bigint, shed bigint)
where l.name = r.name and l.key = ''`,
	sqlite: `
update weir_limits set rate_count = r.value ->> 'rate_count', rate_period = r.value ->> 'rate_period', burst = r.value ->> 'burst',
       level = r.value ->> 'level', remainder = r.value ->> 'remainder', stamp = r.value ->> 'stamp',
       held_from = r.value ->> 'held_from', held_until = r.value ->> 'held_until', deferred_at = r.value ->> 'deferred_at',
       started = r.value ->> 'started', deferred = r.value ->> 'deferred', shed = r.value ->> 'shed'
from json_each($1) r
where weir_limits.name = r.value ->> 'name' and weir_limits.key = ''`,
}

type savedLimit struct {
	Name       string `json:"name"`
	RateCount  int64  `json:"rate_count"`
	RatePeriod int64  `json:"rate_period"`
	Burst      int64  `json:"burst"`
	Level      int64  `json:"level"`
	Remainder  int64  `json:"remainder"`
	Stamp      int64  `json:"stamp"`
	HeldFrom   int64  `json:"held_from"`
	HeldUntil  int64  `json:"held_until"`
	DeferredAt int64  `json:"deferred_at"`
	Started    int64  `json:"started"`
	Deferred   int64  `json:"deferred"`
	Shed       int64  `json:"shed"`
}

// saveLimits writes the locked rows back. Spent tokens that were not written
// would be minted, so every row is accounted for.
func (s *Store) saveLimits(ctx context.Context, t *tx, limits []Limit) error {
	if len(limits) == 0 {
		return nil
	}
	rows := make([]savedLimit, len(limits))
	for i := range limits {
		l := &limits[i]
		rows[i] = savedLimit{
			l.Name, l.RateCount, l.RatePeriod, l.Burst, l.Level, l.Remainder, l.Stamp,
			l.HeldFrom, l.HeldUntil, l.DeferredAt, l.Started, l.Deferred, l.Shed,
		}
	}
	n, err := s.execJSON(ctx, t, saveLimitsSQL, rows)
	if err == nil && n != int64(len(limits)) {
		err = fmt.Errorf("%d of %d rows were there", n, len(limits))
	}
	if err != nil {
		return fmt.Errorf("save limits: %w", err)
	}
	return nil
}
