package store

import (
	"context"
	"fmt"
)

// locking is a statement that locks rows, in two forms: one waits for a row
// that another session has locked, one passes over it.
type locking struct{ wait, skip *statement }

func (l locking) of(skip bool) *statement {
	if skip {
		return l.skip
	}
	return l.wait
}

func lockingStatements(statementFor func(lock string) *statement) locking {
	return locking{wait: statementFor(`for update`), skip: statementFor(`for update skip locked`)}
}

var lockedJobsSQL = &statement{postgres: `
with running as materialized (
    select id from weir_jobs where id = any($1::bigint[]) and ` + pgSealed + ` and state = 1
), mine as materialized (
    select id from weir_jobs where id = any(array(select id from running)) order by id for update skip locked
)
select id from running except select id from mine`}

// unlocked locks the jobs of results as far as no other session has them
// locked, and parts the results by that. It is asked on PostgreSQL alone.
func (s *Store) unlocked(ctx context.Context, t *tx, results []Result) (free, locked []Result, err error) {
	if len(results) == 0 {
		return nil, nil, nil
	}
	ids, seals := seals(results)
	rows, err := selectRows[struct {
		ID int64 `db:"id"`
	}](ctx, t, s.text(lockedJobsSQL), s.ids(ids), s.ids(seals))
	if err != nil {
		return nil, nil, fmt.Errorf("lock %d jobs: %w", len(ids), err)
	}
	taken := make(map[int64]struct{}, len(rows))
	for _, r := range rows {
		taken[r.ID] = struct{}{}
	}
	for _, r := range results {
		if _, busy := taken[r.ID]; busy {
			locked = append(locked, r)
		} else {
			free = append(free, r)
		}
	}
	return free, locked, nil
}
