package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// fillHistory puts finished jobs into Weir's history, as if they had been run
// long ago.
func fillHistory(ctx context.Context, s spec) error {
	const columns = `(id, uid, task, queue, state, rank, first_due, run_at, enqueued_at, started_at, claim, attempt,
given_back, deferrals, args, replays, finished_at)`
	if s.Store == postgres {
		conn, err := pgx.Connect(ctx, s.Target)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `
with t as (select (extract(epoch from now()) * 1000000)::bigint as now)
insert into weir_history `+columns+`
select -n, md5(n::text)::uuid, 'free', 'default', 3, 0, now, now, now, now, n, 1, 0, 0,
       convert_to(repeat('x', 100), 'UTF8'), 0, now
from t, generate_series(1, $1::bigint) n`, historyRows)
		return errors.Join(err, conn.Close(ctx))
	}
	db, err := openSQLite(s.Target)
	if err != nil {
		return err
	}
	err = fillHistorySQLite(ctx, db, columns)
	return errors.Join(err, db.Close())
}

// settle writes what was filled to its place on the disk: what is measured next
// would wait for that.
func settle(ctx context.Context, s spec) error {
	if s.Store == postgres {
		conn, err := pgx.Connect(ctx, s.Target)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, `checkpoint`)
		return errors.Join(err, conn.Close(ctx))
	}
	db, err := openSQLite(s.Target)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `pragma wal_checkpoint(truncate)`)
	return errors.Join(err, db.Close())
}

func fillHistorySQLite(ctx context.Context, db *sql.DB, columns string) error {
	const batch = 1_000_000
	for from := 0; from < historyRows; from += batch {
		if _, err := db.ExecContext(ctx, `
with recursive n(n) as (select $1 + 1 union all select n + 1 from n where n < $1 + $2),
t(now) as (select cast(unixepoch('subsec') * 1000000 as integer))
insert into weir_history `+columns+`
select -n, printf('%032x', n), 'free', 'default', 3, 0, now, now, now, now, n, 1, 0, 0,
       cast(printf('%0100d', n) as blob), 0, now
from n, t`, from, batch); err != nil {
			return err
		}
	}
	return nil
}
