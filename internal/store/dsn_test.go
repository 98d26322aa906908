package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestADSNOfSQLiteNamesAFile(t *testing.T) {
	here, err := os.Getwd()
	require.NoError(t, err)
	for dsn, want := range map[string]string{
		"sqlite:weir.db":                      filepath.Join(here, "weir.db"),
		"sqlite:./a/../weir.db":               filepath.Join(here, "weir.db"),
		"sqlite:/var/lib/weir.db":             "/var/lib/weir.db",
		"sqlite:///var/lib/weir.db":           "/var/lib/weir.db",
		"sqlite://weir.db":                    filepath.Join(here, "weir.db"),
		"sqlite:/a b/w.db":                    "/a b/w.db",
		"sqlite:/a?b/w.db":                    "/a?b/w.db",
		"sqlite:/a/w.db?":                     "/a/w.db?",
		"sqlite:/50%25#1.db":                  "/50%25#1.db",
		"sqlite:/w.db?_pragma=cache_size(7)":  "/w.db",
		"sqlite:/a?b.db?_pragma=cache_size=7": "/a?b.db",
		"sqlite:/é:ü@x.db":                    "/é:ü@x.db",
		"sqlite:file:/a%20b%3F/w.db":          "/a b?/w.db",
		"sqlite:file:///a/w.db?cache=private": "/a/w.db",
		"sqlite:file:weir.db":                 filepath.Join(here, "weir.db"),
	} {
		dialect, path, schema, shown, err := store.TargetForTest(dsn)
		require.NoError(t, err, dsn)
		require.Equal(t, store.SQLite, dialect)
		require.Equal(t, want, path, dsn)
		require.Empty(t, schema)
		require.Equal(t, "sqlite:"+want, shown)
	}
}

func TestAPathOfADSNCountsFromAFolderAndStaysTheSameFile(t *testing.T) {
	for dsn, want := range map[string]struct{ dsn, path string }{
		"sqlite:weir.db":                                  {"sqlite:/srv/mail/weir.db", "/srv/mail/weir.db"},
		"sqlite:../weir.db":                               {"sqlite:/srv/weir.db", "/srv/weir.db"},
		"sqlite:///var/lib/weir.db":                       {"sqlite:/var/lib/weir.db", "/var/lib/weir.db"},
		"sqlite:weir.db?_pragma=synchronous(1)&mode=%72w": {"sqlite:/srv/mail/weir.db?_pragma=synchronous(1)&mode=%72w", "/srv/mail/weir.db"},
		"sqlite:what?.db":                                 {"sqlite:/srv/mail/what?.db", "/srv/mail/what?.db"},
		"sqlite:50%.db":                                   {"sqlite:/srv/mail/50%.db", "/srv/mail/50%.db"},
		"sqlite:file:a%20b.db?cache=private":              {"sqlite:/srv/mail/a b.db?cache=private", "/srv/mail/a b.db"},
		"sqlite:file:a%3Fb=c%25.db":                       {"sqlite:file:/srv/mail/a%3Fb=c%25.db", "/srv/mail/a?b=c%.db"},
		"postgres://u:p@h/d?schema=weir":                  {"postgres://u:p@h/d?schema=weir", ""},
		"postgresql:///d?host=/run/postgresql":            {"postgresql:///d?host=/run/postgresql", ""},
	} {
		resolved, err := store.ResolveDSN(dsn, "/srv/mail")
		require.NoError(t, err, dsn)
		require.Equal(t, want.dsn, resolved, dsn)
		dialect, path, _, _, err := store.TargetForTest(resolved)
		require.NoError(t, err, dsn)
		if dialect == store.SQLite {
			require.Equal(t, want.path, path, dsn)
		}
		again, err := store.ResolveDSN(resolved, "/elsewhere")
		require.NoError(t, err, dsn)
		require.Equal(t, resolved, again, "it depends on no folder any more")
	}
}

