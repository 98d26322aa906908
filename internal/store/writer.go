package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jmoiron/sqlx"
)

// writer is SQLite's one writing connection. Within the process writers wait
// here, in turn.
type writer struct {
	db    *pool
	conn  *sqlx.Conn
	stmts *stmtCache
	peers peers
	line  writerLine
	file  os.FileInfo // what was opened
}

// ErrFileGone is returned by writes to, and surveys of, a SQLite file that is
// not there any more, or is another one by now: what is written to the open one
// is lost with this process.
var ErrFileGone = errors.New("its file was deleted or replaced while it was in use: stop this process, put the right file in its place, and start it again")

func (w *writer) checkFile(path string) error {
	file, err := os.Stat(path)
	if err == nil && os.SameFile(file, w.file) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("database sqlite:%s: %w", path, ErrFileGone)
}

func (s *Store) openWriter(ctx context.Context) (*writer, error) {
	db, err := s.pool(s.target.sqliteURI(true), 1, unbounded)
	if err != nil {
		return nil, err
	}
	// The connection outlives the call that opens it.
	conn, err := db.Connx(context.WithoutCancel(ctx))
	if err == nil {
		conn, err = s.forgetStatistics(ctx, db, conn)
	}
	var patience int64
	if err == nil {
		err = conn.GetContext(ctx, &patience, `pragma busy_timeout`)
	}
	if err != nil {
		if conn != nil { // the pool does not close what is in use
			_ = conn.Close()
		}
		_ = db.Close()
		return nil, fmt.Errorf("database %s: cannot be opened for writing: %w", s, err)
	}
	w := &writer{db: db, conn: conn, stmts: &stmtCache{byText: map[string]*sqlx.Stmt{}}}
	w.peers.patience = time.Duration(patience) * time.Millisecond
	if w.file, err = os.Stat(s.target.path); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", s, err), w.close())
	}
	return w, nil
}

var (
	statisticsSQL = &statement{sqlite: `select count(*) from sqlite_schema where name = 'sqlite_stat1'`}
	forgetSQL     = &statement{sqlite: `delete from sqlite_stat1 where tbl in (select value from json_each($1))`}
)

// forgetStatistics drops what an application's ANALYZE found in Weir's tables.
// SQLite has no planner guards as PostgreSQL has: where statistics say that
// the tables are small, it walks through them, however large they have become.
// Without statistics it takes them for large. A connection that has read them
// is replaced.
func (s *Store) forgetStatistics(ctx context.Context, db *pool, conn *sqlx.Conn) (*sqlx.Conn, error) {
	var there int64
	if err := conn.GetContext(ctx, &there, s.text(statisticsSQL)); err != nil || there == 0 {
		return conn, err
	}
	n, err := s.exec(ctx, conn, forgetSQL, document(tables))
	if err != nil || n == 0 {
		return conn, err
	}
	(&tx{conn: conn}).discard()
	return db.Connx(context.WithoutCancel(ctx))
}

func (w *writer) close() error {
	w.line.wait(nil, false)
	defer w.line.leave()
	w.stmts.close()
	_ = w.conn.Close()
	return w.db.Close()
}

// stmtCache keeps statements prepared on one connection.
type stmtCache struct{ byText map[string]*sqlx.Stmt }

// mostKept is how many: inserts of jobs that differ in what they have differ as well.
const mostKept = 256

func (c *stmtCache) get(ctx context.Context, conn *sqlx.Conn, text string) (*sqlx.Stmt, error) {
	if st, ok := c.byText[text]; ok {
		return st, nil
	}
	st, err := conn.PreparexContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(c.byText) == mostKept {
		c.close()
	}
	c.byText[text] = st
	return st, nil
}

func (c *stmtCache) close() {
	for _, st := range c.byText {
		_ = st.Close()
	}
	clear(c.byText)
}
