package dlq

import (
	"errors"

	"github.com/weirq/weir/internal/store"
)

// What errors of this package are, for errors.Is.
var (
	// ErrInvalid is every [InvalidError]: the call cannot succeed as it is, and
	// nothing was changed.
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

// An InvalidError says what is wrong with a call and how to mend it.
type InvalidError struct {
	Field   string // what is wrong: "kind", "limit", ...
	Value   string // its value, as a person can read it
	Problem string // what is right
}

// Error is such as: kind "shedd": use shed, failed or expired.
func (e *InvalidError) Error() string { return e.Field + " " + e.Value + ": " + e.Problem }

// Unwrap makes the error [ErrInvalid].
func (e *InvalidError) Unwrap() error { return ErrInvalid }
