package dlq

import (
	"context"
	"fmt"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
)

// Letters are the dead letters of a database. They are safe for concurrent use.
type Letters struct {
	store *store.Store
	close func() error
}

// An Option changes how [Open] opens a database.
type Option func(*store.Options)

// WithClock replaces the clocks of the host and of the database, for tests.
func WithClock(c clock.Clock) Option { return func(o *store.Options) { o.Clock = c } }

// WithMaxConns bounds the connections in use at a time. Default: 10.
func WithMaxConns(n int) Option { return func(o *store.Options) { o.MaxConns = n } }

// Open opens the dead letters of the database that dsn names, as queue.Open
// does, but never creates or upgrades anything: it returns [ErrNoDatabase] or
// [ErrSchema]. A program that has a queue.Client uses [From] instead.
func Open(ctx context.Context, dsn string, opts ...Option) (*Letters, error) {
	o := store.Options{MustExist: true}
	for _, opt := range opts {
		opt(&o)
	}
	s, err := store.Open(ctx, dsn, o)
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	return &Letters{store: s, close: s.Close}, nil
}

// From returns the dead letters of the database that a queue.Client has open,
// over the client's connections. They need not be closed.
func From(c interface{ Store() *store.Store }) *Letters {
	return &Letters{store: c.Store(), close: func() error { return nil }}
}

// Close releases what [Open] opened. No call may be under way.
func (l *Letters) Close() error { return l.close() }
