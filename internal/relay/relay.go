// Package relay is a network between a client and a server that can be lost
// without a word, for tests and for the soak.
package relay

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// Relay passes connections on. It may be used from many goroutines.
type Relay struct {
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	to    string
	cut   bool
	at    []byte        // new connections fall silent when a client sends that
	lost  chan struct{} // closed for the connections made so far
	ends  []net.Conn
	over  bool // closed
	taken int
}

// Listen returns a relay to an address, on a free port of the loopback, until it
// is closed.
func Listen(ctx context.Context, to string) (*Relay, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r := &Relay{to: to, listener: listener, lost: make(chan struct{})}
	r.work.Go(r.accept)
	return r, nil
}

// Address is where the relay listens.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Silence makes the connections that are there move nothing any more. Nobody is
// told, and new ones work.
func (r *Relay) Silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silence()
}

func (r *Relay) silence() {
	close(r.lost)
	r.lost = make(chan struct{})
}

// SilenceAt makes connections that are new from now on fall silent when their client
// sends that text: a server that takes a login and answers no more.
func (r *Relay) SilenceAt(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = []byte(text)
}

// Cut makes all connections silent, also those that are made until Mend is
// called: these are taken, and nothing comes over them.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	r.silence()
}

// Mend lets new connections through again.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
	r.silence()
}

// Redirect sends new connections elsewhere. Those that are there stay.
func (r *Relay) Redirect(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
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
		r.mu.Lock()
		r.taken++
		to, cut, at, lost := r.to, r.cut, r.at, r.lost
		r.mu.Unlock()
		r.closeWithUs(client)
		if cut {
			r.work.Go(func() { _, _ = io.Copy(io.Discard, client) })
			continue
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		r.closeWithUs(server)
		r.work.Go(func() { pass(server, client, at, lost) })
		r.work.Go(func() { pass(client, server, nil, lost) })
	}
}

func (r *Relay) closeWithUs(end net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		_ = end.Close()
	}
	r.ends = append(r.ends, end)
}

// pass hands on what comes until the connection ends, is lost, or falls silent.
func pass(to, from net.Conn, at []byte, lost <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-lost:
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if len(at) > 0 && bytes.Contains(buffer[:n], at) {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		_, writeErr := to.Write(buffer[:n])
		if err != nil || writeErr != nil {
			_ = to.Close()
			return
		}
	}
}

// Close ends all connections and waits for what the relay does.
func (r *Relay) Close() {
	_ = r.listener.Close()
	r.mu.Lock()
	r.over = true
	for _, end := range r.ends {
		_ = end.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}
