package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
)

// A Clock tells the time and makes timers. Leave it to the default, the real
// one; in tests use the one of queuetest.
type Clock = clock.Clock

// A Client stores jobs in a database and answers questions about them. It is
// safe for concurrent use. One per process is enough.
type Client struct {
	store      *store.Store
	insert     inserter
	maxArgs    int
	middleware []func(Enqueuer) Enqueuer
}

// inserter is what an enqueue needs of the store.
type inserter interface {
	InsertOne(ctx context.Context, job store.NewJob) (store.Inserted, error)
	Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error)
}

// An Option changes how [Open] opens a database.
type Option func(*options) error

type options struct {
	store      store.Options
	maxArgs    int
	middleware []func(Enqueuer) Enqueuer
}

// DefaultMaxArgs is how many bytes of arguments a job may have if [WithMaxArgs]
// does not say otherwise.
const DefaultMaxArgs = 1 << 20

// Open opens the database that dsn names:
//
//	sqlite:PATH
//	postgres://USER:PASSWORD@HOST[,HOST...]/NAME[?schema=NAME]
//
// By default it creates what is missing there and brings an older schema up to
// date; see [WithMigrate]. Close the client when nothing uses it any more.
func Open(ctx context.Context, dsn string, opts ...Option) (*Client, error) {
	o := options{store: store.Options{Migrate: true}, maxArgs: DefaultMaxArgs}
	for i, opt := range opts {
		if err := apply(i, opt, &o); err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
	}
	s, err := store.Open(ctx, dsn, o.store)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	return &Client{store: s, insert: s, maxArgs: o.maxArgs, middleware: o.middleware}, nil
}

// WithClock replaces the clocks of the host and of the database, for tests.
func WithClock(c Clock) Option {
	return func(o *options) error {
		if c == nil {
			return &InvalidError{Field: "clock", Value: "nil", Problem: "leave the option out for the real one"}
		}
		o.store.Clock = c
		return nil
	}
}

// LargestMaxArgs is the most that [WithMaxArgs] takes: both databases store so
// much, and hand it out, in one piece.
const LargestMaxArgs = 64 << 20

// WithMaxArgs sets how many bytes of arguments a job may have, from 1 to
// [LargestMaxArgs]. Default: 1 MiB. Large payloads belong in a store of their
// own, with the job naming them: every start reads the arguments.
func WithMaxArgs(bytes int) Option {
	return func(o *options) error {
		if bytes < 1 || bytes > LargestMaxArgs {
			return &InvalidError{Field: "max args", Value: strconv.Itoa(bytes), Problem: fmt.Sprintf("use 1 to %d bytes", LargestMaxArgs)}
		}
		o.maxArgs = bytes
		return nil
	}
}

// WithMaxConns bounds the connections that enqueues and questions may use, at
// least 1. Default: 10.
func WithMaxConns(n int) Option {
	return func(o *options) error {
		if n < 1 {
			return &InvalidError{Field: "max conns", Value: strconv.Itoa(n), Problem: "use at least 1"}
		}
		o.store.MaxConns = n
		return nil
	}
}

// A Migrate says what [Open] may do to a database's schema.
type Migrate int

// The ways to open a database.
const (
	// MigrateAuto creates the tables, or brings older ones up to date.
	MigrateAuto Migrate = iota
	// MigrateCheck changes nothing and refuses a schema that is not exactly
	// this program's, with [ErrSchema].
	MigrateCheck
	// MustExist changes nothing either, and refuses a database without Weir's
	// tables with [ErrNoDatabase]: for programs that look at what others run.
	MustExist
)

// WithMigrate says what may be done to the schema. Default: [MigrateAuto].
func WithMigrate(m Migrate) Option {
	return func(o *options) error {
		o.store.Migrate, o.store.MustExist = m == MigrateAuto, m == MustExist
		return nil
	}
}

// Close releases the connections. No call may be under way. Calls that come
// later fail with [ErrClosed]; closing again changes nothing.
func (c *Client) Close() error { return c.store.Close() }

// Store is the storage under the client, for Weir's own packages: it is not
// part of the API and changes without notice.
func (c *Client) Store() *store.Store { return c.store }

// From returns a client over storage that is open, for Weir's own packages: it
// is not part of the API and changes without notice. Closing the client closes
// the storage.
func From(s *store.Store) *Client {
	return &Client{store: s, insert: s, maxArgs: DefaultMaxArgs}
}
