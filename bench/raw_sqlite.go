package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/weirq/weir/internal/bench"
)

// rawSQLite is what rawPostgres is, on SQLite: one connection, statements
// prepared on it.
type rawSQLite struct {
	db *sql.DB
	// Prepared.
	insert, insertMany, claim, end *sql.Stmt

	ended atomic.Int64
}

//go:embed raw_sqlite.sql
var rawSQLiteSchema string

const (
	rawRow  = `(?, 'free', 'default', 0, 0, ?, ?, ?, ?)`
	rawRows = 50 // in one insert: few enough variables

	rawInsertSQLite = `insert into raw_jobs (uid, task, queue, state, rank, first_due, run_at, enqueued_at, args) values `
	rawClaimSQLite  = `
update raw_jobs set state = 1, attempt = attempt + 1, started_at = $1, claim = $1, lease_until = $1 + 30000000
where id in (select id from raw_jobs where state = 0 order by id limit $2) returning id, uid, task, queue, args`
	rawEndSQLite = `
update raw_jobs set state = 3, lease_until = null, finished_at = $2 where id in (select value from json_each($1))`
)

func openRawSQLite(ctx context.Context, s spec) (bench.System, error) {
	db, err := openSQLite(s.Target)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, rawSQLiteSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	r := &rawSQLite{db: db}
	many := rawInsertSQLite + strings.Repeat(rawRow+`, `, rawRows-1) + rawRow
	for stmt, text := range map[**sql.Stmt]string{
		&r.insert: rawInsertSQLite + rawRow, &r.insertMany: many, &r.claim: rawClaimSQLite, &r.end: rawEndSQLite,
	} {
		if *stmt, err = db.PrepareContext(ctx, text); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return r, nil
}

func (r *rawSQLite) Close() error { return r.db.Close() }

func rawValues(values []any, job bench.Job) ([]any, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(job.Args)
	now := time.Now().UnixMicro()
	return append(values, id.String(), now, now, now, args), err
}

func (r *rawSQLite) Enqueue(ctx context.Context, job bench.Job) error {
	values, err := rawValues(nil, job)
	if err == nil {
		_, err = r.insert.ExecContext(ctx, values...)
	}
	return err
}

func (r *rawSQLite) EnqueueMany(ctx context.Context, jobs []bench.Job) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	insertMany, insert := tx.StmtContext(ctx, r.insertMany), tx.StmtContext(ctx, r.insert)
	for len(jobs) > 0 {
		stmt, n := insertMany, rawRows
		if len(jobs) < n {
			stmt, n = insert, 1
		}
		var values []any
		for _, job := range jobs[:n] {
			if values, err = rawValues(values, job); err != nil {
				return err
			}
		}
		if _, err := stmt.ExecContext(ctx, values...); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return tx.Commit()
}

func (r *rawSQLite) Start(ctx context.Context, w bench.Workers) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { turnUntilDone(ctx, w, r.turn) })
	return func() error {
		cancel()
		running.Wait()
		return nil
	}, nil
}

func (r *rawSQLite) turn(ctx context.Context, w bench.Workers) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	now := time.Now().UnixMicro()
	ids, err := readIDs(ctx, tx.StmtContext(ctx, r.claim), now)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		list, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		if _, err := tx.StmtContext(ctx, r.end).ExecContext(ctx, string(list), now); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	r.ended.Add(int64(len(ids)))
	for range ids {
		w.Handle(bench.Job{})
	}
	return nil
}

func readIDs(ctx context.Context, claim *sql.Stmt, now int64) ([]int64, error) {
	rows, err := claim.QueryContext(ctx, now, rawBatch)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		var uid, task, queue string
		var args []byte
		if err := rows.Scan(&id, &uid, &task, &queue, &args); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (r *rawSQLite) Finished(_ context.Context, n int) (bool, error) {
	return r.ended.Load() >= int64(n), nil
}
