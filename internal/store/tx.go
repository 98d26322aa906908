package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/weirq/weir/internal/clock"
)

// ErrOutcomeUnknown is returned when the connection failed while a commit was
// under way: it may or may not have happened. Every write can be repeated or
// looked up by its id.
var ErrOutcomeUnknown = errors.New("commit outcome unknown")

// tx is a transaction. It is begun and ended by plain statements: a begin
// with its settings is then one round trip, and on SQLite every write begins
// as a writer, so that it waits for the lock instead of failing at its first
// write.
type tx struct {
	conn   *sqlx.Conn
	writer *writer // SQLite's
	ended  bool    // committed
	wary   bool    // of rows that already stand where a job is to go
	// dead is by how many the dead letters of a group became more or fewer.
	dead map[deadGroup]int64
}

func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if t.writer != nil {
		stmt, err := t.writer.stmts.get(ctx, t.conn, query) //nolint:sqlclosecheck // it is kept
		if err != nil {
			return nil, err
		}
		return stmt.ExecContext(ctx, args...)
	}
	return t.conn.ExecContext(ctx, query, args...)
}

func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if t.writer != nil {
		stmt, err := t.writer.stmts.get(ctx, t.conn, query) //nolint:sqlclosecheck // it is kept
		if err != nil {
			return nil, err
		}
		return stmt.QueryContext(ctx, args...)
	}
	return t.conn.QueryContext(ctx, query, args...)
}

// The planner guards of a turn keep every plan linear in the rows asked for,
// whatever the statistics say at the moment: without them a nearly empty
// table's statistics turn a claim into a scan. In a turn lasting statements keep
// theirs: left alone, PostgreSQL would plan those of a small turn for its values,
// each time anew.
//
// A process that is gone in silence leaves no locks behind for longer than ten
// seconds. There is no "read write": a server that its operator has made
// read-only, for a full disk, is not to be overruled.
const (
	beginPostgres        = `begin isolation level read committed; set local idle_in_transaction_session_timeout = '10s'`
	beginPostgresGuarded = beginPostgres + `; set local enable_seqscan = off; set local enable_hashjoin = off; ` +
		`set local enable_mergejoin = off; set local enable_bitmapscan = off; set local jit = off`
	keepPlans         = `; set local plan_cache_mode = force_generic_plan`
	beginPostgresTurn = beginPostgresGuarded + keepPlans + `; set local lock_timeout = '3s'`
	beginSQLite       = `begin immediate`
)

// ErrLocked is returned by a turn that waited for a row which somebody else
// has had locked for three seconds: one with SkipLocked goes round it. So it is by
// what a process writes when it starts. PostgreSQL.
var ErrLocked = errors.New("a row is locked by another session")

// purpose is what a transaction is for.
type purpose struct {
	begin  string // PostgreSQL's
	engine bool   // on the connections that handlers cannot starve
	first  bool   // before the others that wait for SQLite's writer
}

var (
	ordinary  = purpose{begin: beginPostgres}
	inserting = purpose{begin: beginPostgres + keepPlans}
	guarded   = purpose{begin: beginPostgresGuarded}
	starting  = purpose{begin: beginPostgres + `; set local lock_timeout = '3s'`}
	turning   = purpose{begin: beginPostgresTurn, engine: true}
	renewing  = purpose{begin: beginPostgresTurn, engine: true, first: true}
)

const maxAttempts = 8

// lastConnection is how many connections are tried: where one is no good, the
// next one is not as old.
const lastConnection = 3

// write runs do in a transaction. Serialization failures and deadlocks are
// tried again in place, so do must be repeatable: it may leave nothing behind
// outside the transaction but what it overwrites.
func (s *Store) write(ctx context.Context, do func(*tx) error) error {
	return s.writeFor(ctx, ordinary, do)
}

// declare is write for what a process that starts says of itself. It waits for a
// locked row as long as a turn does, and says what to do.
func (s *Store) declare(ctx context.Context, do func(*tx) error) error {
	err := s.writeFor(ctx, starting, do)
	if errors.Is(err, ErrLocked) {
		err = fmt.Errorf("%w: find that session in pg_stat_activity, end its transaction, and start again", err)
	}
	return err
}

func (s *Store) writeFor(ctx context.Context, why purpose, do func(*tx) error) error {
	wary := false
	for attempt := 1; ; attempt++ {
		err := s.writeOnce(ctx, why, wary, do)
		again := transient(err) && attempt < maxAttempts || demoted(err) && attempt < lastConnection
		if taken(err) && !wary {
			wary, again = true, true
		}
		if err == nil || !again || ctx.Err() != nil {
			if pe, ok := errors.AsType[*pq.Error](err); ok && pe.Code == "55P03" { // lock_not_available
				err = fmt.Errorf("%w: %w", ErrLocked, err)
			}
			return cancelled(ctx, s.mended(err))
		}
		clock.Pause(ctx, apart(attempt))
	}
}

// apart is how long to wait before another attempt: up to twice as long as before
// the last one, and not as long as whoever failed at the same time.
func apart(attempt int) time.Duration {
	return rand.N(4 * time.Millisecond << attempt) //nolint:gosec // nobody is to guess it
}

