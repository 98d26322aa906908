package queue

import (
	"encoding/json"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// JobInfo is a live or finished job as people and programs see it. Its JSON has
// the names of the tags, times to the microsecond in UTC, and null for what is
// not there.
type JobInfo struct {
	ID       string          `json:"id"`
	Task     string          `json:"task"`
	Queue    string          `json:"queue"`
	State    State           `json:"state"`
	Priority int             `json:"priority"`
	Args     json.RawMessage `json:"args"` // where the arguments are JSON
	// ArgsSize is how many bytes of arguments there are where Args does not
	// show them: not JSON, or over 4 KiB in a list.
	ArgsSize int64 `json:"args_size,omitzero"`
	// RawArgs are the arguments byte for byte. A list leaves them out.
	RawArgs    []byte          `json:"args_base64,omitzero"`
	Metadata   json.RawMessage `json:"metadata"`
	Attempt    int             `json:"attempt"`     // how often it was started
	MaxRetries *int            `json:"max_retries"` // nil: the task's
	Deferrals  int64           `json:"deferrals"`   // how often a limit put it off
	RunAt      time.Time       `json:"run_at"`
	FirstDueAt time.Time       `json:"first_due_at"` // its place in line
	EnqueuedAt time.Time       `json:"enqueued_at"`
	StartedAt  time.Time       `json:"started_at"`  // the latest start; zero: none
	FinishedAt time.Time       `json:"finished_at"` // zero: not yet
	ExpiresAt  time.Time       `json:"expires_at"`  // zero: never
	UniqueKey  string          `json:"unique_key" wire:"null"`
	ReplayOf   string          `json:"replay_of" wire:"null"` // the job whose dead letter was replayed
	LastError  string          `json:"last_error" wire:"null"`

	Timeout time.Duration  `json:"-"` // 0: the task's
	Errors  []AttemptError `json:"-"` // the first, and the latest 49
}

// MarshalJSON writes the job with stable names.
func (j JobInfo) MarshalJSON() ([]byte, error) { return wire.Object(j) }

// AttemptError is how one attempt of a job failed.
type AttemptError struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

// MarshalJSON writes the error with stable names.
func (e AttemptError) MarshalJSON() ([]byte, error) { return wire.Object(e) }

func newJobInfo(row *store.Job) JobInfo {
	info := JobInfo{
		ID: row.UID, Task: row.Task, Queue: row.Queue, State: states[row.State], Priority: -row.Rank,
		Metadata: wire.JSON([]byte(row.Metadata.String)),
		Attempt:  row.Attempt, MaxRetries: wire.NullInt(row.MaxRetries), Deferrals: row.Deferrals,
		RunAt: wire.Time(row.RunAt), FirstDueAt: wire.Time(row.FirstDue), EnqueuedAt: wire.Time(row.EnqueuedAt),
		StartedAt: wire.NullTime(row.StartedAt), FinishedAt: wire.NullTime(row.FinishedAt), ExpiresAt: wire.NullTime(row.ExpiresAt),
		UniqueKey: row.UniqueKey.String, ReplayOf: row.ReplayOf.String, Timeout: wire.NullDuration(row.Timeout),
	}
	info.Args, info.ArgsSize = wire.Args(row.Args, row.ArgsSize)
	for _, e := range store.ParseErrors(row.Errors.String) {
		info.Errors = append(info.Errors, AttemptError{Attempt: e.Attempt, At: wire.Time(e.At), Error: e.Error})
		info.LastError = e.Error
	}
	return info
}
