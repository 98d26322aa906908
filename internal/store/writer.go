package store

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// writer is SQLite's one writing connection. Within the process writers wait
// here, in turn, rather than in SQLite's busy handler, which polls.
type writer struct {
	db    *sqlx.DB
	conn  *sqlx.Conn
	stmts *stmtCache
	turn  chan struct{} // holds one token: who has it may write
}

func (s *Store) openWriter(ctx context.Context) (*writer, error) {
	db, err := s.pool(s.target.sqliteURI(true), 1)
	if err != nil {
		return nil, err
	}
	// The connection outlives the call that opens it.
	conn, err := db.Connx(context.WithoutCancel(ctx))
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("database %s: cannot be opened for writing: %w", s, err)
	}
	w := &writer{db: db, conn: conn, stmts: &stmtCache{byText: map[string]*sqlx.Stmt{}}, turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w, nil
}

func (w *writer) lock(ctx context.Context) error {
	select {
	case <-w.turn:
		return nil
	default:
	}
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the writer: %w", ctx.Err())
	}
}

func (w *writer) unlock() { w.turn <- struct{}{} }

func (w *writer) close() error {
	<-w.turn
	w.stmts.close()
	_ = w.conn.Close()
	return w.db.Close()
}

// stmtCache keeps statements prepared on one connection.
type stmtCache struct{ byText map[string]*sqlx.Stmt }

func (c *stmtCache) get(ctx context.Context, conn *sqlx.Conn, text string) (*sqlx.Stmt, error) {
	if st, ok := c.byText[text]; ok {
		return st, nil
	}
	st, err := conn.PreparexContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.byText[text] = st
	return st, nil
}

func (c *stmtCache) close() {
	for _, st := range c.byText {
		_ = st.Close()
	}
}
