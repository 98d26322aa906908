package store_test

import (
	"context"
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

// A statement's context may end while its answer comes. The connection is known
// to be given up before anybody else can get it.
func TestNobodyGetsAConnectionThatIsJustBeingGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		require.True(t, store.GivenUpForTest(ctx))
	}
	require.False(t, store.GivenUpForTest(t.Context()))
}
