package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lib/pq"
)

// A connection can die without a word: a cable, a firewall, a host that is
// gone. TCP finds that out after a quarter of an hour, and lib/pq waits for it,
// whatever becomes of the context. So a connection hangs up when the context
// of its statement ends, and when nothing has come for longer than an answer
// may take.
const (
	// beginSilence is for what has nothing to wait for.
	beginSilence = 5 * time.Second
	// engineSilence is for turns and what else schedulers ask: a few rows each,
	// and locks that are waited for a second.
	engineSilence = 10 * time.Second
	// silence is for all else. A statement carries up to a thousand jobs or four
	// MiB, may wait for a transaction of the caller's that has its unique key,
	// and may count a large table.
	silence = time.Minute
	// Migrations take as long as they take.
	unbounded = time.Duration(0)
)

var errSilent = errors.New("the database does not answer: the connection was given up")

// doubt falls on all connections that were last heard of before it: where one
// has died, or its server is the primary no longer, others are likely to be no
// better. They are replaced instead of used.
type doubt struct{ since atomic.Pointer[time.Time] }

func (d *doubt) cast() {
	at := now()
	d.since.Store(&at)
}

func (d *doubt) on(heard time.Time) bool {
	since := d.since.Load()
	return since != nil && heard.Before(*since)
}

// pgConnector opens such connections.
type pgConnector struct {
	dsn     string
	silence time.Duration
	doubt   *doubt
	lasting *sync.Map // the texts of lasting statements
	trusted bool      // nothing but a wire stands between
}

// Driver implements driver.Connector.
func (c *pgConnector) Driver() driver.Driver { return &pq.Driver{} }

// Connect implements driver.Connector.
func (c *pgConnector) Connect(ctx context.Context) (driver.Conn, error) {
	connector, err := pq.NewConnector(c.dsn)
	if err != nil {
		return nil, err
	}
	d := &dialer{silence: c.silence, doubt: c.doubt}
	connector.Dialer(d)
	plain, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &pgConn{pqConn: plain.(pqConn), wire: d.latest.Load(), lasting: c.lasting} //nolint:forcetypeassert // lib/pq's own assertion
	asking, cancel := context.WithTimeoutCause(ctx, beginSilence, errSilent)
	defer cancel()
	direct, err := conn.direct(asking)
	if err != nil {
		_ = conn.Close()
		if asking.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(asking), err)
		}
		return nil, err
	}
	if direct || c.trusted {
		conn.prepared = map[string]*pgStmt{}
	}
	d.connected.Store(true)
	return conn, nil
}

// pqConn is what lib/pq's connections can do.
type pqConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type pgConn struct {
	pqConn
	wire     *wire
	lasting  *sync.Map
	prepared map[string]*pgStmt // by their texts; nil: none are
}

// ExecContext implements driver.ExecerContext.
func (c *pgConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	defer c.wire.endWith(ctx)()
	st, err := c.prepare(ctx, query)
	switch {
	case err != nil:
		return nil, err
	case st != nil:
		return st.exec(ctx, args)
	}
	return c.pqConn.ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c *pgConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	stop := c.wire.endWith(ctx)
	rows, err := c.query(ctx, query, args)
	if err != nil {
		stop()
		return nil, err
	}
	return pgRows{rows, stop}, nil
}

func (c *pgConn) query(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	st, err := c.prepare(ctx, query)
	switch {
	case err != nil:
		return nil, err
	case st != nil:
		return st.query(ctx, args)
	}
	return c.pqConn.QueryContext(ctx, query, args)
}

// ResetSession implements driver.SessionResetter.
func (c *pgConn) ResetSession(ctx context.Context) error {
	if c.wire.broken.Load() || c.wire.doubt.on(c.wire.heard) {
		return driver.ErrBadConn
	}
	return c.pqConn.ResetSession(ctx)
}

// IsValid implements driver.Validator.
func (c *pgConn) IsValid() bool { return !c.wire.broken.Load() && c.pqConn.IsValid() }

type pgRows struct {
	driver.Rows
	stop func()
}

// Close implements driver.Rows.
func (r pgRows) Close() error {
	defer r.stop()
	return r.Rows.Close()
}

// dialer is lib/pq's way to the network, for one connection and for requests
// to cancel what it does.
type dialer struct {
	net     net.Dialer
	silence time.Duration
	doubt   *doubt
	latest  atomic.Pointer[wire]
	// connected: what is dialled from now on are requests to cancel.
	connected atomic.Bool
}

// cancelWithin is how long a request to cancel may take: lib/pq lets the call whose
// context has ended wait for it.
const cancelWithin = time.Second

// DialContext implements pq.DialerContext.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	quiet := d.silence
	if d.connected.Load() {
		if quiet == unbounded || quiet > cancelWithin {
			quiet = cancelWithin
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	conn, err := d.net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, silence: quiet, doubt: d.doubt, heard: now()}
	d.latest.Store(w)
	return w, nil
}

// Dial implements pq.Dialer, which lib/pq asks for and does not use.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements pq.Dialer as well.
func (d *dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// wire is the network connection under one of the database's.
type wire struct {
	net.Conn
	silence  time.Duration
	doubt    *doubt
	deadline time.Time // of the handshake: lib/pq's
	heard    time.Time
	broken   atomic.Bool
}

// endWith makes the connection end with a context, until the returned function
// is called. That waits for an end which has begun: nobody else must get a
// connection that is just being given up.
func (w *wire) endWith(ctx context.Context) (stop func()) {
	ended := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		defer close(ended)
		w.broken.Store(true)
		if errors.Is(context.Cause(ctx), errSilent) {
			w.doubt.cast()
		}
		_ = w.Conn.Close()
	})
	return sync.OnceFunc(func() {
		if !release() {
			<-ended
		}
	})
}

// SetDeadline bounds what follows as a whole, beside the bound of each wait.
func (w *wire) SetDeadline(at time.Time) error {
	w.deadline = at
	return nil
}

func (w *wire) until() time.Time {
	if w.silence == unbounded {
		return w.deadline
	}
	at := now().Add(w.silence)
	if !w.deadline.IsZero() && w.deadline.Before(at) {
		return w.deadline
	}
	return at
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	_ = w.SetReadDeadline(w.until())
	n, err := w.Conn.Read(p)
	if err != nil {
		return n, w.fail(err)
	}
	w.heard = now()
	return n, nil
}

// Write implements net.Conn. A slow network may take its time for a large
// statement, as long as it takes some of it.
func (w *wire) Write(p []byte) (n int, err error) {
	const piece = 64 << 10
	for n < len(p) {
		_ = w.SetWriteDeadline(w.until())
		var m int
		m, err = w.Conn.Write(p[n:min(n+piece, len(p))])
		if n += m; err != nil {
			return n, w.fail(err)
		}
	}
	return n, nil
}

func (w *wire) fail(err error) error {
	w.broken.Store(true)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.doubt.cast()
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err // an io.EOF must be one
}
