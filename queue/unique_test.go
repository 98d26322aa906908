package queue_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestFiftyEnqueuesOfOneKeyAtTheSameTimeMakeOneJob(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n = 50
		receipts, errs := make([]queue.Receipt, n), make([]error, n)
		together(n, func(i int) {
			receipts[i], errs[i] = b.Enqueue(t.Context(), queue.NewJob{Task: "a", UniqueKey: "k"})
		})
		stored := 0
		for i := range n {
			require.NoError(t, errs[i])
			require.Equal(t, receipts[0].ID, receipts[i].ID)
			if !receipts[i].Duplicate {
				stored++
			}
		}
		require.Equal(t, 1, stored)
		require.Len(t, b.all(t, queue.Filter{}), 1)
		require.Equal(t, "k", b.get(t, receipts[0].ID).UniqueKey)
	})
}

func TestAKeyIsFreeWhenItsJobHasEnded(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, b *bundle, id string){
		"completed": func(t *testing.T, b *bundle, _ string) {
			b.finish(t, b.start(t, "a", "default"), store.Done, "")
		},
		"dead": func(t *testing.T, b *bundle, _ string) {
			b.finish(t, b.start(t, "a", "default"), store.Dead, "gone")
		},
		"cancelled": func(t *testing.T, b *bundle, id string) {
			require.NoError(t, b.Cancel(t.Context(), id))
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bundle) {
				job := queue.NewJob{Task: "a", UniqueKey: "k"}
				first, err := b.Enqueue(t.Context(), job)
				require.NoError(t, err)
				again, err := b.Enqueue(t.Context(), job)
				require.NoError(t, err)
				require.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, again)

				end(t, b, first.ID)
				next, err := b.Enqueue(t.Context(), job)
				require.NoError(t, err)
				require.False(t, next.Duplicate)
				require.NotEqual(t, first.ID, next.ID)
			})
		})
	}
}

func TestAKeyIsTakenWhileItsJobRunsOrWaitsForItsRetry(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		job := queue.NewJob{Task: "a", UniqueKey: "k"}
		first, err := b.Enqueue(t.Context(), job)
		require.NoError(t, err)
		running := b.start(t, "a", "default")
		again, err := b.Enqueue(t.Context(), job)
		require.NoError(t, err)
		require.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, again)

		b.finish(t, running, store.Retry, "not yet")
		again, err = b.Enqueue(t.Context(), job)
		require.NoError(t, err)
		require.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, again)
	})
}

func TestAKeyBelongsToItsTask(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, task := range []string{"a", "b", "A", "a:k"} {
			receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: task, UniqueKey: "k"})
			require.NoError(t, err)
			require.False(t, receipt.Duplicate, task)
		}
	})
}

// Otherwise a caller that holds a key in its own transaction, and enqueues
// something else meanwhile, would wait for itself.
func TestOnPostgresAnEnqueueThatWaitsForAKeyDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	b := newBundle(t, storetest.Postgres(t))
	tx, err := b.db.SQL(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	held, err := b.EnqueueTx(t.Context(), tx, queue.NewJob{Task: "a", UniqueKey: "k"})
	require.NoError(t, err)

	waiting := make(chan queue.Receipt)
	go func() {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", UniqueKey: "k"})
		if err != nil {
			t.Error(err)
		}
		waiting <- receipt
	}()
	look := b.db.SQL(t)
	require.Eventually(t, func() bool { return waitsForALock(t, look) }, 10*time.Second, time.Millisecond)
	_, err = b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
	require.NoError(t, err)

	require.NoError(t, tx.Commit())
	require.Equal(t, queue.Receipt{ID: held.ID, Duplicate: true}, <-waiting)
}

// waitsForALock tells whether a statement on the tables of this connection's
// schema waits for another transaction.
func waitsForALock(t *testing.T, db *sql.DB) bool {
	t.Helper()
	var n int
	err := db.QueryRowContext(t.Context(), `
select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%"' || current_schema() || '"%'`).Scan(&n)
	require.NoError(t, err)
	return n > 0
}
