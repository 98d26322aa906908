package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lib/pq"
)

// Faults stands between a store and its driver, as store.Options.Wrap: it
// makes statements fail, loses the replies to commits, and counts. The zero
// value does nothing. Patterns are regular expressions over the statement's
// text; on PostgreSQL a table's name has its schema in front.
type Faults struct {
	mu      sync.Mutex
	rules   []*rule
	counts  []*Count
	records []*Record
	seen    []string // distinct statements, where they are listed
	listed  bool
	// what connections answer when they are closed
	atClose error
}

// ErrInjected is what an injected fault answers.
var ErrInjected = errors.New("injected fault")

// ErrReplyLost is what the sender of a commit sees whose reply was lost.
var ErrReplyLost = errors.New("injected fault: the connection broke before the commit's reply came")

type rule struct {
	pattern *regexp.Regexp
	left    int   // the fault happens when this reaches zero; negative: at each match
	atEnd   error // what the commit of the transaction answers
	do      func(context.Context) error
}

// errNothing makes a statement answer that there was nothing to do.
var errNothing = errors.New("injected fault: no rows")

// Fail makes the nth match from now on (1: the next) fail before it runs.
func (f *Faults) Fail(pattern string, nth int) {
	f.add(&rule{pattern: regexp.MustCompile(pattern), left: nth, do: func(context.Context) error { return ErrInjected }})
}

// FailAll makes every match fail before it runs, until the returned function
// is called.
func (f *Faults) FailAll(pattern string) (mend func()) {
	r := &rule{pattern: regexp.MustCompile(pattern), left: -1, do: func(context.Context) error { return ErrInjected }}
	f.add(r)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rules = slices.DeleteFunc(f.rules, func(x *rule) bool { return x == r })
	}
}

// Before calls do before the nth match from now on runs.
func (f *Faults) Before(pattern string, nth int, do func()) {
	f.add(&rule{pattern: regexp.MustCompile(pattern), left: nth, do: func(context.Context) error { do(); return nil }})
}

// Empty lets the nth match from now on answer that there were no rows, and does
// not run it.
func (f *Faults) Empty(pattern string, nth int) {
	f.add(&rule{pattern: regexp.MustCompile(pattern), left: nth, do: func(context.Context) error { return errNothing }})
}

// Hang lets the nth match from now on wait until its context ends.
func (f *Faults) Hang(pattern string, nth int) {
	f.add(&rule{pattern: regexp.MustCompile(pattern), left: nth, do: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
}

// LoseReply lets the nth transaction from now on that runs a match commit, and
// answers its commit with a broken connection.
func (f *Faults) LoseReply(pattern string, nth int) {
	f.add(&rule{pattern: regexp.MustCompile(pattern), left: nth, atEnd: ErrReplyLost})
}

// FailCommit makes the commit of the nth transaction from now on that runs a
// match fail before it runs.
func (f *Faults) FailCommit(pattern string, nth int) {
	f.add(&rule{pattern: regexp.MustCompile(pattern), left: nth, atEnd: ErrInjected})
}

// FailClose makes every connection answer its end with an error.
func (f *Faults) FailClose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.atClose = ErrInjected
}

// Close implements driver.Conn.
func (c *faultyConn) Close() error {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	return errors.Join(c.Conn.Close(), c.faults.atClose)
}

// Clear takes back the faults that have not happened yet.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

func (f *Faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// Count counts the matches from now on.
func (f *Faults) Count(pattern string) *Count {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &Count{pattern: regexp.MustCompile(pattern), mu: &f.mu}
	f.counts = append(f.counts, c)
	return c
}

// Record writes down the statements from now on.
func (f *Faults) Record() *Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &Record{mu: &f.mu}
	f.records = append(f.records, r)
	return r
}

// Record is what passed, in order.
type Record struct {
	mu   *sync.Mutex
	sent []sent
}

type sent struct {
	conn *faultyConn
	text string
}

// Texts are the statements as they were sent.
func (r *Record) Texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, len(r.sent))
	for i, s := range r.sent {
		out[i] = s.text
	}
	return out
}

// Transaction is the first transaction that a match of the pattern ran in, from its
// begin to its end; nil: there is none.
func (r *Record) Transaction(pattern string) []string {
	wanted := regexp.MustCompile(pattern)
	r.mu.Lock()
	defer r.mu.Unlock()
	open := map[*faultyConn][]string{}
	for _, s := range r.sent {
		if strings.HasPrefix(s.text, `begin`) {
			open[s.conn] = nil
		}
		open[s.conn] = append(open[s.conn], s.text)
		if (s.text == `commit` || s.text == `rollback`) && slices.ContainsFunc(open[s.conn], wanted.MatchString) {
			return open[s.conn]
		}
	}
	return nil
}

// Count is how many statements matched, and how many rows those read or
// changed.
type Count struct {
	pattern          *regexp.Regexp
	mu               *sync.Mutex
	statements, rows int64
}

// Statements that matched.
func (c *Count) Statements() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.statements
}

// Rows that they read or changed.
func (c *Count) Rows() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rows
}

// List begins to list statements.
func (f *Faults) List() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed, f.seen = true, nil
}

// Listed are the distinct statements since List, in the order of their first
// use.
func (f *Faults) Listed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// Wrap is for store.Options.Wrap.
func (f *Faults) Wrap(c driver.Connector) driver.Connector { return faultyConnector{c, f} }

