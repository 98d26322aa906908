package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
)

// What errors of this package are, for errors.Is.
var (
	// ErrInvalid says that the call cannot succeed as it is; nothing was changed.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound says that there is no such dead letter: it never was, or it
	// was replayed or purged.
	ErrNotFound = errors.New("not found")
	// ErrFilterRequired says that a filter would have selected too much to be
	// meant.
	ErrFilterRequired = errors.New("filter required")
	// ErrNoDatabase says that there is nothing to open.
	ErrNoDatabase = store.ErrNoDatabase
	// ErrSchema says that the schema is not this program's.
	ErrSchema = store.ErrSchema
	// ErrOutcomeUnknown says that the connection broke while a commit was under
	// way. The call can be made again.
	ErrOutcomeUnknown = store.ErrOutcomeUnknown
)

// Letters are the dead letters of a database. They are safe for concurrent use.
type Letters struct {
	store letterStore
	close func() error
}

// letterStore is what dead letters need of the store.
type letterStore interface {
	ListDead(ctx context.Context, f store.DeadFilter) ([]store.DeadLetter, error)
	GetDead(ctx context.Context, id int64) (store.DeadLetter, bool, error)
	GetDeadByJob(ctx context.Context, uid string) (store.DeadLetter, bool, error)
	DeadStats(ctx context.Context) ([]store.DeadCount, error)
	ReplayDead(ctx context.Context, f store.DeadFilter, revive func(store.DeadLetter) store.NewJob) ([]store.Replayed, error)
	PurgeDead(ctx context.Context, f store.DeadFilter) (int64, error)
	Get(ctx context.Context, uid string) (store.Job, bool, error)
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
