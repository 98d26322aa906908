package dlq_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
)

func TestOpeningLettersNeverCreatesADatabase(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		other := another(t, b.db)
		_, err := dlq.Open(t.Context(), other.DSN)
		require.ErrorIs(t, err, dlq.ErrNoDatabase)

		jobs := b.dead(t, dlq.Failed, "a", 1)
		letters, err := dlq.Open(t.Context(), b.db.DSN, dlq.WithClock(b.clock), dlq.WithMaxConns(2))
		require.NoError(t, err)
		entry, err := letters.Get(t.Context(), jobs[0])
		require.NoError(t, err)
		require.Equal(t, "no such host", entry.Reason)
		require.NoError(t, letters.Close())

		require.NoError(t, b.Close(), "what came from a client is the client's to close")
		_, err = b.Get(t.Context(), jobs[0])
		require.NoError(t, err)
	})
}

func TestASchemaThatIsNotThisProgramsIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.db.SQL(t).ExecContext(t.Context(), `insert into weir_migrations (version_id, is_applied) values (1000, true)`)
		require.NoError(t, err)
		_, err = dlq.Open(t.Context(), b.db.DSN)
		require.ErrorIs(t, err, dlq.ErrSchema)
	})
}
