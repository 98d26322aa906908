package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/weirq/weir/queue"
)

// oldSnapshot is a transaction of somebody else's that is left open: until it
// ends the server keeps every row that was deleted since.
func oldSnapshot(ctx context.Context, s *sea) (outcome, error) {
	const perSecond, batch = "100000/s", 3000
	direct := os.Getenv(serverEnv)
	dsn, err := schemaOf(direct, s.number)
	if err != nil {
		return outcome{}, err
	}
	client, err := queue.Open(ctx, dsn)
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = client.Close() })
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
	if _, err := s.schedule(ctx, childConfig{DSN: dsn, Rate: perSecond, Instant: true}); err != nil {
		return outcome{}, err
	}
	if err := s.untilAll(ctx, "wakeups_heard", 1); err != nil {
		return outcome{}, err
	}
	began := time.Now()
	var ids []string
	var took []time.Duration
	for began := time.Now(); len(took) < 3 || time.Since(began) < pick(s, 4*time.Minute, 3*time.Second); {
		from := time.Now()
		receipts, err := work.EnqueueMany(ctx, client, make([]int, batch))
		if err != nil {
			return outcome{}, err
		}
		for _, r := range receipts {
			ids = append(ids, r.ID)
		}
		if err := settle(ctx, client); err != nil {
			return outcome{}, err
		}
		took = append(took, time.Since(from))
	}
	o, err := s.landed(ctx, client, ids, perSecond, began)
	o.within = 2 * time.Second
	first, last := took[1], took[len(took)-1] // the first one warms up
	o.what = fmt.Sprintf("%d jobs in batches of %d: the second took %v, the last %v", len(ids), batch, first.Round(time.Millisecond), last.Round(time.Millisecond))
	return o, err
}
