package store

import (
	"context"
	"fmt"
)

// DeadRetry says which failed jobs of a task are replayed without anybody's
// doing: those that died before a time and were replayed fewer than Most times.
type DeadRetry struct {
	Task   string
	Before int64 // microseconds
	Most   int
}

// Each number of replays is a range of its own of the index, so that what has
// had its replays is passed over, however much of it there is. What could not
// be replayed because a live job holds its unique key is left out.
var retryDeadSQL = func() *statement {
	const free = ` and (d.unique_key is null or not exists (select 1 from weir_jobs j where j.task = d.task and j.unique_key = d.unique_key))`
	const name = `select d.id, d.job_id, d.kind, d.dead_at, length(d.args) as args_size`
	return &statement{
		postgres: name + `
from json_to_recordset($1::json) as r(task text, replays int, before bigint),
lateral (select * from weir_dead d where d.kind = 'failed' and d.task = r.task and d.replays = r.replays and d.dead_at <= r.before` + free + `
         order by d.dead_at, d.id limit $2) d
limit $2`,
		sqlite: name + `
from json_each($1) r cross join weir_dead d
where d.kind = 'failed' and d.task = r.value ->> 'task' and d.replays = r.value ->> 'replays' and d.dead_at <= r.value ->> 'before'` + free + `
limit $2`,
	}
}()

// RetryableDead names dead letters that are to be replayed, up to a number.
func (s *Store) RetryableDead(ctx context.Context, policies []DeadRetry, most int) (rows []DeadLetter, err error) {
	type span struct {
		Task    string `json:"task"`
		Replays int    `json:"replays"`
		Before  int64  `json:"before"`
	}
	var spans []span
	for _, p := range policies {
		for n := range p.Most {
			spans = append(spans, span{p.Task, n, p.Before})
		}
	}
	err = s.guarded(ctx, func(h Handle) error {
		rows, err = selectJSON[DeadLetter](ctx, s, h, retryDeadSQL, spans, most)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for dead letters to retry: %w", err)
	}
	return rows, nil
}
