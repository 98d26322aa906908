// Package storetest gives tests a database of their own, SQLite and
// PostgreSQL alike.
package storetest

import (
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/weirq/weir/internal/store"
)

// The environment names the PostgreSQL server for tests, the databases whose
// absence is a failure rather than a loud skip, the one database that a run is
// for, if it is one of two, and a pooler before the server, through which Weir
// goes and the tests do not that look at what it does.
const (
	postgresEnv = "WEIR_TEST_POSTGRES"
	poolerEnv   = "WEIR_TEST_POOLER"
	requireEnv  = "WEIR_TEST_REQUIRE"
	onlyEnv     = "WEIR_TEST_ONLY"
)

// Database is a database of a test's own, empty but for Weir's tables once it
// was opened.
type Database struct {
	Dialect store.Dialect
	DSN     string
	direct  string // past a pooler; "": there is none
}

// Pooled tells whether a pooler in transaction mode stands before PostgreSQL.
func Pooled() bool { return os.Getenv(poolerEnv) != "" }

// Each runs do once per database, as subtests "sqlite" and "postgres", or on the
// one that the run is for.
func Each(t *testing.T, do func(t *testing.T, db Database)) {
	t.Helper()
	only := os.Getenv(onlyEnv)
	if only == "" || only == "sqlite" {
		t.Run("sqlite", func(t *testing.T) { do(t, SQLite(t)) })
	}
	if only == "" || only == "postgres" {
		t.Run("postgres", func(t *testing.T) { do(t, Postgres(t)) })
	}
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
	in := func(server string) string {
		return edited(t, server, func(q url.Values) { q.Set("schema", schema) })
	}
	spare.open(t, server)
	t.Cleanup(func() { spare.giveBack(t, schema) })
	if Pooled() {
		return Database{Dialect: store.Postgres, DSN: in(os.Getenv(poolerEnv)), direct: in(server)}
	}
	return Database{Dialect: store.Postgres, DSN: in(server)}
}

// Prepare makes the tables on PostgreSQL, where that takes long. SQLite's are
// made when the file is opened.
func (d Database) Prepare(t testing.TB) {
	t.Helper()
	if d.Dialect != store.Postgres {
		return
	}
	u, err := url.Parse(d.DSN)
	require.NoError(t, err)
	schema := u.Query().Get("schema")
	if spare.take(t, schema) {
		return
	}
	s, err := store.Open(context.WithoutCancel(t.Context()), d.DSN, store.Options{Migrate: true})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	spare.made(t, schema)
}

