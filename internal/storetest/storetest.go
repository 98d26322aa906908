// Package storetest gives tests a database of their own, SQLite and
// PostgreSQL alike.
package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
)

// The environment names the PostgreSQL server for tests, and the databases
// whose absence is a failure rather than a loud skip.
const (
	postgresEnv = "WEIR_TEST_POSTGRES"
	requireEnv  = "WEIR_TEST_REQUIRE"
)

// Database is a database of a test's own, empty but for Weir's tables once it
// was opened.
type Database struct {
	Dialect store.Dialect
	DSN     string
}

// Each runs do once per database, as subtests "sqlite" and "postgres".
func Each(t *testing.T, do func(t *testing.T, db Database)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { do(t, SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { do(t, Postgres(t)) })
}

// SQLite returns a file that does not exist yet.
func SQLite(t testing.TB) Database {
	t.Helper()
	return Database{Dialect: store.SQLite, DSN: "sqlite:" + filepath.Join(t.TempDir(), "weir.db")}
}

var schemas atomic.Int64

// Postgres returns a schema that does not exist yet, on the server that
// WEIR_TEST_POSTGRES names. Without one the test does not run, and says so.
func Postgres(t testing.TB) Database {
	t.Helper()
	server := os.Getenv(postgresEnv)
	if server == "" {
		if strings.Contains(os.Getenv(requireEnv), "postgres") {
			t.Fatalf("%s is not set, and %s asks for postgres", postgresEnv, requireEnv)
		}
		t.Skipf("NOT RUN ON POSTGRESQL: %s is not set; ./scripts/test runs both databases", postgresEnv)
	}
	schema := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	u, err := url.Parse(server)
	require.NoError(t, err)
	q := u.Query()
	q.Set("schema", schema)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		db, err := sql.Open("postgres", server)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.ExecContext(context.Background(), `drop schema if exists `+schema+` cascade`)
		require.NoError(t, err)
	})
	return Database{Dialect: store.Postgres, DSN: u.String()}
}

// Open opens the database, with its tables, until the test ends.
func (d Database) Open(t testing.TB, opts store.Options) *store.Store {
	t.Helper()
	opts.Migrate = true
	s, err := store.Open(context.Background(), d.DSN, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// Announce says at the end of a package's tests which half did not run. Call
// it from TestMain with the tests' exit code.
func Announce(code int) int {
	if os.Getenv(postgresEnv) == "" {
		fmt.Fprintf(os.Stderr, "\n*** NOT RUN ON POSTGRESQL: %s is not set. ./scripts/test runs both databases. ***\n\n", postgresEnv)
	}
	return code
}
