package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// A connection to a server that has gone cannot be ended in order, and is ended.
func TestAConnectionThatCannotSayThatItEndsIsNoErrorAtClose(t *testing.T) {
	db := storetest.Postgres(t)
	db.Prepare(t)
	faults := &storetest.Faults{}
	s, err := store.Open(t.Context(), db.DSN, store.Options{Wrap: faults.Wrap})
	require.NoError(t, err)
	_, err = s.Limits(t.Context())
	require.NoError(t, err)
	faults.FailClose()
	require.NoError(t, s.Close())
}
