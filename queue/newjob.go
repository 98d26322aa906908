package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// The bounds of a job.
const (
	HighestPriority = 100
	LowestPriority  = -100
	MostRetries     = 1_000_000
	LongestDelay    = 36_500 * 24 * time.Hour // a hundred years
	LongestTimeout  = 366 * 24 * time.Hour
	LargestMetadata = 64 << 10 // bytes of JSON
)

// A NewJob is a job to enqueue. What is zero is unset; but for Queue, whatever
// is unset and has a default in the task is read there when the job starts.
type NewJob struct {
	Task string
	Args []byte // as they are; see [Encode]
	// ID is the job's id, a UUID that the caller chose. A job with that id that
	// is live, finished or dead is left as it is: the enqueue can be repeated.
	// Default: a new UUIDv7.
	ID string
	// Queue is the line the job waits in. Default: the queue of the task as
	// last registered in this database, else "default".
	Queue string
	// Priority is from -100 to 100; high ones start first. Default: 0.
	Priority int
	// Delay is how long the job waits before it may start: at most a hundred
	// years, and none if negative. Default: none.
	Delay time.Duration
	// RunAt is the earliest time to start, instead of a delay: up to the year
	// 9999; a time that has passed means now. Default: now.
	RunAt time.Time
	// UniqueKey lets one job of the task live at a time with that key.
	UniqueKey string
	// Metadata is a JSON object for people and middleware, at most 64 KiB.
	Metadata json.RawMessage
	// Timeout is how long an attempt may take, up to 366 days. Default: the
	// task's.
	Timeout time.Duration
	// MaxRetries is how often the job is tried again after its first failure:
	// 0, never, to 1,000,000. Default: the task's.
	MaxRetries *int
	// StartBefore is when the job is no longer worth starting: never started by
	// then, it becomes a dead letter of kind expired. A retry does not expire.
	// Default: never.
	StartBefore time.Time
	// StartWithin says the same as a time from now, at most a hundred years.
	StartWithin time.Duration
	// Wake makes the commit of the caller's own transaction wake schedulers, on
	// PostgreSQL; see [WithWake].
	Wake bool
}

// The times that a text of RFC 3339 can show.
var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
)

// stored checks the job and turns it into the store's.
func (j *NewJob) stored(maxArgs int) (store.NewJob, error) {
	if err := CheckName("task", j.Task); err != nil {
		return store.NewJob{}, err
	}
	if err := j.check(maxArgs); err != nil {
		err.Task = j.Task
		return store.NewJob{}, err
	}
	out := store.NewJob{
		UID: j.ID, Task: j.Task, Queue: j.Queue, Args: j.Args, Priority: j.Priority,
		Delay: microseconds(max(j.Delay, 0)), UniqueKey: j.UniqueKey, MaxRetries: j.MaxRetries,
		Timeout: microseconds(j.Timeout), Repeat: j.ID != "",
	}
	if !j.RunAt.IsZero() {
		// A time of the epoch itself would read as unset, which is now as well.
		out.RunAt = roundUp(j.RunAt).UnixMicro()
	}
	out.ExpiresIn = microseconds(j.StartWithin)
	if !j.StartBefore.IsZero() {
		out.ExpiresAt = j.StartBefore.UnixMicro()
	}
	if len(j.Metadata) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, j.Metadata); err != nil {
			return store.NewJob{}, fmt.Errorf("task %s: metadata: %w", quote(j.Task), err)
		}
		out.Metadata = compact.String()
	}
	if j.ID != "" {
		id, err := wire.UUID(j.ID)
		if err != nil {
			return store.NewJob{}, &InvalidError{Task: j.Task, Field: "id", Value: quote(j.ID), Problem: err.Error()}
		}
		out.UID = id
		return out, nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return store.NewJob{}, fmt.Errorf("make an id: %w", err)
	}
	out.UID = id.String()
	return out, nil
}

func (j *NewJob) check(maxArgs int) *InvalidError {
	invalid := func(field string, value any, problem string) *InvalidError {
		return &InvalidError{Field: field, Value: fmt.Sprint(value), Problem: problem}
	}
	switch {
	case j.Queue != "" && nameProblem(j.Queue) != "":
		return invalid("queue", quote(j.Queue), nameProblem(j.Queue))
	case j.UniqueKey != "" && nameProblem(j.UniqueKey) != "":
		return invalid("unique key", quote(j.UniqueKey), nameProblem(j.UniqueKey))
	case len(j.Args) > maxArgs:
		err := invalid("args", fmt.Sprintf("of %d bytes", len(j.Args)),
			fmt.Sprintf("at most %d are allowed: store them elsewhere and pass their name, or, in Go, raise the limit with WithMaxArgs", maxArgs))
		err.kind = ErrArgsTooLarge
		return err
	case j.Priority < LowestPriority || j.Priority > HighestPriority:
		return invalid("priority", j.Priority, fmt.Sprintf("use %d (last) to %d (first)", LowestPriority, HighestPriority))
	case j.Delay != 0 && !j.RunAt.IsZero():
		return invalid("delay", j.Delay, "the job has a time to run at as well: give one of the two")
	case j.Delay > LongestDelay:
		return invalid("delay", j.Delay, "use at most a hundred years, or a time to run at")
	case !j.RunAt.IsZero() && (j.RunAt.Before(firstTime) || roundUp(j.RunAt).After(lastTime)):
		return invalid("time to run at", "", "use one from the year 1 to 9999")
	case j.StartWithin != 0 && !j.StartBefore.IsZero():
		return invalid("start within", j.StartWithin, "the job has a time to start before as well: give one of the two")
	case j.StartWithin < 0 || j.StartWithin > LongestDelay:
		return invalid("start within", j.StartWithin, "use up to a hundred years; 0 is no end")
	case !j.StartBefore.IsZero() && (j.StartBefore.Unix() < 1 || j.StartBefore.After(lastTime)):
		return invalid("time to start before", "", "use one from the year 1970 to 9999")
	case j.Timeout < 0 || j.Timeout > LongestTimeout:
		return invalid("timeout", j.Timeout, "use up to 366 days; 0 is the task's own")
	case j.MaxRetries != nil && (*j.MaxRetries < 0 || *j.MaxRetries > MostRetries):
		return invalid("max retries", *j.MaxRetries, fmt.Sprintf("use 0 (one start) to %d", MostRetries))
	}
	return checkMetadata(j.Metadata)
}

func checkMetadata(m json.RawMessage) *InvalidError {
	if len(m) == 0 {
		return nil
	}
	invalid := func(problem string) *InvalidError {
		return &InvalidError{Field: "metadata", Value: quote(string(m)), Problem: problem}
	}
	switch {
	case len(m) > LargestMetadata:
		return invalid(fmt.Sprintf("it has %d bytes: use at most %d", len(m), LargestMetadata))
	case !utf8.Valid(m) || !json.Valid(m):
		return invalid(`it is not JSON: use an object, as in {"source":"import"}`)
	case bytes.TrimSpace(m)[0] != '{':
		return invalid(`it is not a JSON object: use one, as in {"source":"import"}`)
	}
	return nil
}

// roundUp goes to the whole microsecond at or after t, so that nothing starts
// before its time.
func roundUp(t time.Time) time.Time {
	return t.Add((time.Microsecond - time.Duration(t.Nanosecond())%time.Microsecond) % time.Microsecond)
}

func microseconds(d time.Duration) int64 {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	return int64(n)
}
