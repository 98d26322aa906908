package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/weirq/weir/internal/clock"
)

// Store is a database with Weir's tables. It is safe for concurrent use.
type Store struct {
	target target
	wrap   func(driver.Connector) driver.Connector
	clock  clock.Clock
	// fixed is the injected clock; nil where PostgreSQL's own is asked.
	fixed clock.Clock

	// read answers questions. On PostgreSQL it writes too; on SQLite it
	// cannot, and writer is the one connection that does.
	read   *pool
	writer *writer
	// engine is PostgreSQL's pool for turns, results and lease renewals, so that
	// handlers with many calls under way cannot starve them.
	engine *pool

	doubt   doubt // on PostgreSQL's connections
	silence time.Duration
	trusted bool
	statfs  func(folder string) uint32
	texts   sync.Map // *statement -> string
	lasting sync.Map // the texts of lasting statements
	group   group
	wakes   wakes
	heads   heads
	notices notices

	surveying sync.Mutex
	survey    *sql.Stmt // SQLite's

	closing  sync.Once
	closed   atomic.Bool
	closeErr error
}

// Options say how a store is opened. The zero value is right for production.
type Options struct {
	// Clock replaces the clocks of the host and of the database, for tests.
	Clock clock.Clock
	// HostClock replaces the clock of the host alone, for tests.
	HostClock clock.Clock
	// MaxConns bounds the connections that questions and enqueues may use.
	// Default: 10.
	MaxConns int
	// Migrate brings the schema up before the store is used. Without it a
	// schema that is not this program's is an error.
	Migrate bool
	// Wrap stands between the store and the database's driver, for tests that
	// count statements or make them fail.
	Wrap func(driver.Connector) driver.Connector
	// MustExist refuses a database that has no Weir tables.
	MustExist bool
	// Statfs tells the number of the file system that a folder is on, instead of
	// the system, for tests.
	Statfs func(folder string) uint32
	// Trusted prepares statements through a relay as well, for tests.
	Trusted bool
	// Silence shortens the time after which a connection to PostgreSQL counts
	// as dead that does not answer, for tests.
	Silence time.Duration
}

// ErrNoDatabase is returned when there is nothing to open and Options forbid
// to create it.
var ErrNoDatabase = errors.New("no Weir database there")

// ErrClosed is returned by calls of a store that was closed.
var ErrClosed = errors.New("the database was closed: open it again")

// Open opens the database that dsn names (sqlite:PATH or postgres://...).
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	s, err := open(ctx, dsn, opts)
	if err != nil {
		return nil, Mended(err)
	}
	return s, nil
}

