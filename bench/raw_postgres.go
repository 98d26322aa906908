package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weirq/weir/internal/bench"
)

// rawBatch is how many rows a statement claims or ends.
const rawBatch = 1000

// rawPostgres is no job system but the limit of one: rows as wide as Weir's,
// and nothing but statements that claim and end a thousand at a time. Workers
// are loops that do so.
type rawPostgres struct {
	pool  *pgxpool.Pool
	ended atomic.Int64
}

//go:embed raw_postgres.sql
var rawPostgresSchema string

func openRawPostgres(ctx context.Context, s spec) (bench.System, error) {
	config, err := pgxpool.ParseConfig(s.Target)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(max(16, s.Workers))
	// As in Weir's own transactions: without it statistics that change in the
	// middle turn the claim into a scan.
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	config.ConnConfig.RuntimeParams["enable_bitmapscan"] = "off"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, rawPostgresSchema); err != nil {
		pool.Close()
		return nil, err
	}
	return &rawPostgres{pool: pool}, nil
}

func (r *rawPostgres) Close() error {
	r.pool.Close()
	return nil
}

const rawInsertPostgres = `
insert into raw_jobs (uid, task, queue, state, rank, first_due, run_at, enqueued_at, args)
select uid, 'free', 'default', 0, 0, $3, $3, $3, args from unnest($1::uuid[], $2::bytea[]) as r(uid, args)`

func (r *rawPostgres) Enqueue(ctx context.Context, job bench.Job) error {
	return r.EnqueueMany(ctx, []bench.Job{job})
}

func (r *rawPostgres) EnqueueMany(ctx context.Context, jobs []bench.Job) error {
	uids, args := make([][16]byte, len(jobs)), make([][]byte, len(jobs))
	for i, job := range jobs {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		uids[i] = id
		if args[i], err = json.Marshal(job.Args); err != nil {
			return err
		}
	}
	_, err := r.pool.Exec(ctx, rawInsertPostgres, uids, args, time.Now().UnixMicro())
	return err
}

const (
	rawClaimPostgres = `
update raw_jobs set state = 1, attempt = attempt + 1, started_at = $1::bigint, claim = $1::bigint, lease_until = $1::bigint + 30000000
where id = any(array(select id from raw_jobs where state = 0 order by id limit $2 for update skip locked))
returning id, uid, task, queue, args`
	rawEndPostgres = `update raw_jobs set state = 3, lease_until = null, finished_at = $2 where id = any($1)`
)

func (r *rawPostgres) Start(ctx context.Context, w bench.Workers) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for range w.Count {
		running.Go(func() { turnUntilDone(ctx, w, r.turn) })
	}
	return func() error {
		cancel()
		running.Wait()
		return nil
	}, nil
}

// turnUntilDone makes one turn after the other. A turn that fails ends the
// process: nobody would do its work.
func turnUntilDone(ctx context.Context, w bench.Workers, turn func(context.Context, bench.Workers) error) {
	for ctx.Err() == nil {
		if err := turn(ctx, w); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "raw statements:", err)
			os.Exit(1)
		}
	}
}

func (r *rawPostgres) turn(ctx context.Context, w bench.Workers) error {
	var ids []int64
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		now := time.Now().UnixMicro()
		rows, err := tx.Query(ctx, rawClaimPostgres, now, rawBatch)
		if err != nil {
			return err
		}
		var id int64
		var uid [16]byte
		var task, queue string
		var args []byte
		if _, err = pgx.ForEachRow(rows, []any{&id, &uid, &task, &queue, &args}, func() error {
			ids = append(ids, id)
			return nil
		}); err != nil || len(ids) == 0 {
			return err
		}
		_, err = tx.Exec(ctx, rawEndPostgres, ids, now)
		return err
	})
	if err != nil {
		return err
	}
	r.ended.Add(int64(len(ids)))
	for range ids {
		w.Handle(bench.Job{})
	}
	return nil
}

func (r *rawPostgres) Finished(_ context.Context, n int) (bool, error) {
	return r.ended.Load() >= int64(n), nil
}
