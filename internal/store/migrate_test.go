package store_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/migrations"
)

// What a process of the tests' own is to open, and the statement of its
// migration after which it is to die.
const (
	openEnv = "WEIR_STORE_TEST_OPEN"
	dieEnv  = "WEIR_STORE_TEST_DIE_AFTER"
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(openEnv); dsn != "" {
		os.Exit(openOnce(dsn, os.Getenv(dieEnv)))
	}
	os.Exit(storetest.Main(m, closeShared))
}

// openOnce is a process that starts: it migrates, writes and reads.
func openOnce(dsn, dieAfter string) int {
	ctx := context.Background()
	watch := &watcher{}
	if dieAfter != "" {
		watch.after = func(query string) {
			if strings.Contains(query, dieAfter) {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
				select {}
			}
		}
	}
	s, err := store.Open(ctx, dsn, store.Options{Migrate: true, Wrap: watch.wrap})
	if err == nil {
		err = s.Register(ctx, []store.Task{{Name: "a", Queue: "q", Definition: "{}"}}, nil)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestEightProcessesThatStartAtOnceOnAnEmptyDatabaseAllComeUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		outputs, errs := make([][]byte, 8), make([]error, 8)
		var wg sync.WaitGroup
		for i := range outputs {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
				cmd.Env = append(os.Environ(), openEnv+"="+db.DSN)
				outputs[i], errs[i] = cmd.CombinedOutput()
			})
		}
		wg.Wait()
		for i := range errs {
			require.NoError(t, errs[i], "process %d: %s", i, outputs[i])
		}
		s := db.Open(t, store.Options{})
		tasks, err := s.Tasks(t.Context())
		require.NoError(t, err)
		require.Len(t, tasks, 1)
	})
}

func TestMigrationsGoUpAndDownAndUpAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := t.Context()
		pairs, err := migrations.For(string(db.Dialect))
		require.NoError(t, err)
		s, err := store.OpenForMigration(ctx, db.DSN, true)
		require.NoError(t, err)
		defer s.Close()
		status := func() (applied int) {
			list, err := s.MigrationStatus(ctx)
			require.NoError(t, err)
			require.Len(t, list, len(pairs))
			for _, m := range list {
				if m.Applied {
					applied++
				}
			}
			return applied
		}
		require.Zero(t, status())
		for range 2 {
			require.NoError(t, s.MigrateUp(ctx))
			require.Equal(t, len(pairs), status())
			for range pairs {
				require.NoError(t, s.MigrateDown(ctx))
			}
			require.Zero(t, status())
		}
	})
}

func TestBothDatabasesHaveTheSameVersions(t *testing.T) {
	lite, err := migrations.For("sqlite")
	require.NoError(t, err)
	pg, err := migrations.For("postgres")
	require.NoError(t, err)
	require.Len(t, pg, len(lite))
	for i := range lite {
		require.Equal(t, lite[i].Version, pg[i].Version)
		require.Equal(t, lite[i].Name, pg[i].Name)
	}
}

func TestASchemaThatIsNotThisProgramsIsRefusedWithTheMend(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := t.Context()
		_, err := store.Open(ctx, db.DSN, store.Options{MustExist: true})
		require.ErrorIs(t, err, store.ErrNoDatabase)
		require.ErrorContains(t, err, "weir migrate up")

		s := db.Open(t, store.Options{})
		require.NoError(t, s.SetSchemaVersionForTest(ctx, 9999))
		for _, opts := range []store.Options{{}, {Migrate: true}} {
			_, err = store.Open(ctx, db.DSN, opts)
			require.ErrorIs(t, err, store.ErrSchema)
			require.ErrorContains(t, err, "use a newer weir")
		}
	})
}

func TestAProcessKilledInTheMiddleOfMigratingLeavesADatabaseThatTheNextOneCompletes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		for _, statement := range []string{"create table", "INSERT INTO"} { // the second is goose's
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), openEnv+"="+db.DSN, dieEnv+"="+statement)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			require.Equal(t, "signal: killed", exit.String(), "after %s: %s", statement, out)
		}
		s := db.Open(t, store.Options{})
		_, err := s.Insert(t.Context(), newJobs("a", 1))
		require.NoError(t, err)
		require.Equal(t, schemaOf(t, undisturbed(t, db.Dialect)), schemaOf(t, db))
		if db.Dialect == store.Postgres {
			b := &bundle{beside: db.SQL(t)}
			// Tests of other packages migrate on this server at the same time,
			// but a lock that is left stays.
			require.Eventually(t, func() bool {
				return b.count(t, `select count(*) from pg_locks where locktype = 'advisory' and objid = $1`, 0x77656972) == 0
			}, time.Minute, 5*time.Millisecond)
		}
	})
}

// Those that wait in the server would keep the connections of a small pool from
// the one that migrates.
func TestWhoMayNotMigrateYetWaitsWithoutATransaction(t *testing.T) {
	db := storetest.Postgres(t)
	b := &bundle{beside: db.SQL(t)}
	other, err := b.beside.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = other.ExecContext(t.Context(), `select pg_advisory_xact_lock($1)`, 0x77656972)
	require.NoError(t, err)

	faults := &storetest.Faults{}
	begins, ends := faults.Count(`^begin`), faults.Count(`^rollback$`)
	opened := make(chan error, 1)
	go func() {
		s, err := store.Open(t.Context(), db.DSN, store.Options{Migrate: true, Wrap: faults.Wrap})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	require.Eventually(t, func() bool { return begins.Statements() >= 3 }, waitFor, tick)
	require.GreaterOrEqual(t, ends.Statements(), begins.Statements()-1)
	require.Empty(t, opened)
	require.NoError(t, other.Rollback())
	require.NoError(t, <-opened)
}

// undisturbed is a database that was migrated in one go.
func undisturbed(t *testing.T, dialect store.Dialect) storetest.Database {
	t.Helper()
	if dialect == store.Postgres {
		return setup(t, storetest.Postgres(t)).db
	}
	db := storetest.SQLite(t)
	db.Open(t, store.Options{})
	return db
}

// schemaOf lists what is in a database, but for the rows.
func schemaOf(t *testing.T, db storetest.Database) (out []string) {
	t.Helper()
	query := `select type || ' ' || name || ' ' || coalesce(sql, '') from sqlite_schema order by 1`
	if db.Dialect == store.Postgres {
		query = `select c.relkind::text || ' ' || c.relname || ' ' || coalesce(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || a.attnotnull, '')
from pg_class c left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
where c.relnamespace = current_schema()::regnamespace order by 1`
	}
	rows, err := db.SQL(t).QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		out = append(out, line)
	}
	require.NoError(t, rows.Err())
	return out
}

func TestAnApplicationsOwnTablesAreLeftAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := &bundle{db: db, beside: db.SQL(t)}
		if db.Dialect == store.Postgres {
			b.exec(t, `create schema `+schemaName(t, db))
		}
		b.exec(t, `create table goose_db_version (id integer, version_id bigint, is_applied boolean, tstamp timestamp)`)
		b.exec(t, `insert into goose_db_version (id, version_id, is_applied) values (1, 99, true)`)
		b.exec(t, `create table jobs (id bigint)`)
		db.Open(t, store.Options{})
		require.EqualValues(t, 99, b.count(t, `select max(version_id) from goose_db_version`))
		require.EqualValues(t, 1, b.count(t, `select count(*) from goose_db_version`))
		pairs, err := migrations.For(string(db.Dialect))
		require.NoError(t, err)
		require.Equal(t, pairs[len(pairs)-1].Version, b.count(t, `select max(version_id) from weir_migrations`))
	})
}

func schemaName(t *testing.T, db storetest.Database) string {
	t.Helper()
	_, _, schema, _, err := store.TargetForTest(db.DSN)
	require.NoError(t, err)
	return schema
}

func TestAForeignTableUnderOneOfWeirsNamesIsRefusedAndLeftAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := &bundle{db: db, beside: db.SQL(t)}
		mend := "give Weir another file"
		if db.Dialect == store.Postgres {
			b.exec(t, `create schema `+schemaName(t, db))
			mend = "give Weir a schema of its own, as in ?schema=weir"
		}
		for _, create := range []string{`create table weir_tasks (a integer)`, `create view weir_tasks as select 1 as a`} {
			b.exec(t, create)
			for range 2 {
				_, err := store.Open(t.Context(), db.DSN, store.Options{Migrate: true})
				require.ErrorIs(t, err, store.ErrSchema)
				require.ErrorContains(t, err, "it has a table weir_tasks that is not Weir's: "+mend)
			}
			_, err := store.Open(t.Context(), db.DSN, store.Options{})
			require.Error(t, err)
			require.Zero(t, b.count(t, `select count(*) from weir_tasks where a = 7`))
			b.exec(t, `drop `+strings.Fields(create)[1]+` weir_tasks`)
		}
		db.Open(t, store.Options{})
	})
}

func TestTheSchemaParameterHoldsEverythingAndNothingIsElsewhere(t *testing.T) {
	db := storetest.Postgres(t)
	b := &bundle{db: db, beside: db.SQL(t)}
	elsewhere := func() int64 {
		return b.count(t, `select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname like 'weir\_%' and n.nspname not like 'test\_%'`)
	}
	before := elsewhere()
	everyCall(t, db.Open(t, store.Options{}))
	require.Equal(t, before, elsewhere())
	require.EqualValues(t, 15, b.count(t, `select count(*) from pg_tables where schemaname = current_schema()`))
}

// role makes a user that may do nothing yet, and returns the DSN with which it
// connects.
func (b *bundle) role(t *testing.T, dsn string) (name, asRole string) {
	t.Helper()
	name = "weir_" + strings.ReplaceAll(newID(), "-", "")
	b.exec(t, `create role `+name+` login password 'secret'`)
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := b.beside.ExecContext(ctx, `drop owned by `+name+` cascade; drop role `+name)
		require.NoError(t, err)
	})
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	return name, u.String()
}

func TestAChangeThatIsNotAllowedStopsTheStartWithItsSQLError(t *testing.T) {
	db := storetest.Postgres(t).Direct()
	b := &bundle{db: db, beside: db.SQL(t)}
	name, dsn := b.role(t, db.DSN)
	schema := schemaName(t, db)
	open := func() error {
		s, err := store.Open(t.Context(), dsn, store.Options{Migrate: true})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	require.ErrorContains(t, open(), "create schema "+schema+": pq: permission denied for database")
	b.exec(t, `create schema `+schema)
	b.exec(t, `grant usage on schema `+schema+` to `+name)
	require.ErrorContains(t, open(), "pq: permission denied for schema "+schema)
	require.Zero(t, b.count(t, `select count(*) from pg_tables where schemaname = $1`, schema))
	// A role that may not create schemas may still use one that is there.
	b.exec(t, `grant create on schema `+schema+` to `+name)
	require.NoError(t, open())
	require.NoError(t, open())
}

func TestASchemaWhoseNameIsAWordOfSQLIsRefused(t *testing.T) {
	db := storetest.Postgres(t)
	for _, word := range []string{"user", "order"} {
		_, err := store.Open(t.Context(), strings.Replace(db.DSN, schemaName(t, db), word, 1), store.Options{Migrate: true})
		require.ErrorContains(t, err, "schema "+word+": a word of SQL's own: use another name")
	}
}
