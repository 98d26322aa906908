package store

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"
)

// SetSchemaVersionForTest pretends that a newer program migrated.
func (s *Store) SetSchemaVersionForTest(ctx context.Context, version int64) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.conn.ExecContext(ctx, `insert into `+s.migrationTable()+` (version_id, is_applied) values (`+strconv.FormatInt(version, 10)+`, true)`)
		return err
	})
}

// PendingForTest is how many single inserts wait for the next group.
func (s *Store) PendingForTest() int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return len(s.group.pending)
}

// SetPatienceForTest says how long callers that were answered may take to come back.
func (s *Store) SetPatienceForTest(d time.Duration) {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	s.group.company.atMost = d
}

// PassesForTest is how many commits go before callers are waited for again.
func (s *Store) PassesForTest() int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return s.group.company.pass
}

// TargetForTest is where a DSN points: a file, or what the PostgreSQL driver
// gets and the schema.
func TargetForTest(dsn string) (dialect Dialect, where, schema, shown string, err error) {
	t, err := parseDSN(dsn)
	if err != nil {
		return "", "", "", "", err
	}
	if t.dialect == SQLite {
		where = t.path
	} else {
		where = t.dsn
	}
	return t.dialect, where, t.schema, (&Store{target: t}).String(), nil
}

// ConnectionsForTest hands over the pool that answers questions.
func (s *Store) ConnectionsForTest() *sqlx.DB { return s.read.DB }

// WriterForTest is SQLite's writing connection.
func (s *Store) WriterForTest() *sqlx.Conn { return s.writer.conn }

// WriterLine is the line for SQLite's writer.
type WriterLine struct{ writerLine }

// Wait returns when it is the caller's turn.
func (l *WriterLine) Wait(done <-chan struct{}, first bool) bool { return l.wait(done, first) }

// Leave ends the caller's turn.
func (l *WriterLine) Leave() { l.leave() }

// Waiting is how many wait.
func (l *WriterLine) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// GivenUpForTest tells whether a connection is known to be given up when the
// statement with that context has ended.
func GivenUpForTest(ctx context.Context) bool {
	client, server := net.Pipe()
	defer server.Close()
	defer client.Close()
	w := &wire{Conn: client, doubt: &doubt{}}
	w.endWith(ctx)()
	return w.broken.Load()
}