func TestADSNOfPostgreSQLIsAURL(t *testing.T) {
	for dsn, want := range map[string]struct{ driver, schema, shown string }{
		"postgres://u:p@h:1/d?sslmode=disable": {
			driver: "postgres://u:p@h:1/d?binary_parameters=yes&connect_timeout=10&sslmode=disable",
			shown:  "postgres://u:xxxxx@h:1/d?sslmode=disable",
		},
		"postgresql://h/d?schema=weir_2&connect_timeout=3": {
			driver: "postgresql://h/d?binary_parameters=yes&connect_timeout=3",
			schema: "weir_2",
			shown:  "postgresql://h/d?connect_timeout=3&schema=weir_2",
		},
		"postgres://h/d?binary_parameters=no&search_path=app": {
			driver: "postgres://h/d?binary_parameters=yes&connect_timeout=10&search_path=app",
			shown:  "postgres://h/d?binary_parameters=no&search_path=app",
		},
		"postgres:///d?host=/run/postgresql&password=secret&sslpassword=secret": {
			driver: "postgres:///d?binary_parameters=yes&connect_timeout=10&host=%2Frun%2Fpostgresql&password=secret&sslpassword=secret",
			shown:  "postgres:///d?host=%2Frun%2Fpostgresql&password=xxxxx&sslpassword=xxxxx",
		},
		"postgres://u:a%40b%2F%3A@h/d": {
			driver: "postgres://u:a%40b%2F%3A@h/d?binary_parameters=yes&connect_timeout=10",
			shown:  "postgres://u:xxxxx@h/d",
		},
		"postgres://u:p@a:1,b:2/d?sslmode=disable": {
			driver: "postgres://u:p@/d?binary_parameters=yes&connect_timeout=3&host=a%2Cb&port=1%2C2&sslmode=disable&target_session_attrs=read-write",
			shown:  "postgres://u:xxxxx@a:1,b:2/d?sslmode=disable",
		},
		"postgres://u:p@a:1,b,[::1]:3?schema=s": {
			driver: "postgres://u:p@?binary_parameters=yes&connect_timeout=3&host=a%2Cb%2C%3A%3A1&port=1%2C%2C3&target_session_attrs=read-write",
			schema: "s",
			shown:  "postgres://u:xxxxx@a:1,b,[::1]:3?schema=s",
		},
		"postgres://a,b/d?port=1,2&target_session_attrs=any&connect_timeout=9": {
			driver: "postgres:///d?binary_parameters=yes&connect_timeout=9&host=a%2Cb&port=1%2C2&target_session_attrs=any",
			shown:  "postgres://a,b/d?connect_timeout=9&port=1%2C2&target_session_attrs=any",
		},
		"postgres:///d?host=a,b": {
			driver: "postgres:///d?binary_parameters=yes&connect_timeout=3&host=a%2Cb&target_session_attrs=read-write",
			shown:  "postgres:///d?host=a%2Cb",
		},
	} {
		dialect, driver, schema, shown, err := store.TargetForTest(dsn)
		require.NoError(t, err, dsn)
		require.Equal(t, store.Postgres, dialect)
		require.Equal(t, want.schema, schema)
		require.Equal(t, want.shown, shown)
		require.Equal(t, want.driver, driver)
	}
}

