package store_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestAScratchDatabaseIsFreshAndGoesWithAllThatIsInIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		db.Open(t, store.Options{})
		fresh, remove, err := store.Scratch(db.DSN)
		require.NoError(t, err)
		_, err = store.Open(t.Context(), fresh, store.Options{MustExist: true})
		require.ErrorIs(t, err, store.ErrNoDatabase)

		s, err := store.Open(t.Context(), fresh, store.Options{Migrate: true})
		require.NoError(t, err)
		_, err = s.Insert(t.Context(), newJobs("a", 3))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.NoError(t, remove(t.Context()))

		_, err = store.Open(t.Context(), fresh, store.Options{MustExist: true})
		assert.ErrorIs(t, err, store.ErrNoDatabase)
		other, err := store.Open(t.Context(), db.DSN, store.Options{MustExist: true})
		require.NoError(t, err, "it is still there")
		assert.NoError(t, other.Close())
	})
}
