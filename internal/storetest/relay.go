package storetest

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/relay"
)

// Relayed returns the database as it is reached through a relay that ends with
// the test.
func Relayed(t testing.TB, db Database) (*relay.Relay, Database) {
	t.Helper()
	u, err := url.Parse(db.DSN)
	require.NoError(t, err)
	r, err := relay.Listen(t.Context(), u.Host)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	u.Host = r.Address()
	return r, Database{Dialect: db.Dialect, DSN: u.String(), direct: db.direct}
}
