package storetest

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Relay stands between a client and PostgreSQL, and can lose connections as a
// network does: without a word.
type Relay struct {
	to       string
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	lost  chan struct{} // closed for the connections made so far
	ends  []net.Conn
	taken int
}

// Relayed returns the database as it is reached through a relay that ends with
// the test.
func Relayed(t testing.TB, db Database) (*Relay, Database) {
	t.Helper()
	u, err := url.Parse(db.DSN)
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &Relay{to: u.Host, listener: listener, lost: make(chan struct{})}
	r.work.Go(r.accept)
	t.Cleanup(r.close)
	u.Host = listener.Addr().String()
	return r, Database{Dialect: db.Dialect, DSN: u.String()}
}

// Silence makes the connections that are there move nothing any more. Nobody is
// told, and new ones work.
func (r *Relay) Silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.lost)
	r.lost = make(chan struct{})
}

// Taken is how many connections were made.
func (r *Relay) Taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.mu.Lock()
		r.taken++
		r.ends = append(r.ends, client, server)
		lost := r.lost
		r.mu.Unlock()
		r.work.Go(func() { pass(server, client, lost) })
		r.work.Go(func() { pass(client, server, lost) })
	}
}

// pass hands on what comes until the connection ends, or is lost.
func pass(to, from net.Conn, lost <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-lost:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		_, writeErr := to.Write(buffer[:n])
		if err != nil || writeErr != nil {
			_ = to.Close()
			return
		}
	}
}

func (r *Relay) close() {
	_ = r.listener.Close()
	r.mu.Lock()
	for _, end := range r.ends {
		_ = end.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}
