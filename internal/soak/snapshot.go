package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"
)

// oldSnapshot is a transaction of somebody else's that is left open: until it
// ends the server keeps every row that was deleted since.
func oldSnapshot(ctx context.Context, s *sea) (outcome, error) {
	const perSecond = "100000/s"
	batch := pick(s, 3000, 1000)
	direct := os.Getenv(serverEnv)
	dsn, err := schemaOf(direct, s.number)
	if err != nil {
		return outcome{}, err
	}
	db, err := sql.Open("postgres", direct)
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = db.Close() })
	old, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = old.Rollback() })
	if _, err := old.ExecContext(ctx, `select count(*) from pg_class`); err != nil {
		return outcome{}, err
	}
	client, err := s.crewed(ctx, 1, childConfig{DSN: dsn, Rate: perSecond, Instant: true})
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	var ids []string
	var took []time.Duration
	for began := time.Now(); len(took) < 3 || time.Since(began) < pick(s, 4*time.Minute, time.Second); {
		from := time.Now()
		receipts, err := work.EnqueueMany(ctx, client, make([]int, batch))
		if err != nil {
			return outcome{}, err
		}
		for _, r := range receipts {
			ids = append(ids, r.ID)
		}
		// The ledger tells: a question to the database would pass what has gone, too.
		for s.ledger().ended() < len(ids) {
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return outcome{}, err
			}
		}
		took = append(took, time.Since(from))
	}
	o, err := s.landed(ctx, client, ids, perSecond, began)
	o.within = 2 * time.Second
	first, last := took[1], min(took[len(took)-1], took[len(took)-2]) // the very first one warms up
	if last > 3*first+time.Second {
		o.broken = append(o.broken, fmt.Sprintf("a batch took %v after %d jobs, and %v in the beginning", last, len(ids), first))
	}
	o.what = fmt.Sprintf("%d jobs in batches of %d: the second took %v, the last %v", len(ids), batch, first.Round(time.Millisecond), last.Round(time.Millisecond))
	return o, err
}