func open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	t, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	s := newStore(t)
	s.wrap, s.clock, s.fixed = opts.Wrap, opts.Clock, opts.Clock
	s.silence, s.trusted = opts.Silence, opts.Trusted
	if opts.HostClock != nil {
		s.clock = opts.HostClock
	}
	if opts.Statfs != nil {
		s.statfs = opts.Statfs
	}
	if s.clock == nil {
		s.clock = clock.System{}
	}
	conns := opts.MaxConns
	if conns <= 0 {
		conns = 10
	}
	if err := s.connect(ctx, conns, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.checkSchema(ctx, opts); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if t.dialect == SQLite {
		if s.writer, err = s.openWriter(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func newStore(t target) *Store {
	return &Store{
		target: t, clock: clock.System{}, statfs: fileSystem,
		notices: notices{from: rand.Text(), closing: make(chan struct{})},
		group:   group{company: company{atMost: mostPatience}},
	}
}

func (s *Store) connect(ctx context.Context, conns int, opts Options) error {
	dsn := s.target.dsn
	if s.target.dialect == SQLite {
		if folder := s.target.missingFolder(); folder != "" {
			return fmt.Errorf("database sqlite:%s: %w: there is no folder %s: make it, as with mkdir -p", s.target.path, ErrNoDatabase, folder)
		}
		if !opts.Migrate || opts.MustExist {
			if _, err := os.Stat(s.target.path); err != nil {
				return fmt.Errorf("database sqlite:%s: %w: `weir serve` or `weir migrate up` creates it", s.target.path, ErrNoDatabase)
			}
		}
		dsn = s.target.sqliteURI(false)
	}
	var err error
	if s.read, err = s.pool(dsn, conns, silence); err != nil {
		return err
	}
	if err := s.firstContact(ctx); err != nil {
		return fmt.Errorf("database %s: cannot connect: %w", s, err)
	}
	if s.target.dialect == SQLite {
		return nil
	}
	s.engine, err = s.pool(dsn, 3, engineSilence)
	return err
}

// firstContact opens the first connection. On SQLite that can meet another
// process which makes the file's WAL, recovers it, or takes it away as the
// last to leave: SQLite says busy then, without waiting for its timeout.
func (s *Store) firstContact(ctx context.Context) error {
	const tries, between = 500, 20 * time.Millisecond
	for n := 1; ; n++ {
		err := s.read.PingContext(ctx)
		if code, _ := sqliteCode(err); code&0xff != sqliteBusy || n == tries {
			return err
		}
		clock.Pause(ctx, between)
	}
}

// pool is connections to the database, until the store is closed.
type pool struct {
	*sqlx.DB

	closed *atomic.Bool
}

func (p *pool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if p.closed.Load() {
		return nil, ErrClosed
	}
	return p.DB.QueryContext(ctx, query, args...)
}

func (p *pool) GetContext(ctx context.Context, out any, query string, args ...any) error {
	if p.closed.Load() {
		return ErrClosed
	}
	return p.DB.GetContext(ctx, out, query, args...)
}

// pool opens nothing yet: connections are made when they are needed. On
// PostgreSQL one that does not answer for longer than quiet counts as dead.
func (s *Store) pool(dsn string, conns int, quiet time.Duration) (*pool, error) {
	name := "postgres"
	var open driver.Connector = &pgConnector{dsn: dsn, silence: s.patience(quiet), doubt: &s.doubt, lasting: &s.lasting, trusted: s.trusted}
	if s.target.dialect == SQLite {
		name = "sqlite"
		plain, err := sql.Open(name, dsn)
		if err != nil {
			return nil, fmt.Errorf("database %s: %w", s, err)
		}
		open = connector{dsn, plain.Driver()}
		_ = plain.Close() // it has no connections
	}
	if s.wrap != nil {
		open = s.wrap(open)
	}
	db := sql.OpenDB(open)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return &pool{sqlx.NewDb(db, name), &s.closed}, nil
}

// patience is for how long an answer is waited for, or less in a test.
func (s *Store) patience(quiet time.Duration) time.Duration {
	if s.silence > 0 && quiet != unbounded {
		return min(s.silence, quiet)
	}
	return quiet
}

// connector opens SQLite's connections.
type connector struct {
	dsn    string
	driver driver.Driver
}

func (c connector) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c connector) Driver() driver.Driver                        { return c.driver }

// Close releases the connections. Nothing may be under way. Calls that come
// later get ErrClosed; closing again changes nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.group.wg.Wait()
		s.notices.close()
		s.closed.Store(true)
		var errs []error
		if s.writer != nil {
			errs = append(errs, s.writer.close())
		}
		if s.survey != nil {
			errs = append(errs, s.survey.Close())
		}
		for _, db := range []*pool{s.engine, s.read} {
			if db == nil {
				continue
			}
			// A server that cannot be told of a connection's end sees it all the same.
			if err := db.Close(); s.target.dialect == SQLite {
				errs = append(errs, err)
			}
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

// String names the database without its password.
func (s *Store) String() string {
	if s.target.dialect == SQLite {
		return "sqlite:" + s.target.path
	}
	return s.target.shown
}

// WritesAtOnce tells whether transactions write side by side, as PostgreSQL's do.
func (s *Store) WritesAtOnce() bool { return s.writer == nil }

// Clock is the clock that timers follow; stored times come from Now.
func (s *Store) Clock() clock.Clock { return s.clock }

// Handle is a connection or a transaction that is open: of Weir's own, or the
// caller's (*sql.Tx, *sql.Conn, *sqlx.Tx, a driver's stdlib wrapper).
type Handle interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// given is the time to bind where a statement takes one: the injected or the
// host's clock, or nil where PostgreSQL reads its own.
func (s *Store) given() any {
	switch {
	case s.fixed != nil:
		return s.fixed.Now().UnixMicro()
	case s.target.dialect == SQLite:
		return s.clock.Now().UnixMicro()
	}
	return nil
}

var nowSQL = &statement{postgres: `select ` + pgNow + ` as now`}

// Now is the store's time, in microseconds: the database's on PostgreSQL.
func (s *Store) Now(ctx context.Context) (int64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	return s.nowIn(ctx, s.read)
}

func (s *Store) nowIn(ctx context.Context, h Handle) (int64, error) {
	if given, ok := s.given().(int64); ok {
		return given, nil
	}
	row, err := selectRow[struct {
		Now int64 `db:"now"`
	}](ctx, h, s.text(nowSQL))
	if err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}
	return row.Now, nil
}
