package store_test

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"sync"
)

// watcher stands between a store and its driver and writes down what passes.
type watcher struct {
	mu     sync.Mutex
	seen   []seen
	before func(ctx context.Context, conn driver.Conn, text string, args []driver.NamedValue) error
	after  func(text string) // of statements that were not prepared
}

type seen struct {
	conn *watchedConn
	text string
	args int
}

func (w *watcher) wrap(c driver.Connector) driver.Connector { return watchedConnector{c, w} }

func (w *watcher) pass(ctx context.Context, c *watchedConn, text string, args []driver.NamedValue) error {
	w.mu.Lock()
	w.seen = append(w.seen, seen{c, strings.TrimSpace(text), len(args)})
	before := w.before
	w.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, c.Conn, text, args)
}

// intercept lets do run ahead of each statement, on the same connection.
func (w *watcher) intercept(do func(ctx context.Context, conn driver.Conn, text string, args []driver.NamedValue) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = do
}

func (w *watcher) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = nil
}

// all is what passed, in order.
func (w *watcher) all() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// matching counts the statements that begin like that.
func (w *watcher) matching(prefix string) (n int) {
	for _, s := range w.all() {
		if strings.HasPrefix(strings.TrimSpace(s.text), prefix) {
			n++
		}
	}
	return n
}

func (w *watcher) mostArgs() (n int) {
	for _, s := range w.all() {
		n = max(n, s.args)
	}
	return n
}

type watchedConnector struct {
	driver.Connector
	watch *watcher
}

func (c watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: conn, watch: c.watch}, nil
}

// watchedConn has what database/sql looks for in both drivers' connections.
type watchedConn struct {
	driver.Conn
	watch *watcher
}

func (c *watchedConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.watch.pass(ctx, c, text, args); err != nil {
		return nil, err
	}
	res, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args)
	if c.watch.after != nil {
		c.watch.after(text)
	}
	return res, err
}

func (c *watchedConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.watch.pass(ctx, c, text, args); err != nil {
		return nil, err
	}
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args)
}

func (c *watchedConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return &watchedStmt{stmt, c, text}, nil
}

func (c *watchedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.watch.pass(ctx, c, "BeginTx", nil); err != nil {
		return nil, err
	}
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c *watchedConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *watchedConn) ResetSession(ctx context.Context) error {
	return c.Conn.(driver.SessionResetter).ResetSession(ctx)
}

func (c *watchedConn) IsValid() bool { return c.Conn.(driver.Validator).IsValid() }

type watchedStmt struct {
	driver.Stmt
	conn *watchedConn
	text string
}

func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.conn.watch.pass(ctx, s.conn, s.text, args); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.conn.watch.pass(ctx, s.conn, s.text, args); err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}
