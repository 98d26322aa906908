package queue_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

func TestAJobOfACommittedTransactionIsThere(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		tx, err := b.db.SQL(t).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		one, err := sendEmail.EnqueueTx(t.Context(), b.Client, tx, emailArgs{To: "ada"})
		require.NoError(t, err)
		many, err := sendEmail.EnqueueManyTx(t.Context(), b.Client, tx, []emailArgs{{To: "bob"}, {To: "cyd"}})
		require.NoError(t, err)
		_, err = b.Get(t.Context(), one.ID)
		require.ErrorIs(t, err, queue.ErrNotFound, "not before the commit")

		require.NoError(t, tx.Commit())
		require.JSONEq(t, `{"to":"ada"}`, string(b.get(t, one.ID).Args))
		require.JSONEq(t, `{"to":"bob"}`, string(b.get(t, many[0].ID).Args))
		require.JSONEq(t, `{"to":"cyd"}`, string(b.get(t, many[1].ID).Args))
		require.Equal(t, start, b.get(t, one.ID).EnqueuedAt)
	})
}

func TestAJobOfATransactionThatIsRolledBackNeverWas(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		tx, err := b.db.SQL(t).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		receipt, err := b.EnqueueTx(t.Context(), tx, queue.NewJob{Task: "a", UniqueKey: "k"})
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		_, err = b.Get(t.Context(), receipt.ID)
		require.ErrorIs(t, err, queue.ErrNotFound)

		after, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", UniqueKey: "k"})
		require.NoError(t, err)
		require.False(t, after.Duplicate, "the key went with it")
	})
}

func TestAJobIsStoredWithTheApplicationsOwnRowsOrNotAtAll(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		db := b.db.SQL(t)
		_, err := db.ExecContext(t.Context(), `create table orders (id integer primary key)`)
		require.NoError(t, err)
		place := func(id int, fault error) error {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `insert into orders values ($1)`, id)
			require.NoError(t, err)
			_, err = b.EnqueueTx(t.Context(), tx, queue.NewJob{Task: "ship"})
			require.NoError(t, err)
			if fault != nil {
				require.NoError(t, tx.Rollback())
				return fault
			}
			return tx.Commit()
		}
		require.NoError(t, place(1, nil))
		require.Error(t, place(2, errors.New("out of stock")))
		var orders int
		require.NoError(t, db.QueryRowContext(t.Context(), `select count(*) from orders`).Scan(&orders))
		require.Equal(t, 1, orders)
		require.Len(t, b.all(t, queue.Filter{Task: "ship"}), 1)
	})
}

func TestAnyHandleWillDo(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		db := b.db.SQL(t)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		driver := map[store.Dialect]string{store.SQLite: "sqlite", store.Postgres: "postgres"}[b.db.Dialect]
		for name, handle := range map[string]queue.Tx{"*sql.DB": db, "*sql.Conn": conn, "*sqlx.DB": sqlx.NewDb(db, driver)} {
			receipt, err := b.EnqueueTx(t.Context(), handle, queue.NewJob{Task: "a", Args: []byte(name)})
			require.NoError(t, err, name)
			require.Equal(t, name, string(b.get(t, receipt.ID).RawArgs))
		}
		require.NoError(t, conn.Close())
	})
}

func TestInTheCallersTransactionNothingIsWrittenForAnInvalidJob(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		tx, err := b.db.SQL(t).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = b.EnqueueManyTx(t.Context(), tx, []queue.NewJob{{Task: "a"}, {Task: "b", Priority: 101}})
		require.ErrorIs(t, err, queue.ErrInvalid)
		require.NoError(t, tx.Commit(), "the transaction is as good as before")
		require.Empty(t, b.all(t, queue.Filter{}))
	})
}

func TestAnIdInATransactionThatSeesASnapshotIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		tx, err := b.db.SQL(t).BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
		require.NoError(t, err)
		_, err = b.EnqueueTx(t.Context(), tx, queue.NewJob{Task: "a", ID: "018f2f5e-0000-7000-8000-000000000001"})
		if b.db.Dialect == store.Postgres {
			require.ErrorIs(t, err, queue.ErrInvalid)
			require.EqualError(t, err, `enqueue: id: in a transaction of isolation level repeatable read or serializable `+
				`nobody can see whether a job of that id has run: leave the id out, or use read committed`)
		} else {
			require.NoError(t, err, "SQLite has one writer: what it sees is the latest")
		}
		require.NoError(t, tx.Rollback())
	})
}
