package queue

import (
	"encoding/json"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// An Envelope is what a handler is told about its job besides the arguments in
// their type.
type Envelope struct {
	ID         string
	Task       string
	Queue      string
	Attempt    int // which start this is, from 1
	MaxRetries int // how often a failure is tried again
	Priority   int
	Metadata   json.RawMessage // a JSON object, or nil
	EnqueuedAt time.Time
	StartedAt  time.Time
	Deferrals  int64  // how often a limit put it off
	UniqueKey  string // or ""
	ReplayOf   string // the job whose dead letter was replayed, or ""
	RawArgs    []byte // the arguments as stored
}

// A Job is what a handler gets.
type Job[Args any] struct {
	Envelope
	Args Args
}

// NewEnvelope reads a started job's row, for Weir's own packages. A row that
// leaves MaxRetries to the task must have been told the task's.
func NewEnvelope(row store.Job) Envelope {
	e := Envelope{
		ID: row.UID, Task: row.Task, Queue: row.Queue,
		Attempt: row.Attempt, MaxRetries: store.DefaultMaxRetries, Priority: -row.Rank,
		Metadata:   wire.JSON([]byte(row.Metadata.String)),
		EnqueuedAt: wire.Time(row.EnqueuedAt), StartedAt: wire.NullTime(row.StartedAt),
		Deferrals: row.Deferrals, UniqueKey: row.UniqueKey.String, ReplayOf: row.ReplayOf.String,
		RawArgs: row.Args,
	}
	if row.MaxRetries.Valid {
		e.MaxRetries = int(row.MaxRetries.Int64)
	}
	return e
}

// NewJobFor reads a started job's row and decodes its arguments, for Weir's own
// packages. Arguments that do not fit the type are an error, and the job comes
// without them.
func NewJobFor[Args any](row store.Job) (*Job[Args], error) {
	job := &Job[Args]{Envelope: NewEnvelope(row)}
	var err error
	if job.Args, err = Decode[Args](row.Args); err != nil {
		return job, err
	}
	return job, nil
}