func TestADSNThatIsNoneIsRefusedWithTheMendAndWithoutItsPassword(t *testing.T) {
	const forms = `use sqlite:PATH or postgres://USER@HOST/NAME`
	const memory = `: in memory its readers and its writer would not see each other: name a file, as in sqlite:weir.db`
	for dsn, want := range map[string]string{
		"":                                         `database "": no such form: ` + forms,
		"weir.db":                                  `database "weir.db": no such form: ` + forms,
		"sqlite:":                                  `database "sqlite:": no such form: ` + forms,
		"sqlite3:weir.db":                          `database "sqlite3:weir.db": unknown kind "sqlite3": ` + forms,
		"mysql://root:secret@h/d":                  `database "mysql://root:xxxxx@h/d": unknown kind "mysql": ` + forms,
		"host=h password=secret dbname=d":          `database "...": no such form: ` + forms,
		"host=h password=secret:x dbname=d":        `database "...": no such form: ` + forms,
		"POSTGRES://u:secret@h/d":                  `database "postgres://u:xxxxx@h/d": unknown kind "POSTGRES": ` + forms,
		"postgres:u:secret@h/d":                    `database "...": not a URL: ` + forms,
		"postgres:/d?password=secret":              `database "postgres:/d?password=xxxxx": not a URL: ` + forms,
		"postgres://u:secret":                      `database "postgres://...": not a URL: ` + forms,
		"postgres://u:p@secret%zz@h/d":             `database "postgres://...": not a URL: ` + forms,
		"postgres://u:secret@a:x,b:2/d":            `database "postgres://...": not a URL: ` + forms,
		"postgres://u:secret@h/d?a;b=1":            `database "postgres://u:xxxxx@h/d": its parameters cannot be read: separate them by &, and write % as %25`,
		"postgres://u:secret@h/d?a=%zz":            `database "postgres://u:xxxxx@h/d": its parameters cannot be read`,
		"postgres://h/d?schema=Weir":               `database "postgres://h/d?schema=Weir": schema "Weir": use lower-case letters, digits and _, as in ?schema=weir`,
		`postgres://h/d?schema=a";drop`:            `its parameters cannot be read`,
		`postgres://h/d?schema=a"b`:                `: schema "a\"b": use lower-case letters`,
		"postgres://h/d?schema=1a":                 `: schema "1a": use lower-case letters`,
		"sqlite::memory:":                          `database "sqlite::memory:"` + memory,
		"sqlite:file::memory:?cache=shared":        memory,
		"sqlite:weir.db?mode=memory":               memory,
		"sqlite:?cache=private":                    `database "sqlite:?cache=private": no file: name one, as in sqlite:weir.db`,
		"sqlite:w.db?a=%zz":                        `database "sqlite:w.db?a=%zz": its parameters cannot be read: separate them by &, and write % as %25`,
		"postgres://h/d?schema=":                   `schema is empty: name one, as in ?schema=weir, or leave it out`,
		"postgres://h/d?schema=pg_catalog":         `schema "pg_catalog" is the server's own: use another name, as in ?schema=weir`,
		"postgres://h/d?schema=pg_x":               `schema "pg_x" is the server's own`,
		"postgres://h/d?schema=information_schema": `schema "information_schema" is the server's own`,
		"postgres://u:secret@h/d?sslmode=maybe":    `its parameters cannot be used: wrong value for "sslmode": "maybe" is not supported`,
		"postgres://u:secret@h:99999/d":            `its parameters cannot be used: wrong value for "port": `,
		"sqlite:w.db?_journal_mod=wal":             `database "sqlite:w.db?_journal_mod=wal": unknown parameter "_journal_mod": did you mean "_journal_mode"?`,
		"sqlite:w.db?wal=1":                        `unknown parameter "wal": use one of SQLite's, as in ?_pragma=cache_size(-8000)`,
		"sqlite:w.db?mode=ro":                      `mode=ro: it would be read only: leave it out: Weir writes`,
		"sqlite:w.db?immutable=1":                  `immutable=1: it would be read only`,
		"sqlite:file:%zz.db":                       `database "sqlite:file:%zz.db": not a URI: write % as %25`,
	} {
		_, _, _, _, err := store.TargetForTest(dsn)
		require.ErrorContains(t, err, want, dsn)
		require.NotContains(t, err.Error(), "secret", dsn)
		var fault *store.DSNError
		_, err = store.ResolveDSN(dsn, "/srv")
		require.ErrorAs(t, err, &fault, dsn)
		require.ErrorContains(t, err, want, dsn)
		_, err = store.Open(t.Context(), dsn, store.Options{Migrate: true})
		require.ErrorContains(t, err, want, dsn)
	}
}

