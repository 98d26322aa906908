package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Dead letters are counted where they come and go: every transaction that
// makes some or takes some away brings the counts up to date just before its
// commit, in a statement for each table of them. A count is thus never walked for, and who counts
// waits for nobody until it is about to end.

// deadGroup is what dead letters have in common that are counted together.
type deadGroup struct {
	Kind   string `db:"kind"   json:"kind"`
	Task   string `db:"task"   json:"task"`
	Reason string `db:"reason" json:"reason"` // its class
	Hour   int64  `db:"hour"   json:"hour"`   // of the death, since 1970
}

// A reason's class is its first line, up to 80 bytes of whole characters. That
// of an expired job leaves out the time, which would make each a class of its
// own. So every class is the beginning of its reasons.
const (
	pgReasonClass = `case when kind = '` + KindExpired + `' then '` + expiredReason + `' else (
    select case when octet_length(line) <= 80 then line
           else left(line, (select max(n) from generate_series(20, 80) n where octet_length(left(line, n)) <= 80)) end
    from (select split_part(reason, E'\n', 1) as line) l) end`
	sqliteReasonClass = `case when kind = '` + KindExpired + `' then '` + expiredReason + `' else (
    select case when length(cast(line as blob)) <= 80 then line
           else substr(line, 1, (
               with recursive cut(n) as (select 20 union all select n + 1 from cut where n < 80)
               select max(n) from cut where length(cast(substr(line, 1, n) as blob)) <= 80)) end
    from (select case when instr(reason, char(10)) > 0 then substr(reason, 1, instr(reason, char(10)) - 1) else reason end as line)) end`

	hour        = 3_600_000_000 // microseconds
	hourOfDeath = `dead_at / 3600000000`
)

// reasonClass is the same of a reason that is at hand; of an expired job none
// ever is.
func reasonClass(reason string) string {
	line, _, _ := strings.Cut(reason, "\n")
	return beginning(line, 80)
}

// counted makes a change of weir_dead answer with the groups of the dead
// letters that it made or took away. On PostgreSQL other changes may stand
// before it.
func counted(before, postgres, sqlite string) *statement {
	if before != "" {
		before += ",\n"
	}
	return &statement{
		postgres: `with ` + before + `dead as (` + postgres + ` returning kind, task, reason, dead_at)
select kind, task, ` + pgReasonClass + ` as reason, ` + hourOfDeath + ` as hour, count(*) as count from dead group by 1, 2, 3, 4`,
		sqlite: sqlite + `
returning kind, task, ` + sqliteReasonClass + ` as reason, ` + hourOfDeath + ` as hour, 1 as count`,
	}
}

// bury makes dead letters and returns how many.
func (s *Store) bury(ctx context.Context, t *tx, st *statement, args ...any) (int64, error) {
	return s.changed(ctx, t, 1, st, args...)
}

// unbury takes dead letters away and returns how many.
func (s *Store) unbury(ctx context.Context, t *tx, st *statement, args ...any) (int64, error) {
	return s.changed(ctx, t, -1, st, args...)
}

func (s *Store) changed(ctx context.Context, t *tx, each int64, st *statement, args ...any) (n int64, err error) {
	groups, err := selectRows[struct {
		deadGroup
		Count int64 `db:"count"`
	}](ctx, t, s.moving(t, st), args...)
	if err != nil {
		return 0, err
	}
	for _, g := range groups {
		t.countDead(g.deadGroup, each*g.Count)
		n += g.Count
	}
	return n, nil
}

// countDead notes that the dead letters of a group became more or fewer.
func (t *tx) countDead(group deadGroup, by int64) {
	if t.dead == nil {
		t.dead = map[deadGroup]int64{}
	}
	t.dead[group] += by
}

// tally is a table of counts that is kept.
type tally struct{ add, drop *statement }

// keptBy is a tally with these columns as its key, which JSON documents name too.
func keptBy(table string, columns ...string) tally {
	types := map[string]string{"kind": "text", "task": "text", "reason": "text", "hour": "bigint"}
	typed, read, same := make([]string, len(columns)), make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		typed[i], read[i], same[i] = c+" "+types[c], "r.value ->> '"+c+"'", "c."+c+" = r."+c
	}
	key, document := strings.Join(columns, ", "), strings.Join(read, ", ")
	record := `json_to_recordset($1::json) as r(` + strings.Join(typed, ", ") + `, count bigint)`
	insert := `
insert into ` + table + ` (` + key + `, count) select ` + "%s" + `
on conflict (` + key + `) do update set count = ` + table + `.count + excluded.count`
	return tally{
		add: &statement{
			postgres: fmt.Sprintf(insert, key+`, count from `+record),
			sqlite:   fmt.Sprintf(insert, document+`, r.value ->> 'count' from json_each($1) r where true`),
		},
		drop: &statement{
			postgres: `delete from ` + table + ` c using ` + record + ` where c.count <= 0 and ` + strings.Join(same, " and "),
			sqlite:   `delete from ` + table + ` where count <= 0 and (` + key + `) in (select ` + document + ` from json_each($1) r)`,
		},
	}
}

