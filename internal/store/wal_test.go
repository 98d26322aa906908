package store_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
)

const mebibyte = 1 << 20

// walled is a SQLite file whose WAL is looked at.
func walled(t *testing.T) (b *bundle, wal string) {
	t.Helper()
	b = setup(t, storetest.SQLite(t))
	path, _, _ := strings.Cut(strings.TrimPrefix(b.db.DSN, "sqlite:"), "?")
	return b, path + "-wal"
}

// write writes at least that many MiB.
func (b *bundle) write(t testing.TB, mebibytes int) {
	t.Helper()
	for range mebibytes {
		jobs := newJobs("a", 2)
		for i := range jobs {
			jobs[i].Args = make([]byte, mebibyte/2)
		}
		b.insert(t, jobs...)
	}
}

func TestTheWALIsBounded(t *testing.T) {
	b, wal := walled(t)
	b.write(t, 24)
	require.Less(t, size(t, wal), int64(8*mebibyte))
}

// SQLite begins the WAL anew by itself only when something is written while
// nobody reads.
func TestTheWALIsBoundedWhereSomebodyReadsAtEveryWrite(t *testing.T) {
	b, wal := walled(t)
	largest := int64(0)
	for range 18 {
		end := snapshot(t, wal)
		b.write(t, 4)
		largest = max(largest, size(t, wal))
		end()
		_, held, err := b.TrimWAL(t.Context())
		require.NoError(t, err)
		require.False(t, held)
	}
	require.Less(t, largest, int64(16*mebibyte))
}

// snapshot reads the database as it is now until it is ended.
func snapshot(t *testing.T, wal string) (end func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimSuffix(wal, "-wal"))
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.QueryRowContext(t.Context(), `select count(*) from weir_jobs`).Scan(new(int)))
	end = func() {
		_ = tx.Rollback()
		_ = db.Close()
	}
	t.Cleanup(end)
	return end
}

func TestAReaderWhoDoesNotEndIsToldOfAndTheWALShrinksAfterwards(t *testing.T) {
	b, wal := walled(t)
	end := snapshot(t, wal)

	_, held, err := b.TrimWAL(t.Context())
	require.NoError(t, err)
	require.False(t, held, "it is small")
	b.write(t, 20)
	n, held, err := b.TrimWAL(t.Context())
	require.NoError(t, err)
	require.True(t, held)
	require.Greater(t, n, int64(20*mebibyte))
	b.insert(t, newJob("a")) // nobody is held up

	end()
	n, held, err = b.TrimWAL(t.Context())
	require.NoError(t, err)
	require.False(t, held)
	require.Zero(t, n)
	require.Zero(t, size(t, wal))
	var patience int64
	require.NoError(t, b.WriterForTest().GetContext(t.Context(), &patience, `pragma busy_timeout`))
	require.EqualValues(t, 10_000, patience, "the lock is waited for as before")
}
