package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weirq/weir/queue"
)

// pooler is a pgbouncer in transaction mode between Weir and the server, with
// fewer connections than there are schedulers, one of which is killed.
func pooler(ctx context.Context, s *sea) (outcome, error) {
	const schedulers, perSecond = 6, "1000/s"
	jobs := pick(s, 5000, 2000)
	address := os.Getenv(poolerEnv)
	if address == "" {
		return outcome{}, missing("no pgbouncer")
	}
	through, err := schemaOf(address, s.number)
	if err != nil {
		return outcome{}, err
	}
	direct := server(os.Getenv(serverEnv))
	// All of them find an empty schema and migrate.
	victim := 0
	for range schedulers {
		if victim, err = s.schedule(ctx, childConfig{DSN: through, Rate: perSecond, Lease: 5 * time.Second, Schedule: "@every 1s"}); err != nil {
			return outcome{}, err
		}
	}
	client, err := queue.Open(ctx, through)
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = client.Close() })
	if err := s.untilAll(ctx, "wakeups_lost", schedulers); err != nil {
		return outcome{}, err
	}
	receipts, err := work.EnqueueMany(ctx, client, make([]int, jobs))
	if err != nil {
		return outcome{}, err
	}
	ids := make([]string, len(receipts))
	for i, r := range receipts {
		ids[i] = r.ID
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return outcome{}, err
	}
	s.kill(victim)
	killed := time.Now()
	left, err := direct.number(ctx, `select count(*) from pg_locks where locktype = 'advisory'`)
	if err != nil {
		return outcome{}, err
	}
	o, err := s.landed(ctx, client, ids, perSecond, killed)
	if err != nil {
		return o, err
	}
	h, err := s.ledger().read()
	if err != nil {
		return o, err
	}
	o.within, o.allowed = 3*time.Second, 2*concurrency // what the killed one ran, and what it had not told yet
	o.what = fmt.Sprintf("%d schedulers migrate and run %d jobs and %d ticks, one is killed; `wakeups_lost` %d times, advisory locks left: %d",
		schedulers, jobs, len(h.ticks), s.logged("wakeups_lost"), left)
	if left > 0 {
		o.broken = append(o.broken, "an advisory lock was left behind")
	}
	if len(h.ticks) == 0 {
		o.broken = append(o.broken, "no tick was fired")
	}
	return o, nil
}
