package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/lib/pq"
)

// PostgreSQL plans a statement whenever it is sent, which takes a small turn
// longer than to run it. Lasting statements are those whose plan is the same
// whatever the tables hold and whatever is asked for: they are prepared, once on
// each connection, under a name.
//
// That needs a connection on which nothing stands between. A pooler may send the
// next transaction to another server connection, which knows no statement of that
// name, or another one's.

// mostLasting is how many statements are prepared on a connection at most. Each
// costs the server some tens of KiB.
const mostLasting = 64

// errStale is the answer of a server that does not run a prepared statement any
// more: a migration changed the type of what it reads, or somebody dropped it.
var errStale = errors.New("a prepared statement is to be prepared anew")

// stale recognises that answer.
func stale(err error) error {
	if pe, ok := errors.AsType[*pq.Error](err); ok {
		switch pe.Code {
		case "0A000", "26000": // feature_not_supported, invalid_sql_statement_name
			return fmt.Errorf("%w: %w", errStale, err)
		}
	}
	return err
}

// prepare returns the statement for a lasting text, and nil for another or where
// none is to be prepared.
func (c *pgConn) prepare(ctx context.Context, text string) (*pgStmt, error) {
	if c.prepared == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	if st, ok := c.prepared[text]; ok {
		return st, nil
	}
	if _, lasts := c.lasting.Load(text); !lasts || len(c.prepared) == mostLasting {
		return nil, nil //nolint:nilnil // there is none
	}
	st, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.prepared[text] = &pgStmt{st.(pqStmt), c} //nolint:forcetypeassert // lib/pq's own
	return c.prepared[text], nil
}

// pqStmt is what lib/pq's statements can do.
type pqStmt interface {
	driver.StmtExecContext
	driver.StmtQueryContext
}

// pgStmt is a statement that was prepared on a connection. It ends with it.
type pgStmt struct {
	pqStmt
	conn *pgConn
}

func (s *pgStmt) exec(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.ExecContext(ctx, args)
	return result, s.conn.forget(err)
}

func (s *pgStmt) query(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := s.QueryContext(ctx, args)
	return rows, s.conn.forget(err)
}

// forget gives the connection up, once its transaction has ended, where the server
// no longer runs what was prepared on it, and all that are as old.
func (c *pgConn) forget(err error) error {
	if err = stale(err); errors.Is(err, errStale) {
		c.wire.broken.Store(true)
		c.wire.doubt.cast()
	}
	return err
}

const endsSQL = `select host(inet_client_addr()), inet_client_port(), host(inet_server_addr()), inet_server_port()`

// direct tells whether nothing stands between: the server sees the two ends of the
// connection that are seen here. A tunnel or a translated address looks like a
// pooler, and so does a socket of the file system, which has no ends to compare.
func (c *pgConn) direct(ctx context.Context) (direct bool, err error) {
	here, ok := endOf(c.wire.LocalAddr())
	there, ok2 := endOf(c.wire.RemoteAddr())
	if !ok || !ok2 {
		return false, nil
	}
	rows, err := c.QueryContext(ctx, endsSQL, nil)
	if err != nil {
		if definite(err) {
			return false, nil
		}
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	ends := make([]driver.Value, 4)
	if err := rows.Next(ends); err != nil {
		return false, err
	}
	return seen(ends[0], ends[1]) == here && seen(ends[2], ends[3]) == there, nil
}

func endOf(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	end := tcp.AddrPort()
	return netip.AddrPortFrom(end.Addr().Unmap().WithZone(""), end.Port()), true
}

// seen is an end as the server tells it; the zero value where it sees none.
func seen(host, port driver.Value) netip.AddrPort {
	text, _ := host.(string)
	n, _ := port.(int64)
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(n)) //nolint:gosec // a port
}
