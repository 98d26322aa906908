package dlq

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// A Kind says why a job is dead.
type Kind string

// The kinds of dead letters.
const (
	Shed    Kind = store.KindShed    // there was no token for it, and its task drops excess
	Failed  Kind = store.KindFailed  // its last attempt failed, or its handler gave it up
	Expired Kind = store.KindExpired // it was not started in time
)

// An Entry is a dead letter: why a job will not run again by itself, and all
// that a replay needs. Its JSON has the names of the tags, times to the
// microsecond in UTC, and null for what is not there.
type Entry struct {
	ID          string          `json:"id"`
	JobID       string          `json:"job_id"`
	Task        string          `json:"task"`
	Queue       string          `json:"queue"`
	Kind        Kind            `json:"kind"`
	Reason      string          `json:"reason"`
	Metadata    json.RawMessage `json:"metadata"`     // about the death
	JobMetadata json.RawMessage `json:"job_metadata"` // the job's own
	Args        json.RawMessage `json:"args"`         // where the arguments are JSON
	// ArgsSize is how many bytes of arguments there are where Args does not
	// show them: not JSON, or over 4 KiB in a list.
	ArgsSize int64 `json:"args_size,omitzero"`
	// RawArgs are the arguments byte for byte. A list leaves them out.
	RawArgs    []byte         `json:"args_base64,omitzero"`
	Attempts   int            `json:"attempts"` // how often it was started
	Errors     []AttemptError `json:"errors"`   // the first, and the latest 49
	Priority   int            `json:"priority"`
	UniqueKey  string         `json:"unique_key" wire:"null"`
	MaxRetries *int           `json:"max_retries"` // nil: the task's
	Timeout    time.Duration  `json:"timeout"`     // 0: the task's
	Deferrals  int64          `json:"deferrals"`
	EnqueuedAt time.Time      `json:"enqueued_at"`
	FirstDueAt time.Time      `json:"first_due_at"`
	DeadAt     time.Time      `json:"dead_at"`
	Replays    int            `json:"replays"` // how often it was replayed before
}

// MarshalJSON writes the dead letter with stable names.
func (e Entry) MarshalJSON() ([]byte, error) { return wire.Object(e) }

// AttemptError is how one attempt of a job failed.
type AttemptError struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

// MarshalJSON writes the error with stable names.
func (e AttemptError) MarshalJSON() ([]byte, error) { return wire.Object(e) }

func newEntry(row *store.DeadLetter) Entry {
	e := Entry{
		ID: strconv.FormatInt(row.ID, 10), JobID: row.JobID, Task: row.Task, Queue: row.Queue,
		Kind: Kind(row.Kind), Reason: row.Reason,
		Metadata: wire.JSON([]byte(row.Metadata.String)), JobMetadata: wire.JSON([]byte(row.JobMetadata.String)),
		Attempts: row.Attempt, Errors: []AttemptError{}, Priority: -row.Rank, UniqueKey: row.UniqueKey.String,
		MaxRetries: wire.NullInt(row.MaxRetries), Timeout: wire.NullDuration(row.Timeout), Deferrals: row.Deferrals,
		EnqueuedAt: wire.Time(row.EnqueuedAt), FirstDueAt: wire.Time(row.FirstDue), DeadAt: wire.Time(row.DeadAt),
		Replays: row.Replays,
	}
	e.Args, e.ArgsSize = wire.Args(row.Args, row.ArgsSize)
	for _, x := range store.ParseErrors(row.Errors.String) {
		e.Errors = append(e.Errors, AttemptError{Attempt: x.Attempt, At: wire.Time(x.At), Error: x.Error})
	}
	return e
}
