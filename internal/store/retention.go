package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// One batch of a purge of the history, small enough for the writer.
const historyBatch = 1000

// The lower bound spares each batch what the one before has passed: rows lie
// about in the order of their end, which PostgreSQL's index knows by ranges.
var purgeHistorySQL = &statement{
	postgres: `
with gone as (
    delete from weir_history where id = any(array(
        select id from weir_history where finished_at >= $2 and finished_at < (select coalesce($1::bigint, ` + pgNow + `)) - $3 limit $4))
    returning finished_at)
select count(*) as removed, max(finished_at) as last from gone`,
	sqlite: `
delete from weir_history where id in (
    select id from weir_history where finished_at >= $2 and finished_at < $1 - $3 order by finished_at limit $4)
returning 1 as removed, finished_at as last`,
}

// PurgeHistory removes finished jobs older than keep, a batch in a transaction,
// and returns how many went.
func (s *Store) PurgeHistory(ctx context.Context, keep time.Duration) (removed int64, err error) {
	for after := int64(0); ; {
		var batch int64
		err := s.write(ctx, func(t *tx) error {
			rows, err := selectRows[struct {
				Removed int64         `db:"removed"`
				Last    sql.NullInt64 `db:"last"`
			}](ctx, t, s.text(purgeHistorySQL), s.given(), after, keep.Microseconds(), historyBatch)
			batch = 0
			for _, r := range rows {
				batch += r.Removed
				after = max(after, r.Last.Int64)
			}
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("remove finished jobs: %w", err)
		}
		if removed += batch; batch < historyBatch {
			return removed, nil
		}
	}
}
