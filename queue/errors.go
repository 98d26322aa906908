package queue

import (
	"errors"
	"fmt"

	"github.com/weirq/weir/internal/store"
)

// What errors of this package are, for errors.Is.
var (
	// ErrInvalid says that the call cannot succeed as it is, and that nothing was
	// written. Every [InvalidError] is one.
	ErrInvalid = errors.New("invalid")
	// ErrArgsTooLarge is an [InvalidError] too: see [WithMaxArgs].
	ErrArgsTooLarge = errors.New("arguments too large")
	// ErrNotFound says that there is no such job: it never was, or retention
	// has taken it.
	ErrNotFound = errors.New("not found")
	// ErrNoDatabase says that there is nothing to open. See [MustExist].
	ErrNoDatabase = store.ErrNoDatabase
	// ErrSchema says that the schema is not this program's. See [MigrateCheck].
	ErrSchema = store.ErrSchema
	// ErrClosed says that the client was closed.
	ErrClosed = store.ErrClosed
	// ErrOutcomeUnknown says that the call may or may not have taken effect:
	// the connection broke, or the context ended, while the commit was under
	// way. The receipt that comes with it has the job's id: enqueue again with
	// that [ID], and there will be one job.
	ErrOutcomeUnknown = store.ErrOutcomeUnknown
)

// An InvalidError says what is wrong with a call and how to mend it.
type InvalidError struct {
	Task    string // the job's task, if it is about a job
	Field   string // what is wrong: "queue", "priority", ...
	Value   string // its value, as a person can read it; may be empty
	Problem string // what is wrong with it, and what is right

	kind error
}

// Error is such as:
//
//	task "send_email": priority 200: use -100 (last) to 100 (first)
func (e *InvalidError) Error() string {
	text := e.Field
	if e.Value != "" {
		text += " " + e.Value
	}
	text += ": " + e.Problem
	if e.Task == "" {
		return text
	}
	return "task " + quote(e.Task) + ": " + text
}

// Unwrap makes the error [ErrInvalid], and [ErrArgsTooLarge] if it is that.
func (e *InvalidError) Unwrap() []error {
	if e.kind != nil {
		return []error{ErrInvalid, e.kind}
	}
	return []error{ErrInvalid}
}

// invalid is another package's word on what is wrong with a call.
type invalid struct{ error }

func (e invalid) Unwrap() []error { return []error{ErrInvalid, e.error} }

// A DeadError is returned where a job is asked for that has become a dead
// letter.
type DeadError struct {
	JobID   string
	EntryID string // the dead letter's id
}

// Error says where to look.
func (e *DeadError) Error() string {
	return fmt.Sprintf("job %s is dead: see its dead letter, `weir dlq show %s`", e.JobID, e.EntryID)
}

// A NotCancellableError is returned for a job that has completed already.
type NotCancellableError struct {
	JobID string
	State State
}

// Error says why not.
func (e *NotCancellableError) Error() string {
	return fmt.Sprintf("job %s is %s: only a job that has not ended can be cancelled", e.JobID, e.State)
}

// A NotScheduledError is returned for a job that does not wait for its time.
type NotScheduledError struct {
	JobID string
	State State
}

// Error says why it cannot be brought into line.
func (e *NotScheduledError) Error() string {
	return fmt.Sprintf("job %s is %s: only a scheduled job, or one that waits for its next attempt, can be brought into line", e.JobID, e.State)
}
