package store

import (
	"context"
	"fmt"
	"slices"
)

// Revival names a dead letter and the id of the job that is to come of it.
type Revival struct {
	ID  int64  `json:"id"`
	UID string `json:"uid"`
}

// Replayed says what became of one dead letter of a replay.
type Replayed struct {
	ID    int64  `db:"id"`     // the dead letter
	JobID string `db:"job_id"` // the job that died
	NewID string `db:"uid"`    // the job that was made of it, or that holds its unique key
	// Skipped: a live job holds the unique key; the dead letter stays.
	Skipped bool
}

// What a job had moves from table to table within the database, whatever its
// size. The new job has nothing behind it: no attempts, no expiry, no claim.
var (
	lockLettersSQL = &statement{
		postgres: `select id, job_id from weir_dead where id = any($1::bigint[]) order by id for update`,
		sqlite:   `select id, job_id from weir_dead where id in (select value from json_each($1))`,
	}
	reviveSQL = func() *statement {
		const revive = `
insert into weir_jobs (uid, task, queue, state, rank, first_due, run_at, enqueued_at, args, metadata, unique_key, max_retries, timeout, replay_of, replays)
select %s, d.task, d.queue, 0, d.rank, %[2]s, %[2]s, %[2]s, d.args, d.job_metadata, d.unique_key, d.max_retries, d.timeout, d.job_id, d.replays + 1
`
		return &statement{
			postgres: `
with c as materialized (select coalesce($2::bigint, ` + pgNow + `) as now)` + fmt.Sprintf(revive, `r.uid`, `c.now`) + `
from rows from (json_to_recordset($1::json) as (id bigint, uid uuid)) with ordinality as r(id, uid, ord)
join weir_dead d on d.id = r.id cross join c order by r.ord
on conflict do nothing returning uid, task, queue, replay_of`,
			sqlite: fmt.Sprintf(revive, `r.value ->> 'uid'`, `$2`) + `
from json_each($1) r join weir_dead d on d.id = r.value ->> 'id' where true order by r.key
on conflict do nothing returning uid, task, queue, replay_of`,
		}
	}()
	rivalsSQL = &statement{
		postgres: `
select d.id, d.job_id, j.uid from weir_dead d,
lateral (select uid from weir_jobs where task = d.task and unique_key = d.unique_key limit 1) j
where d.id = any($1::bigint[])`,
		sqlite: `
select d.id, d.job_id, j.uid from weir_dead d join weir_jobs j on j.task = d.task and j.unique_key = d.unique_key
where d.id in (select value from json_each($1))`,
	}
	dropDeadSQL = counted(``,
		`delete from weir_dead where id = any($1::bigint[])`,
		`delete from weir_dead where id in (select value from json_each($1))`)
)

// ReplayDead makes new jobs of dead letters in one transaction, in the order
// given, and answers for those that are there: each goes and a new job comes,
// or it stays because a live job holds its unique key. What an operator does
// is recorded in the same transaction; act is nil where none did it.
func (s *Store) ReplayDead(ctx context.Context, set []Revival, act *Act) ([]Replayed, error) {
	var out []Replayed
	var wake Wake
	err := s.changeDead(ctx, func(t *tx) (err error) {
		out, wake, err = s.replayDead(ctx, t, set)
		if err != nil {
			return err
		}
		done := int64(len(out))
		for _, r := range out {
			if r.Skipped {
				done--
			}
		}
		return s.record(ctx, t, act, done)
	})
	if err != nil {
		return nil, fmt.Errorf("replay %d dead letters: %w", len(set), err)
	}
	s.Wake(ctx, wake)
	return out, nil
}

func (s *Store) replayDead(ctx context.Context, t *tx, set []Revival) (out []Replayed, wake Wake, err error) {
	ids := make([]int64, len(set))
	for i, r := range set {
		ids[i] = r.ID
	}
	there, err := selectRows[Replayed](ctx, t, s.text(lockLettersSQL), s.ids(ids))
	if err != nil {
		return nil, wake, err
	}
	byID := make(map[int64]*Replayed, len(there))
	byJob := make(map[string]*Replayed, len(there))
	for i := range there {
		byID[there[i].ID], byJob[there[i].JobID] = &there[i], &there[i]
	}
	left := slices.Clone(set)
	lines := map[Line]struct{}{}
	// A letter of which no job was made lost to a live one with its unique key.
	// If that one has ended in between, it is simply tried again.
	for tries := 0; ; tries++ {
		left = slices.DeleteFunc(left, func(r Revival) bool { l, ok := byID[r.ID]; return !ok || l.NewID != "" })
		if len(left) == 0 {
			break
		}
		if tries == 5 {
			return nil, wake, fmt.Errorf("dead letter %d: the holder of its unique key keeps changing", left[0].ID)
		}
		jobs, err := selectJSON[struct {
			Line
			UID      string `db:"uid"`
			ReplayOf string `db:"replay_of"`
		}](ctx, s, t, reviveSQL, left, s.given())
		if err != nil {
			return nil, wake, err
		}
		for _, j := range jobs {
			lines[j.Line] = struct{}{}
			byJob[j.ReplayOf].NewID = j.UID
		}
		if len(jobs) == len(left) {
			break
		}
		rivals, err := s.rivals(ctx, t, unmade(left, byID))
		if err != nil {
			return nil, wake, err
		}
		for _, r := range rivals {
			*byID[r.ID] = r
		}
	}
	gone := make([]int64, 0, len(set))
	for _, r := range set {
		if l, ok := byID[r.ID]; ok {
			out = append(out, *l)
			if !l.Skipped {
				gone = append(gone, r.ID)
			}
		}
	}
	for line := range lines {
		wake.Lines = append(wake.Lines, line)
	}
	_, err = s.unbury(ctx, t, dropDeadSQL, s.ids(gone))
	return out, wake, err
}

// unmade are the letters of which no job was made.
func unmade(set []Revival, byID map[int64]*Replayed) []int64 {
	var ids []int64
	for _, r := range set {
		if byID[r.ID].NewID == "" {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// rivals are the dead letters among these whose unique key a live job holds.
func (s *Store) rivals(ctx context.Context, h Handle, ids []int64) ([]Replayed, error) {
	rows, err := selectRows[Replayed](ctx, h, s.text(rivalsSQL), s.ids(ids))
	for i := range rows {
		rows[i].Skipped = true
	}
	return rows, err
}

// DeadRivals lists the dead letters among these that a replay would skip now,
// and the jobs that hold their unique keys.
func (s *Store) DeadRivals(ctx context.Context, ids []int64) (rows []Replayed, err error) {
	err = s.guarded(ctx, func(h Handle) error {
		rows, err = s.rivals(ctx, h, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for the holders of unique keys: %w", err)
	}
	return rows, nil
}

// PurgeDead deletes dead letters in one transaction and returns how many were
// there. It is recorded as an act of an operator's.
func (s *Store) PurgeDead(ctx context.Context, ids []int64, act *Act) (int64, error) {
	var n int64
	err := s.changeDead(ctx, func(t *tx) (err error) {
		if n, err = s.unbury(ctx, t, dropDeadSQL, s.ids(ids)); err != nil {
			return err
		}
		return s.record(ctx, t, act, n)
	})
	if err != nil {
		return 0, fmt.Errorf("purge %d dead letters: %w", len(ids), err)
	}
	return n, nil
}
