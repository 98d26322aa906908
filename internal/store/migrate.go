package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/migrations"
)

// ErrSchema is returned where the schema is not the one this program uses.
var ErrSchema = errors.New("schema mismatch")

// migrationTable is goose's table under a name of our own: an application may
// use goose itself in the same database.
const migrationTable = "weir_migrations"

// MigrationStatus is one version of the schema.
type MigrationStatus struct {
	Version int64
	Name    string
	Applied bool
}

// OpenForMigration opens a database of which nothing is assumed, to look at
// its schema or to change it.
func OpenForMigration(ctx context.Context, dsn string, create bool) (*Store, error) {
	t, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s := newStore(t)
	if err := s.connect(ctx, 2, Options{Migrate: create}); err != nil {
		return nil, errors.Join(Mended(err), s.Close())
	}
	return s, nil
}

// checkSchema makes sure the schema is this program's, migrating if allowed.
func (s *Store) checkSchema(ctx context.Context, opts Options) error {
	p, done, err := s.provider()
	if err != nil {
		return err
	}
	defer done()
	have, want, err := s.versions(ctx, p)
	if err != nil {
		return err
	}
	switch {
	case have == want:
		return nil
	case have > want:
		return fmt.Errorf("database %s: %w: its schema is version %d, this program knows up to %d: use a newer weir", s, ErrSchema, have, want)
	case have == 0 && opts.MustExist:
		return fmt.Errorf("database %s: %w: `weir serve` or `weir migrate up` creates it", s, ErrNoDatabase)
	case !opts.Migrate:
		return fmt.Errorf("database %s: %w: its schema is version %d, this program needs %d: run `weir migrate up`", s, ErrSchema, have, want)
	}
	return s.migrateUp(ctx, p)
}

// MigrateUp brings the schema to this program's version.
func (s *Store) MigrateUp(ctx context.Context) error {
	p, done, err := s.provider()
	if err != nil {
		return err
	}
	defer done()
	return s.migrateUp(ctx, p)
}

func (s *Store) migrateUp(ctx context.Context, p *goose.Provider) error {
	unlock, err := s.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.prepareSchema(ctx, p); err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate %s: %w", s, err)
	}
	return nil
}

var (
	// A role that may not create schemas may still use one that is there.
	missingSchemaSQL = &statement{postgres: `select to_regnamespace($1) is null, quote_ident($1) <> $1`}

	foreignSQL = &statement{
		postgres: `
select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = coalesce(nullif($2, ''), current_schema())
  and c.relname = any(array(select value from json_array_elements_text($1::json)))
order by 1 limit 1`,
		sqlite: `select name from sqlite_schema where name in (select value from json_each($1)) and $2 = '' order by 1 limit 1`,
	}
)

// prepareSchema makes sure that there is a place for the tables, and that it
// is free.
func (s *Store) prepareSchema(ctx context.Context, p *goose.Provider) error {
	if s.target.schema != "" {
		var missing, reserved bool
		row := s.read.QueryRowContext(ctx, s.text(missingSchemaSQL), s.target.schema)
		if err := row.Scan(&missing, &reserved); err != nil {
			return fmt.Errorf("look for schema %s: %w", s.target.schema, err)
		}
		if reserved {
			return fmt.Errorf("database %s: schema %s: a word of SQL's own: use another name", s, s.target.schema)
		}
		if missing {
			if _, err := s.read.ExecContext(ctx, `create schema if not exists "`+s.target.schema+`"`); err != nil {
				return fmt.Errorf("create schema %s: %w", s.target.schema, err)
			}
		}
	}
	have, _, err := s.versions(ctx, p)
	if err != nil || have > 0 {
		return err
	}
	foreign, err := selectRows[struct {
		Name string `db:"name"`
	}](ctx, s.read, s.text(foreignSQL), document(tables), s.target.schema)
	if err != nil {
		return fmt.Errorf("database %s: cannot read its schema: %w", s, err)
	}
	if len(foreign) == 0 {
		return nil
	}
	mend := "give Weir another file"
	if s.target.dialect == Postgres {
		mend = "give Weir a schema of its own, as in ?schema=weir"
	}
	return fmt.Errorf("database %s: %w: it has a table %s that is not Weir's: %s", s, ErrSchema, foreign[0].Name, mend)
}

// MigrateDown takes the newest version of the schema away, and what was
// stored in it.
func (s *Store) MigrateDown(ctx context.Context) error {
	p, done, err := s.provider()
	if err != nil {
		return err
	}
	defer done()
	unlock, err := s.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := p.Down(ctx); err != nil {
		return Mended(fmt.Errorf("migrate %s down: %w", s, err))
	}
	return nil
}