func TestNoErrorOfADatabaseThatDoesNotAnswerShowsThePassword(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:secret@127.0.0.1:1/d?sslmode=disable&schema=s&connect_timeout=1",
		"postgres:///d?host=127.0.0.1&port=1&user=u&password=secret&sslmode=disable",
	} {
		_, err := store.Open(t.Context(), dsn, store.Options{Migrate: true})
		require.ErrorContains(t, err, "database postgres://")
		require.NotContains(t, err.Error(), "secret")
	}
	db := storetest.Postgres(t)
	u, err := url.Parse(db.DSN)
	require.NoError(t, err)
	u.User = url.UserPassword("postgres", "wrong-secret")
	_, err = store.Open(t.Context(), u.String(), store.Options{Migrate: true})
	require.ErrorContains(t, err, "cannot connect: pq: password authentication failed")
	require.NotContains(t, err.Error(), "wrong-secret")
}

func TestAFileOfAnyNameIsTheOneThatIsUsed(t *testing.T) {
	for _, name := range []string{"plain.db", "with blanks .db", "a?b.db", "50%.db", "%41.db", "a#b.db", "é&x=y+z.db", "a;b.db", "-"} {
		path := filepath.Join(t.TempDir(), name)
		for _, query := range []string{"", "?_pragma=cache_size(-1000)"} {
			s, err := store.Open(t.Context(), "sqlite:"+path+query, store.Options{Migrate: true})
			require.NoError(t, err, name)
			_, err = s.Insert(t.Context(), newJobs("a", 1))
			require.NoError(t, err)
			require.NoError(t, s.Close())
			require.FileExists(t, path)
		}
		files, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.LessOrEqual(t, len(files), 2, "the file, and the lock of its migrations: %v", files)
	}
}

func TestAFileThatCannotBeUsedSaysSo(t *testing.T) {
	dir := t.TempDir()
	open := func(path string, opts store.Options) error {
		_, err := store.Open(t.Context(), "sqlite:"+path, opts)
		return err
	}
	missing := filepath.Join(dir, "missing.db")
	for _, opts := range []store.Options{{}, {MustExist: true}, {MustExist: true, Migrate: true}} {
		err := open(missing, opts)
		require.ErrorIs(t, err, store.ErrNoDatabase)
		require.EqualError(t, err, "database sqlite:"+missing+": no Weir database there: `weir serve` or `weir migrate up` creates it")
		require.NoFileExists(t, missing)
	}
	nowhere := filepath.Join(dir, "none", "w.db")
	for _, opts := range []store.Options{{Migrate: true}, {MustExist: true}} {
		err := open(nowhere, opts)
		require.ErrorIs(t, err, store.ErrNoDatabase)
		require.EqualError(t, err, "database sqlite:"+nowhere+": no Weir database there: there is no folder "+filepath.Dir(nowhere)+": make it, as with mkdir -p")
	}
	require.Equal(t, filepath.Dir(nowhere), store.MissingFolder("sqlite:"+nowhere))
	require.Empty(t, store.MissingFolder("sqlite:"+missing))
	require.Empty(t, store.MissingFolder("postgres://h/d"))
	require.ErrorContains(t, open(dir, store.Options{Migrate: true}), "unable to open database file (14): name a file, not a folder, that this user may read and write")
	text := filepath.Join(dir, "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever its name says, is it?"), 0o600))
	require.ErrorContains(t, open(text, store.Options{Migrate: true}), "file is not a database (26): it is a file of another kind: name one of SQLite's, or one that is not there yet, as in weir.db")
}