func (s *Store) writeOnce(ctx context.Context, why purpose, wary bool, do func(*tx) error) error {
	t, err := s.begin(ctx, why)
	if err != nil {
		return err
	}
	t.wary = wary
	// Also when do panics: no connection is left in a transaction.
	defer t.release(ctx)
	if err := do(t); err != nil {
		if demoted(err) {
			t.discard()
			s.doubt.cast()
		}
		return err
	}
	if err := s.saveDeadCounts(ctx, t); err != nil {
		return err
	}
	// A context that ends must not cut a commit in two.
	if _, err := t.ExecContext(context.WithoutCancel(ctx), `commit`); err != nil {
		if definite(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	t.ended = true
	if t.writer != nil {
		t.writer.peers.committed()
	}
	return nil
}

func (s *Store) begin(ctx context.Context, why purpose) (*tx, error) {
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if s.writer != nil {
		if !s.writer.line.wait(ctx.Done(), why.first) {
			return nil, fmt.Errorf("wait for the writer: %w", ctx.Err())
		}
		t := &tx{conn: s.writer.conn, writer: s.writer}
		err := s.writer.checkFile(s.target.path)
		if err == nil {
			err = s.writer.peers.begin(ctx, t)
		}
		if err != nil {
			t.release(ctx)
			return nil, fmt.Errorf("begin: %w", err)
		}
		return t, nil
	}
	// The connections of a server that was restarted are found out here: nothing
	// was begun on them.
	db := s.read
	if why.engine {
		db = s.engine
	}
	for n := 1; ; n++ {
		conn, err := db.Connx(ctx)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		t := &tx{conn: conn}
		beginning, cancel := context.WithTimeoutCause(ctx, s.patience(beginSilence), errSilent)
		_, err = t.ExecContext(beginning, why.begin)
		cancel()
		if err == nil {
			return t, nil
		}
		t.discard()
		if n == lastConnection || definite(err) || ctx.Err() != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
		s.doubt.cast()
	}
}

// release gives the connection back, after a rollback where the transaction
// was not committed. One on which even that fails is in an unknown state.
func (t *tx) release(ctx context.Context) {
	if !t.ended {
		_, err := t.ExecContext(context.WithoutCancel(ctx), `rollback`)
		if err != nil && t.writer == nil {
			t.discard()
			return
		}
	}
	if t.writer != nil {
		t.writer.line.leave()
		return
	}
	_ = t.conn.Close()
}

// discard closes a connection for good.
func (t *tx) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = t.conn.Close()
}

// cancelled makes an error that came because ctx ended tell so: PostgreSQL's
// own answer to that is an error like others.
func cancelled(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// transient tells errors that mean "not now, try again": nothing was changed.
func transient(err error) bool {
	if pe, ok := errors.AsType[*pq.Error](err); ok {
		switch pe.Code {
		case "40001", "40P01": // serialization_failure, deadlock_detected
			return true
		}
	}
	return errors.Is(err, errStale)
}

// taken tells that a row already stands where one was to go.
func taken(err error) bool {
	if pe, ok := errors.AsType[*pq.Error](err); ok {
		return pe.Code == "23505" // unique_violation
	}
	code, _ := sqliteCode(err)
	return code == sqliteTakenKey || code == sqliteTaken
}

// demoted tells the answer of a server that may not write: it is the primary no
// longer, or was made read-only.
func demoted(err error) bool {
	pe, ok := errors.AsType[*pq.Error](err)
	return ok && pe.Code == "25006" // read_only_sql_transaction
}

// definite tells an answer of the server, after which the outcome is known,
// from a connection that broke.
func definite(err error) bool {
	if pe, ok := errors.AsType[*pq.Error](err); ok {
		switch pe.Code.Class() {
		case "08", "57": // connection exceptions, operator intervention
			return false
		}
		return true
	}
	_, ok := sqliteCode(err) // SQLite answers in the process
	return ok
}

// unfit tells errors that lie in what was to be stored, not in the database.
func unfit(err error) bool {
	if pe, ok := errors.AsType[*pq.Error](err); ok {
		switch pe.Code.Class() {
		case "22", "23", "54": // data exceptions, constraints, program limits
			return true
		}
	}
	switch code, _ := sqliteCode(err); code & 0xff {
	case sqliteTooBig, sqliteConstraint, sqliteMismatch:
		return true
	}
	return errors.Is(err, errEncode)
}

// mended says what to do where the database cannot be written to. It goes on as
// soon as that is done.
func (s *Store) mended(err error) error {
	var mend string
	if demoted(err) {
		mend = "name the primary in the DSN, or see why its operator has made this server, database or role read-only"
		return fmt.Errorf("%w: %s", err, mend)
	}
	switch code, _ := sqliteCode(err); code & 0xff {
	case sqliteFull:
		mend = "make room on the disk of " + s.target.path
	case sqliteReadOnly:
		mend = "let this process write to " + s.target.path + " and its folder"
	case sqliteIOErr:
		mend = "the system refuses to write or read " + s.target.path + ": its log says why"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, mend)
}

// SQLite's primary result codes.
const (
	sqliteBusy       = 5
	sqliteReadOnly   = 8
	sqliteIOErr      = 10
	sqliteFull       = 13
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20

	// Two of the codes of sqliteConstraint.
	sqliteTakenKey = 1555 // of a primary key
	sqliteTaken    = 2067 // of another unique index
)

func sqliteCode(err error) (code int, ok bool) {
	var e interface{ Code() int }
	if errors.As(err, &e) {
		return e.Code(), true
	}
	return 0, false
}
