package store

import (
	"context"
	"database/sql"
	"fmt"
)

// DeadLetter is a dead letter as stored.
type DeadLetter struct {
	ID          int64          `db:"id"`
	JobID       string         `db:"job_id"`
	Kind        string         `db:"kind"`
	Task        string         `db:"task"`
	Queue       string         `db:"queue"`
	Reason      string         `db:"reason"`
	Metadata    sql.NullString `db:"metadata"`
	JobMetadata sql.NullString `db:"job_metadata"`
	Args        []byte         `db:"args"`
	ArgsSize    int64          `db:"args_size"`
	Rank        int            `db:"rank"`
	Attempt     int            `db:"attempt"`
	Errors      sql.NullString `db:"errors"`
	UniqueKey   sql.NullString `db:"unique_key"`
	MaxRetries  sql.NullInt64  `db:"max_retries"`
	Timeout     sql.NullInt64  `db:"timeout"`
	Deferrals   int64          `db:"deferrals"`
	EnqueuedAt  int64          `db:"enqueued_at"`
	FirstDue    int64          `db:"first_due"`
	DeadAt      int64          `db:"dead_at"`
	Replays     int            `db:"replays"`
}

// Key is the letter's place in the order of death.
func (d *DeadLetter) Key() DeadKey { return DeadKey{At: d.DeadAt, ID: d.ID} }

const deadView = `id, job_id, kind, task, queue, reason, metadata, job_metadata, %s as args, length(args) as args_size, rank, attempt,
       errors, unique_key, max_retries, timeout, deferrals, enqueued_at, first_due, dead_at, replays`

// A dead letter's name and size: what is enough to do something to it.
const deadName = `id, job_id, kind, dead_at, length(args) as args_size`

var (
	getDeadSQL      = &statement{postgres: `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where id = $1`}
	getDeadByJobSQL = &statement{postgres: `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where job_id = $1`}
)

// GetDead returns the dead letter of that entry id, if there is one.
func (s *Store) GetDead(ctx context.Context, id int64) (DeadLetter, bool, error) {
	return s.oneDead(ctx, getDeadSQL, id)
}

// GetDeadByJob returns the dead letter of a job, if there is one.
func (s *Store) GetDeadByJob(ctx context.Context, uid string) (DeadLetter, bool, error) {
	return s.oneDead(ctx, getDeadByJobSQL, uid)
}

func (s *Store) oneDead(ctx context.Context, st *statement, key any) (DeadLetter, bool, error) {
	rows, err := selectRows[DeadLetter](ctx, s.read, s.text(st), key)
	if err != nil {
		return DeadLetter{}, false, fmt.Errorf("get dead letter %v: %w", key, err)
	}
	if len(rows) == 0 {
		return DeadLetter{}, false, nil
	}
	return rows[0], true, nil
}

var (
	wholeDeadSQL = &statement{
		postgres: `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where id = any($1::bigint[])`,
		sqlite:   `select ` + fmt.Sprintf(deadView, `args`) + ` from weir_dead where id in (select value from json_each($1))`,
	}
	findDeadSQL = &statement{
		postgres: `
select ` + deadName + ` from weir_dead where id = any($1::bigint[])
union select ` + deadName + ` from weir_dead where job_id = any($2::uuid[])`,
		sqlite: `
select ` + deadName + ` from weir_dead where id in (select value from json_each($1))
union select ` + deadName + ` from weir_dead where job_id in (select value from json_each($2))`,
	}
)

// WholeDead returns the dead letters of these entry ids with their arguments,
// in no order.
func (s *Store) WholeDead(ctx context.Context, ids []int64) (rows []DeadLetter, err error) {
	err = s.guarded(ctx, func(h Handle) error {
		rows, err = selectRows[DeadLetter](ctx, h, s.text(wholeDeadSQL), s.ids(ids))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get %d dead letters: %w", len(ids), err)
	}
	return rows, nil
}

// FindDead returns the dead letters that these entry ids and job ids name, each
// once and in no order: their ids, kinds, times and sizes alone.
func (s *Store) FindDead(ctx context.Context, ids []int64, uids []string) (rows []DeadLetter, err error) {
	err = s.guarded(ctx, func(h Handle) error {
		rows, err = selectRows[DeadLetter](ctx, h, s.text(findDeadSQL), s.ids(ids), s.uids(uids))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find %d dead letters: %w", len(ids)+len(uids), err)
	}
	return rows, nil
}

// uids is a set of jobs' ids as one parameter.
func (s *Store) uids(uids []string) any {
	if s.target.dialect == Postgres {
		return uuids(uids)
	}
	return document(uids)
}

// guarded asks under the planner guards of a turn, so that statistics do not
// decide whether a table is walked through.
func (s *Store) guarded(ctx context.Context, ask func(Handle) error) error {
	if s.target.dialect == SQLite {
		return ask(s.read)
	}
	return s.writeFor(ctx, guarded, func(t *tx) error { return ask(t) })
}

// changeDead changes dead letters, under the same guards.
func (s *Store) changeDead(ctx context.Context, do func(*tx) error) error {
	return s.writeFor(ctx, guarded, do)
}