type faultyConnector struct {
	driver.Connector
	faults *Faults
}

func (c faultyConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	_, breaks := c.Driver().(*pq.Driver)
	return &faultyConn{Conn: conn, faults: c.faults, breaks: breaks}, nil
}

// faultyConn is used by one goroutine at a time, as every driver.Conn.
type faultyConn struct {
	driver.Conn
	faults *Faults
	breaks bool // a lost reply makes it useless: SQLite's cannot break
	broken bool
	atEnd  error // what the next commit answers
}

// run lets a statement through, or not.
func (c *faultyConn) run(ctx context.Context, text string, do func() error) error {
	if c.broken {
		return driver.ErrBadConn
	}
	text = strings.TrimSpace(text)
	for _, r := range c.faults.hits(text) {
		if r.atEnd != nil {
			c.atEnd = r.atEnd
		} else if err := r.do(ctx); err != nil {
			return err
		}
	}
	if strings.HasPrefix(text, `begin`) || text == `rollback` {
		c.atEnd = nil
	}
	if text != `commit` || c.atEnd == nil {
		return do()
	}
	end := c.atEnd
	c.atEnd = nil
	if errors.Is(end, ErrReplyLost) {
		if err := do(); err != nil {
			return err
		}
		c.broken = c.breaks
	}
	return end
}

// hits are the rules whose time has come with this statement.
func (f *Faults) hits(text string) (hit []*rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listed && !slices.Contains(f.seen, text) {
		f.seen = append(f.seen, text)
	}
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool {
		if r.left == 0 || !r.pattern.MatchString(text) {
			return r.left == 0
		}
		if r.left--; r.left <= 0 {
			hit = append(hit, r)
		}
		return r.left == 0
	})
	return hit
}

// counting are the counts that this statement belongs to.
func (f *Faults) counting(conn *faultyConn, text string) (out []*Count) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.records {
		r.sent = append(r.sent, sent{conn, strings.TrimSpace(text)})
	}
	for _, c := range f.counts {
		if c.pattern.MatchString(text) {
			c.statements++
			out = append(out, c)
		}
	}
	return out
}

func (f *Faults) addRows(counts []*Count, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range counts {
		c.rows += n
	}
}

var control = regexp.MustCompile(`^\s*(begin|commit|rollback|pragma)\b`)

func (c *faultyConn) exec(ctx context.Context, text string, do func() (driver.Result, error)) (res driver.Result, err error) {
	counts := c.faults.counting(c, text)
	err = c.run(ctx, text, func() error {
		res, err = do()
		return err
	})
	if errors.Is(err, errNothing) {
		return driver.RowsAffected(0), nil
	}
	// After a begin or a commit SQLite still tells of the statement before it.
	if err == nil && len(counts) > 0 && !control.MatchString(text) {
		if n, err := res.RowsAffected(); err == nil {
			c.faults.addRows(counts, n)
		}
	}
	return res, err
}

func (c *faultyConn) query(ctx context.Context, text string, do func() (driver.Rows, error)) (rows driver.Rows, err error) {
	counts := c.faults.counting(c, text)
	err = c.run(ctx, text, func() error {
		rows, err = do()
		return err
	})
	if errors.Is(err, errNothing) {
		return noRows{}, nil
	}
	if err != nil {
		return nil, err
	}
	if len(counts) > 0 {
		rows = &countedRows{rows, c.faults, counts}
	}
	return rows, nil
}

type noRows struct{}

func (noRows) Columns() []string         { return nil }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }

type countedRows struct {
	driver.Rows
	faults *Faults
	counts []*Count
}

func (r *countedRows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err == nil {
		r.faults.addRows(r.counts, 1)
	}
	return err
}

// ExecContext implements driver.ExecerContext.
func (c *faultyConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, text, func() (driver.Result, error) {
		return c.Conn.(driver.ExecerContext).ExecContext(ctx, text, args) //nolint:forcetypeassert // both drivers have it
	})
}

// QueryContext implements driver.QueryerContext.
func (c *faultyConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, text, func() (driver.Rows, error) {
		return c.Conn.(driver.QueryerContext).QueryContext(ctx, text, args) //nolint:forcetypeassert // both drivers have it
	})
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *faultyConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text) //nolint:forcetypeassert // both drivers have it
	if err != nil {
		return nil, err
	}
	return &faultyStmt{stmt, c, text}, nil
}

// BeginTx implements driver.ConnBeginTx.
func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts) //nolint:forcetypeassert // both drivers have it
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// ResetSession implements driver.SessionResetter.
func (c *faultyConn) ResetSession(ctx context.Context) error {
	if resetter, ok := c.Conn.(driver.SessionResetter); ok {
		return resetter.ResetSession(ctx)
	}
	return nil
}

// IsValid implements driver.Validator.
func (c *faultyConn) IsValid() bool {
	validator, ok := c.Conn.(driver.Validator)
	return !c.broken && (!ok || validator.IsValid())
}

type faultyStmt struct {
	driver.Stmt
	conn *faultyConn
	text string
}

// ExecContext implements driver.StmtExecContext.
func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.exec(ctx, s.text, func() (driver.Result, error) {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) //nolint:forcetypeassert // both drivers have it
	})
}

// QueryContext implements driver.StmtQueryContext.
func (s *faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, s.text, func() (driver.Rows, error) {
		return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) //nolint:forcetypeassert // both drivers have it
	})
}
