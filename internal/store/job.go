package store

import "database/sql"

// State is where a live or finished job stands, as stored.
type State int16

// The states of weir_jobs (0 to 2) and of weir_history (3 and 4).
const (
	Waiting   State = 0
	Running   State = 1
	Scheduled State = 2
	Completed State = 3
	Cancelled State = 4
)

// Line is the waiting jobs of one task in one queue.
type Line struct {
	Task  string `db:"task"`
	Queue string `db:"queue"`
}

// Job is a job as stored. Fields that a list leaves out are zero there.
type Job struct {
	ID         int64          `db:"id"`  // order of arrival
	UID        string         `db:"uid"` // the name it has outside
	Task       string         `db:"task"`
	Queue      string         `db:"queue"`
	State      State          `db:"state"`
	Rank       int            `db:"rank"` // the negated priority
	FirstDue   int64          `db:"first_due"`
	RunAt      int64          `db:"run_at"`
	EnqueuedAt int64          `db:"enqueued_at"`
	StartedAt  sql.NullInt64  `db:"started_at"`
	FinishedAt sql.NullInt64  `db:"finished_at"`
	ExpiresAt  sql.NullInt64  `db:"expires_at"`
	LeaseUntil sql.NullInt64  `db:"lease_until"`
	Claim      sql.NullInt64  `db:"claim"`
	Attempt    int            `db:"attempt"`
	GivenBack  int            `db:"given_back"`
	MaxRetries sql.NullInt64  `db:"max_retries"`
	Timeout    sql.NullInt64  `db:"timeout"` // microseconds
	Deferrals  int64          `db:"deferrals"`
	UniqueKey  sql.NullString `db:"unique_key"`
	Args       []byte         `db:"args"` // empty ones may be nil
	ArgsSize   int64          `db:"args_size"`
	Metadata   sql.NullString `db:"metadata"`
	Errors     sql.NullString `db:"errors"`
	ReplayOf   sql.NullString `db:"replay_of"`
	Replays    int            `db:"replays"`
}

// NewJob is a job to insert. Zero values mean unset. Its JSON is what a schedule
// keeps of one.
type NewJob struct {
	UID        string `json:"-"` // a UUID
	Task       string `json:"task"`
	Queue      string `json:"queue,omitzero"` // unset: the task's as last registered, else "default"
	Args       []byte `json:"args,omitempty"`
	Metadata   string `json:"metadata,omitzero"` // a JSON object
	Priority   int    `json:"priority,omitzero"`
	Delay      int64  `json:"delay,omitzero"`      // microseconds from now
	RunAt      int64  `json:"-"`                   // instead of Delay
	ExpiresIn  int64  `json:"expires_in,omitzero"` // microseconds from now: never started by then, it expires
	ExpiresAt  int64  `json:"-"`                   // instead of ExpiresIn
	UniqueKey  string `json:"unique_key,omitzero"`
	MaxRetries *int   `json:"max_retries,omitzero"`
	Timeout    int64  `json:"timeout,omitzero"` // microseconds
	// Repeat says that this id may have been inserted before, so it is looked
	// up among finished and dead jobs as well.
	Repeat bool `json:"-"`
}

// Inserted answers an insert: the id under which the job lives.
type Inserted struct {
	UID string
	// Duplicate: another live job of the task holds the unique key; UID is
	// that job's.
	Duplicate bool
	// Existed: a job with this id was there already; nothing was changed.
	Existed bool
}
