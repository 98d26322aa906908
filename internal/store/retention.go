package store

import (
	"context"
	"fmt"
	"time"
)

// One batch of a purge of the history, small enough for the writer.
const historyBatch = 1000

var purgeHistorySQL = &statement{
	postgres: `
delete from weir_history where id = any(array(
    select id from weir_history where finished_at < (select coalesce($1::bigint, ` + pgNow + `)) - $2 order by finished_at limit $3))`,
	sqlite: `
delete from weir_history where id in (
    select id from weir_history where finished_at < $1 - $2 order by finished_at limit $3)`,
}

// PurgeHistory removes finished jobs older than keep, a batch in a transaction,
// and returns how many went.
func (s *Store) PurgeHistory(ctx context.Context, keep time.Duration) (removed int64, err error) {
	for {
		var batch int64
		err := s.write(ctx, func(t *tx) (err error) {
			batch, err = s.exec(ctx, t, purgeHistorySQL, s.given(), keep.Microseconds(), historyBatch)
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
