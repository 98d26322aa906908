package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// A call that needs a second connection while it has the only one would wait
// for itself.
func TestASchedulerWithOneOrTwoConnectionsDoesNotWaitForItself(t *testing.T) {
	for _, conns := range []int{1, 2} {
		storetest.Each(t, func(t *testing.T, db storetest.Database) {
			c := clock.NewFake(epoch)
			r := &rig{t: t, db: db, faults: &storetest.Faults{}, clock: c}
			r.client = queue.From(db.Open(t, store.Options{Clock: c, MaxConns: conns}))
			r.dead = dlq.From(r.client)
			r.s = r.scheduler()
			beside := db.SQL(t)
			r.task("leaf", nil, scheduler.RateLimit("100/s"))
			r.task("root", func(*queue.Job[string]) error {
				if _, err := queue.Task[string]("leaf").Enqueue(t.Context(), r.client, "from a handler"); err != nil {
					return err
				}
				tx, err := beside.BeginTx(t.Context(), nil)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback() }()
				if _, err := queue.Task[string]("leaf").EnqueueTx(t.Context(), r.client, tx, "in a transaction"); err != nil {
					return err
				}
				if err := tx.Commit(); err != nil {
					return err
				}
				_, err = r.client.List(t.Context(), queue.Filter{Limit: 10})
				return err
			}, scheduler.Cap(5))
			require.NoError(t, scheduler.Schedule(r.s, "often", "@every 1s", queue.Task[string]("leaf"), "from a schedule"))
			r.drain()
			r.enqueue("root", numbered(5))
			r.at(time.Second)
			r.at(2 * time.Second)
			require.Equal(t, 5, r.tally("root"))
			require.Equal(t, 12, r.tally("leaf"))
		})
	}
}