// MigrationStatus lists the versions this program knows.
func (s *Store) MigrationStatus(ctx context.Context) ([]MigrationStatus, error) {
	p, done, err := s.provider()
	if err != nil {
		return nil, err
	}
	defer done()
	have, _, err := s.versions(ctx, p)
	if err != nil {
		return nil, err
	}
	pairs, err := migrations.For(string(s.target.dialect))
	if err != nil {
		return nil, err
	}
	out := make([]MigrationStatus, 0, len(pairs))
	for _, pair := range pairs {
		out = append(out, MigrationStatus{Version: pair.Version, Name: pair.Name, Applied: pair.Version <= have})
	}
	return out, nil
}

var versionSQL = &statement{
	postgres: `select to_regclass($1) is not null`,
	sqlite:   `select exists (select 1 from sqlite_schema where type = 'table' and name = $1)`,
}

// versions reads the schema's version without writing: a database that was
// never migrated is left as it is.
func (s *Store) versions(ctx context.Context, p *goose.Provider) (have, want int64, err error) {
	for _, src := range p.ListSources() {
		want = max(want, src.Version)
	}
	var there bool
	if err := s.read.GetContext(ctx, &there, s.text(versionSQL), s.migrationTable()); err != nil {
		return 0, 0, fmt.Errorf("database %s: cannot read its schema: %w", s, err)
	}
	if !there {
		return 0, want, nil
	}
	err = s.read.GetContext(ctx, &have, `select coalesce(max(version_id), 0) from `+s.migrationTable()+` where is_applied`)
	if err != nil {
		return 0, 0, fmt.Errorf("database %s: cannot read its schema's version: %w", s, err)
	}
	return have, want, nil
}

func (s *Store) migrationTable() string {
	if s.target.schema == "" {
		return migrationTable
	}
	return s.target.schema + "." + migrationTable
}

func (s *Store) provider() (*goose.Provider, func(), error) {
	pairs, err := migrations.For(string(s.target.dialect))
	if err != nil {
		return nil, nil, err
	}
	list := make([]*goose.Migration, 0, len(pairs))
	for _, p := range pairs {
		list = append(list, goose.NewGoMigration(p.Version, s.runSQL(p.Up), s.runSQL(p.Down)))
	}
	dsn, dialect := s.target.dsn, goose.DialectPostgres
	if s.target.dialect == SQLite {
		dsn, dialect = s.target.sqliteURI(true), goose.DialectSQLite3
	}
	// The readers of SQLite cannot write, and those of PostgreSQL wait for an
	// answer only for so long.
	db, err := s.pool(dsn, 1, unbounded)
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = db.Close() }
	p, err := goose.NewProvider(dialect, db.DB.DB, nil, goose.WithGoMigrations(list...),
		goose.WithTableName(s.migrationTable()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("migrations: %w", err)
	}
	return p, done, nil
}

func (s *Store) runSQL(text string) *goose.GoFunc {
	if s.target.dialect == Postgres {
		text = s.qualify(text)
	}
	return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text)
		return err
	}}
}

// migrationLock is the number of the advisory lock.
const migrationLock = 0x77656972 // "weir"

// betweenTries is how long a process waits that may not migrate yet.
const betweenTries = 50 * time.Millisecond

// lockMigrations lets one process migrate at a time. PostgreSQL: an advisory
// lock bound to a transaction on a connection of its own, which no pooler can
// leave behind; it is tried, for those that wait in the server keep connections
// of a pooler from the one that migrates. SQLite: an exclusive transaction on a
// file beside the database, which ends with its process.
func (s *Store) lockMigrations(ctx context.Context) (unlock func(), err error) {
	dsn := s.target.dsn
	if s.target.dialect == SQLite {
		u := url.URL{
			Scheme: "file", Path: filepath.ToSlash(s.target.path) + "-migrate",
			RawQuery: url.Values{"_pragma": {"busy_timeout(60000)"}}.Encode(),
		}
		dsn = u.String()
	}
	db, err := s.pool(dsn, 1, unbounded)
	if err != nil {
		return nil, err
	}
	t := &tx{}
	if t.conn, err = db.Connx(ctx); err == nil {
		err = s.tryMigrations(ctx, t)
	}
	end := func() {
		if t.conn != nil {
			t.release(ctx)
		}
		_ = db.Close()
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("lock migrations of %s: %w", s, err)
	}
	return sync.OnceFunc(end), nil
}

// tryMigrations begins the transaction that has the lock.
func (s *Store) tryMigrations(ctx context.Context, t *tx) error {
	if s.target.dialect == SQLite {
		_, err := t.conn.ExecContext(ctx, `begin exclusive`)
		return err
	}
	for ctx.Err() == nil {
		if _, err := t.conn.ExecContext(ctx, `begin; set local idle_in_transaction_session_timeout = 0`); err != nil {
			return err
		}
		var locked bool
		err := t.conn.GetContext(ctx, &locked, `select pg_try_advisory_xact_lock($1)`, migrationLock)
		if err != nil || locked {
			return err
		}
		if _, err := t.conn.ExecContext(ctx, `rollback`); err != nil {
			return err
		}
		clock.Pause(ctx, betweenTries)
	}
	return ctx.Err()
}