// Open opens the database, with its tables, until the test ends.
func (d Database) Open(t testing.TB, opts store.Options) *store.Store {
	t.Helper()
	opts.Migrate = true
	d.Prepare(t)
	s, err := store.Open(context.Background(), d.DSN, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// Main runs a package's tests: under -short with fewer random histories, at the
// end without a goroutine left, and with a loud word on the half that did not
// run. It returns the exit code. What is given is called between the tests and
// the look for goroutines.
func Main(m *testing.M, finally ...func()) int {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks != nil && testing.Short() {
		_ = checks.Value.Set("10")
	}
	code := m.Run()
	if err := spare.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	for _, f := range finally {
		f()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if os.Getenv(postgresEnv) == "" {
		fmt.Fprintf(os.Stderr, "\n*** NOT RUN ON POSTGRESQL: %s is not set. ./scripts/test runs both databases. ***\n\n", postgresEnv)
	}
	return code
}

// Hasty is the database for tests in which nothing is at stake that a power cut
// could take. A pooler may not be told.
func (d Database) Hasty(t testing.TB) Database {
	t.Helper()
	switch {
	case d.Dialect == store.SQLite:
		d.DSN += "?_pragma=synchronous(off)"
	case d.direct == "":
		d.DSN = edited(t, d.DSN, func(q url.Values) { q.Set("synchronous_commit", "off") })
	}
	return d
}

// Kept is a schema next to the database's that no test drops, on PostgreSQL.
func (d Database) Kept(t testing.TB) Database {
	t.Helper()
	return d.each(func(dsn string) string {
		return edited(t, dsn, func(q url.Values) { q.Set("schema", q.Get("schema")+"_kept") })
	})
}

// Another is another database of the same PostgreSQL server.
func (d Database) Another(t testing.TB, name string) Database {
	t.Helper()
	return d.each(func(dsn string) string {
		u, err := url.Parse(dsn)
		require.NoError(t, err)
		u.Path = "/" + name
		return u.String()
	})
}

// each changes the way to the database, and the one past a pooler.
func (d Database) each(change func(dsn string) string) Database {
	d.DSN = change(d.DSN)
	if d.direct != "" {
		d.direct = change(d.direct)
	}
	return d
}

// Direct is the database past a pooler: for what needs a session, or a role, of
// its own.
func (d Database) Direct() Database {
	return Database{Dialect: d.Dialect, DSN: cmp.Or(d.direct, d.DSN)}
}

// edited changes the parameters of a URL.
func edited(t testing.TB, dsn string, edit func(url.Values)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	q := u.Query()
	edit(q)
	u.RawQuery = q.Encode()
	return u.String()
}

// OpenSQL opens the database beside Weir, to look and meddle: Weir's tables have
// their plain names there.
func (d Database) OpenSQL(t testing.TB) *sql.DB {
	t.Helper()
	path, _, _ := strings.Cut(strings.TrimPrefix(d.DSN, "sqlite:"), "?")
	driver, dsn := "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_txlock=immediate"
	if d.Dialect == store.Postgres {
		driver, dsn = "postgres", edited(t, cmp.Or(d.direct, d.DSN), func(q url.Values) {
			q.Set("search_path", q.Get("schema"))
			q.Del("schema")
		})
	}
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	return db
}

// SQL is OpenSQL until the test ends.
func (d Database) SQL(t testing.TB) *sql.DB {
	t.Helper()
	db := d.OpenSQL(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// LogGrants makes the database write down every grant by itself, whatever the
// code under test does: table test_grants (job, task, at).
func (d Database) LogGrants(t testing.TB, db *sql.DB) {
	t.Helper()
	statements := []string{
		`create table test_grants (job bigint, task text, at bigint)`,
		`create trigger test_log_grant after update of state on weir_jobs when new.state = 1 and old.state <> 1
begin insert into test_grants values (new.id, new.task, new.started_at); end`,
	}
	if d.Dialect == store.Postgres {
		statements = []string{
			statements[0],
			`create function test_log_grant() returns trigger language plpgsql set search_path from current as $$
begin insert into test_grants values (new.id, new.task, new.started_at); return null; end $$`,
			`create trigger test_log_grant after update of state on weir_jobs for each row
when (new.state = 1 and old.state <> 1) execute function test_log_grant()`,
		}
	}
	for _, statement := range statements {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
}

// LogWindows makes the database write down by itself in which window each grant
// fell, of the limit "task:TASK" or "limit of TASK": table test_windows (job, task,
// generation). It is the judge of the fixed-window strategy: it sees starts,
// whatever was counted.
func (d Database) LogWindows(t testing.TB, db *sql.DB) {
	t.Helper()
	generation := `new.task, (select window_id from weir_limits where name in ('task:' || new.task, 'limit of ' || new.task) and key = '')`
	statements := []string{
		`create table test_windows (job bigint, task text, generation bigint)`,
		`create trigger test_log_window after update of state on weir_jobs when new.state = 1 and old.state <> 1
begin insert into test_windows values (new.id, ` + generation + `); end`,
	}
	if d.Dialect == store.Postgres {
		statements = []string{
			statements[0],
			`create function test_log_window() returns trigger language plpgsql set search_path from current as $$
begin insert into test_windows values (new.id, ` + generation + `); return null; end $$`,
			`create trigger test_log_window after update of state on weir_jobs for each row
when (new.state = 1 and old.state <> 1) execute function test_log_window()`,
		}
	}
	for _, statement := range statements {
		_, err := db.ExecContext(context.Background(), statement)
		require.NoError(t, err)
	}
}

// Windows is how many grants of a task fell in each generation of its limit, as
// LogWindows saw them.
func (d Database) Windows(t testing.TB, db *sql.DB, task string) map[int64]int64 {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), `select generation, count(*) from test_windows where task = $1 group by generation`, task)
	require.NoError(t, err)
	defer rows.Close()
	out := map[int64]int64{}
	for rows.Next() {
		var generation, n int64
		require.NoError(t, rows.Scan(&generation, &n))
		out[generation] = n
	}
	require.NoError(t, rows.Err())
	return out
}
