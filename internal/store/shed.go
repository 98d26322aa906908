package store

import (
	"context"
	"encoding/json"
	"fmt"
)

// Shed is an excess job of a drop task and the reason it dies with.
type Shed struct {
	ID     int64
	Reason string
}

// The kinds of dead letters.
const (
	KindShed    = "shed"
	KindFailed  = "failed"
	KindExpired = "expired"
)

const shedMetadata = `{"shed":"rate_limit"}`

const (
	deadColumns = `job_id, kind, task, queue, reason, metadata, job_metadata, args, rank, attempt, claim, errors, unique_key,
       max_retries, timeout, deferrals, enqueued_at, first_due, started_at, expires_at, dead_at, replay_of, replays`
	// deadFrom maps a job's row; kind, reason, metadata and time differ.
	deadFrom = `select j.uid, %s, j.task, j.queue, %s, %s, j.metadata, j.args, j.rank, j.attempt, %s, %s, j.unique_key,
       j.max_retries, j.timeout, j.deferrals, j.enqueued_at, j.first_due, j.started_at, j.expires_at, %s, j.replay_of, j.replays`
)

// A batch has few reasons (one for each limit), so it goes reason by reason.
// What died of one reason at one time is told apart by its task alone.
var shedSQL = &statement{
	postgres: `
with j as (delete from weir_jobs where id = any($1::bigint[]) returning *),
dead as (
insert into weir_dead (` + deadColumns + `)
` + fmt.Sprintf(deadFrom, `'`+KindShed+`'`, `$2`, `'`+shedMetadata+`'`, `j.claim`, `j.errors`, `$3::bigint`) + `
from j order by j.rank, j.first_due, j.id on conflict do nothing returning task)
select task, count(*) as count from dead group by task`,
	sqlite: `
insert into weir_dead (` + deadColumns + `)
` + fmt.Sprintf(deadFrom, `'`+KindShed+`'`, `$2`, `'`+shedMetadata+`'`, `j.claim`, `j.errors`, `$3`) + `
from weir_jobs j where j.id in (select value from json_each($1)) order by j.rank, j.first_due, j.id on conflict do nothing
returning task, 1 as count`,
}

var deleteSQL = &statement{sqlite: `delete from weir_jobs where id in (select value from json_each($1))`}

func (s *Store) shed(ctx context.Context, t *tx, sheds []Shed, now int64) error {
	byReason := map[string][]int64{}
	var reasons []string
	for _, x := range sheds {
		if _, seen := byReason[x.Reason]; !seen {
			reasons = append(reasons, x.Reason)
		}
		byReason[x.Reason] = append(byReason[x.Reason], x.ID)
	}
	for _, reason := range reasons {
		ids := byReason[reason]
		tasks, err := selectRows[struct {
			Task  string `db:"task"`
			Count int64  `db:"count"`
		}](ctx, t, s.moving(t, shedSQL), s.ids(ids), reason, now)
		for _, r := range tasks {
			t.countDead(deadGroup{KindShed, r.Task, reasonClass(reason), now / hour}, r.Count)
		}
		if err == nil && s.target.dialect == SQLite {
			_, err = s.exec(ctx, t, deleteSQL, s.ids(ids))
		}
		if err != nil {
			return fmt.Errorf("shed %d jobs: %w", len(ids), err)
		}
	}
	return nil
}

// AttemptError is one attempt's error, as kept with a job.
type AttemptError struct {
	Attempt int    `json:"attempt"`
	At      int64  `json:"at"` // microseconds
	Error   string `json:"error"`
}

// ParseErrors reads a job's list of errors.
func ParseErrors(text string) []AttemptError {
	var list []AttemptError
	if text == "" || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list
}
