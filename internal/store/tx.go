package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
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
	conn  *sqlx.Conn
	stmts *stmtCache // SQLite's writer only
}

func (t *tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if t.stmts != nil {
		stmt, err := t.stmts.get(ctx, t.conn, query)
		if err != nil {
			return nil, err
		}
		return stmt.ExecContext(ctx, args...)
	}
	return t.conn.ExecContext(ctx, query, args...)
}

func (t *tx) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if t.stmts != nil {
		stmt, err := t.stmts.get(ctx, t.conn, query)
		if err != nil {
			return nil, err
		}
		return stmt.QueryContext(ctx, args...)
	}
	return t.conn.QueryContext(ctx, query, args...)
}

// The planner guards of a turn keep every plan linear in the rows asked for,
// whatever the statistics say at the moment: without them a nearly empty
// table's statistics turn a claim into a scan.
const (
	beginPostgres     = `begin isolation level read committed read write`
	beginPostgresTurn = beginPostgres + `; set local enable_seqscan = off; set local enable_hashjoin = off; ` +
		`set local enable_mergejoin = off; set local enable_bitmapscan = off; set local jit = off`
	beginSQLite = `begin immediate`
)

const maxAttempts = 8

// write runs do in a transaction. Serialization failures and deadlocks are
// tried again in place, so do must be repeatable: it may leave nothing behind
// outside the transaction but what it overwrites.
func (s *Store) write(ctx context.Context, do func(*tx) error) error {
	return s.writeOn(ctx, s.read, beginPostgres, do)
}

func (s *Store) writeOn(ctx context.Context, db *sqlx.DB, begin string, do func(*tx) error) error {
	for attempt := 1; ; attempt++ {
		err := s.writeOnce(ctx, db, begin, do)
		if err == nil || attempt == maxAttempts || !transient(err) || ctx.Err() != nil {
			return err
		}
		fired, stop := s.clockForPauses().Timer(time.Duration(attempt) * time.Millisecond)
		select {
		case <-fired:
		case <-ctx.Done():
		}
		stop()
	}
}

func (s *Store) writeOnce(ctx context.Context, db *sqlx.DB, begin string, do func(*tx) error) (err error) {
	t := &tx{}
	if s.writer != nil {
		if err := s.writer.lock(ctx); err != nil {
			return err
		}
		defer s.writer.unlock()
		t.conn, t.stmts, begin = s.writer.conn, s.writer.stmts, beginSQLite
	} else {
		conn, err := db.Connx(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		t.conn = conn
		defer func() {
			if cerr := conn.Close(); err == nil && cerr != nil && !errors.Is(cerr, sql.ErrConnDone) {
				err = fmt.Errorf("release the connection: %w", cerr)
			}
		}()
	}
	if err := t.control(ctx, begin); err != nil {
		t.rollback(ctx)
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(t); err != nil {
		t.rollback(ctx)
		return err
	}
	if err := t.control(ctx, `commit`); err != nil {
		t.rollback(ctx)
		if definite(err) {
			return fmt.Errorf("commit: %w", err)
		}
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return nil
}

// control runs a transaction statement. A context that ends must not cut a
// commit in two, so it is kept out of those.
func (t *tx) control(ctx context.Context, text string) error {
	if text == `commit` {
		ctx = context.WithoutCancel(ctx)
	}
	if t.stmts != nil {
		_, err := t.ExecContext(ctx, text)
		return err
	}
	_, err := t.conn.ExecContext(ctx, text)
	return err
}

// rollback ends a failed transaction. A connection on which even that fails
// is in an unknown state and is thrown away.
func (t *tx) rollback(ctx context.Context) {
	err := t.control(context.WithoutCancel(ctx), `rollback`)
	if err != nil && t.stmts == nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// transient tells errors that mean "not now, try again": nothing was changed.
func transient(err error) bool {
	var pe *pq.Error
	if errors.As(err, &pe) {
		switch pe.Code {
		case "40001", "40P01": // serialization_failure, deadlock_detected
			return true
		}
	}
	return false
}

// definite tells an answer of the server, after which the outcome is known,
// from a connection that broke.
func definite(err error) bool {
	var pe *pq.Error
	if errors.As(err, &pe) {
		switch pe.Code.Class() {
		case "08", "57": // connection exceptions, operator intervention
			return false
		}
		return true
	}
	var busy interface{ Code() int } // SQLite answers in the process
	return errors.As(err, &busy)
}