var (
	deadByReason = keptBy("weir_dead_counts", "kind", "task", "reason")
	deadByHour   = keptBy("weir_dead_hours", "hour", "kind", "task")
)

// countedDead is by how many the dead letters of a group became more or fewer.
type countedDead struct {
	deadGroup

	Count int64 `json:"count"`
}

// saveDeadCounts adds what a transaction changed. All lock the rows in one
// order, and nothing after them.
func (s *Store) saveDeadCounts(ctx context.Context, t *tx) error {
	if len(t.dead) == 0 {
		return nil
	}
	byReason, byHour := map[deadGroup]int64{}, map[deadGroup]int64{}
	for g, n := range t.dead {
		byReason[deadGroup{Kind: g.Kind, Task: g.Task, Reason: g.Reason}] += n
		byHour[deadGroup{Kind: g.Kind, Task: g.Task, Hour: g.Hour}] += n
	}
	err := s.saveTally(ctx, t, deadByReason, byReason)
	if err == nil {
		err = s.saveTally(ctx, t, deadByHour, byHour)
	}
	if err != nil {
		return fmt.Errorf("count dead letters: %w", err)
	}
	return nil
}

func (s *Store) saveTally(ctx context.Context, t *tx, in tally, by map[deadGroup]int64) error {
	changes := make([]countedDead, 0, len(by))
	fewer := false
	for group, n := range by {
		if n != 0 {
			changes = append(changes, countedDead{group, n})
		}
		fewer = fewer || n < 0
	}
	if len(changes) == 0 {
		return nil
	}
	slices.SortFunc(changes, func(a, b countedDead) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Hour, b.Hour))
	})
	_, err := s.execJSON(ctx, t, in.add, changes)
	if err == nil && fewer {
		_, err = s.execJSON(ctx, t, in.drop, changes)
	}
	return err
}

// DeadCount is how many dead letters there are of a kind and task with a class
// of reasons.
type DeadCount struct {
	Kind   string `db:"kind"`
	Task   string `db:"task"`
	Reason string `db:"reason"`
	Count  int64  `db:"count"`
}

var deadStatsSQL = &statement{postgres: `
select kind, task, reason, count from weir_dead_counts order by count desc, kind, task, reason limit $1`}

// DeadStats counts dead letters by kind, task and the class of their reason:
// the largest groups, by kind and task.
func (s *Store) DeadStats(ctx context.Context, most int) ([]DeadCount, error) {
	rows, err := selectRows[DeadCount](ctx, s.read, s.text(deadStatsSQL), most)
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	slices.SortStableFunc(rows, func(a, b DeadCount) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Task, b.Task)) })
	return rows, nil
}

// DeadHour is how many dead letters of a kind died within an hour.
type DeadHour struct {
	Kind  string `db:"kind"`
	Hour  int64  `db:"hour"` // hours since 1970, UTC
	Count int64  `db:"count"`
}

var deadHoursSQL = func() *statement {
	const hours = `
select kind, hour, cast(sum(count) as bigint) as count from weir_dead_hours
where hour > (select %s / 3600000000 - $2) group by kind, hour order by hour, kind`
	return &statement{postgres: fmt.Sprintf(hours, `coalesce($1::bigint, `+pgNow+`)`), sqlite: fmt.Sprintf(hours, `$1`)}
}()

// DeadHours counts the dead letters of the last hours, the present one among
// them, by kind and the hour of their death.
func (s *Store) DeadHours(ctx context.Context, hours int) ([]DeadHour, error) {
	rows, err := selectRows[DeadHour](ctx, s.read, s.text(deadHoursSQL), s.given(), hours)
	if err != nil {
		return nil, fmt.Errorf("count dead letters by hour: %w", err)
	}
	return rows, nil
}

var (
	lockDeadSQL     = &statement{postgres: `lock table weir_dead in share mode`}
	forgetCountsSQL = &statement{postgres: `delete from weir_dead_counts`}
	forgetHoursSQL  = &statement{postgres: `delete from weir_dead_hours`}
	recountDeadSQL  = func() *statement {
		recount := func(class string) string {
			return `
insert into weir_dead_counts (kind, task, reason, count)
select kind, task, ` + class + `, count(*) from weir_dead group by 1, 2, 3`
		}
		return &statement{postgres: recount(pgReasonClass), sqlite: recount(sqliteReasonClass)}
	}()
	recountHoursSQL = &statement{postgres: `
insert into weir_dead_hours (hour, kind, task, count)
select ` + hourOfDeath + `, kind, task, count(*) from weir_dead group by 1, 2, 3`}
)

// RecountDead counts all dead letters anew, after somebody changed the table
// by hand. Nothing else makes dead letters meanwhile.
func (s *Store) RecountDead(ctx context.Context) error {
	err := s.write(ctx, func(t *tx) error {
		if s.target.dialect == Postgres {
			if _, err := s.exec(ctx, t, lockDeadSQL); err != nil {
				return err
			}
		}
		for _, st := range []*statement{forgetCountsSQL, forgetHoursSQL, recountDeadSQL, recountHoursSQL} {
			if _, err := s.exec(ctx, t, st); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("count dead letters anew: %w", err)
	}
	return nil
}