func TestAServerThatCannotBeUsedSaysWhatToMend(t *testing.T) {
	db := storetest.Postgres(t).Direct()
	server, err := url.Parse(db.DSN)
	require.NoError(t, err)
	for _, c := range []struct {
		name   string
		change func(u *url.URL, q url.Values)
		want   string
	}{
		{"without TLS", func(_ *url.URL, q url.Values) { q.Set("sslmode", "require") }, "SSL is not enabled on the server: where the way to the server is safe without it, add ?sslmode=disable"},
		{"where nothing listens", func(u *url.URL, _ url.Values) { u.Host = "127.0.0.1:1" }, "connection refused: nothing listens there: start the server, or correct its host and port"},
		{"with a wrong password", func(u *url.URL, _ url.Values) { u.User = url.UserPassword("postgres", "wrong-secret") }, `password authentication failed for user "postgres" (28P01): correct the user or the password`},
		{"without the database", func(u *url.URL, _ url.Values) { u.Path = "/nothing_there" }, `database "nothing_there" does not exist (3D000): create it, as with createdb, or correct its name`},
		{"with a parameter of nobody", func(_ *url.URL, q url.Values) { q.Set("foo", "bar") }, `unrecognized configuration parameter "foo" (42704): correct the parameters behind the ?`},
	} {
		u := *server
		q := u.Query()
		c.change(&u, q)
		u.RawQuery = q.Encode()
		_, err := store.Open(t.Context(), u.String(), store.Options{Migrate: true})
		require.ErrorContains(t, err, c.want, c.name)
		require.NotContains(t, err.Error(), "wrong-secret")
		require.Equal(t, err, store.Mended(err), "it is said once")
	}
}

// coded is an error of SQLite.
type coded int

func (c coded) Code() int     { return int(c) }
func (c coded) Error() string { return fmt.Sprintf("sqlite says %d", int(c)) }

func TestAnErrorOfTheDatabaseSaysWhatToMendWhereThatIsKnown(t *testing.T) {
	for code, want := range map[int]string{
		8:        "list jobs: sqlite says 8: let this user write the file and its folder",
		8 | 4<<8: "list jobs: sqlite says 1032: let this user write the file and its folder",
		11:       "list jobs: sqlite says 11: it was damaged: take a backup, or what `sqlite3 FILE .recover` can still read",
		13:       "list jobs: sqlite says 13: make room on the disk",
		1:        "list jobs: sqlite says 1",
	} {
		err := fmt.Errorf("list jobs: %w", coded(code))
		require.EqualError(t, store.Mended(err), want)
		require.ErrorIs(t, store.Mended(err), coded(code))
	}
	require.NoError(t, store.Mended(nil))
}

// settings reads what a connection has.
func settings(t *testing.T, query func(context.Context, string, ...any) *sql.Row) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"busy_timeout", "journal_mode", "synchronous", "foreign_keys", "cache_size", "query_only", "journal_size_limit", "wal_autocheckpoint"} {
		var value string
		require.NoError(t, query(t.Context(), `pragma `+name).Scan(&value))
		out[name] = value
	}
	return out
}

func TestEveryConnectionHasTheSameSettingsAlsoThoseMadeLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.db")
	for query, changed := range map[string]map[string]string{
		"": {},
		"?_pragma=synchronous(normal)&_pragma=BUSY_TIMEOUT=1234&_pragma=cache_size(-77)": {"synchronous": "1", "busy_timeout": "1234", "cache_size": "-77"},
		"?_busy_timeout=1234&_synchronous=normal&_pragma=%20foreign_keys(0)":             {"synchronous": "1", "busy_timeout": "1234", "foreign_keys": "0"},
		"?_txlock=deferred": {},
	} {
		want := map[string]string{
			"busy_timeout": "10000", "journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "cache_size": "-32000",
			"query_only": "1", "journal_size_limit": "-1", "wal_autocheckpoint": "1000",
		}
		maps.Copy(want, changed)
		s, err := store.Open(t.Context(), "sqlite:"+path+query, store.Options{Migrate: true})
		require.NoError(t, err)
		pool := s.ConnectionsForTest()
		for range 2 {
			conns := make([]*sql.Conn, 8)
			for i := range conns {
				conns[i], err = pool.Conn(t.Context())
				require.NoError(t, err)
			}
			for _, c := range conns {
				require.Equal(t, want, settings(t, c.QueryRowContext), query)
				require.NoError(t, c.Close())
			}
			pool.SetMaxIdleConns(0) // closes them all
			require.Zero(t, pool.Stats().OpenConnections)
		}
		want["query_only"], want["journal_size_limit"] = "0", "8388608"
		require.Equal(t, want, settings(t, s.WriterForTest().QueryRowContext))
		require.NoError(t, s.Close())
	}
}
