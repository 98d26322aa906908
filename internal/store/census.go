package store

import (
	"context"
	"fmt"
)

// Ended is how many jobs have ended, of the latest CountBound + 1.
type Ended struct {
	Completed int64 `db:"completed"`
	Cancelled int64 `db:"cancelled"`
}

// Cancelled jobs may be rare, so they are not looked for: the latest are told
// apart.
var endedCountSQL = &statement{postgres: `
select count(case when state = 3 then 1 end) as completed, count(case when state = 4 then 1 end) as cancelled
from (select state from weir_history order by id desc limit $1) h`}

// CountEnded counts the jobs of the history.
func (s *Store) CountEnded(ctx context.Context) (Ended, error) {
	out, err := selectRow[Ended](ctx, s.read, s.text(endedCountSQL), CountBound+1)
	if err != nil {
		return Ended{}, fmt.Errorf("count ended jobs: %w", err)
	}
	return out, nil
}

var deadKindsSQL = &statement{postgres: `select kind, cast(sum(count) as bigint) as count from weir_dead_counts group by kind`}

// DeadByKind counts the dead letters by kind.
func (s *Store) DeadByKind(ctx context.Context) (failed, expired, shed int64, err error) {
	rows, err := selectRows[struct {
		Kind  string `db:"kind"`
		Count int64  `db:"count"`
	}](ctx, s.read, s.text(deadKindsSQL))
	if err != nil {
		return 0, 0, 0, fmt.Errorf("count dead letters: %w", err)
	}
	for _, r := range rows {
		switch r.Kind {
		case KindFailed:
			failed = r.Count
		case KindExpired:
			expired = r.Count
		case KindShed:
			shed = r.Count
		}
	}
	return failed, expired, shed, nil
}
