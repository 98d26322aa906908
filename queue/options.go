package queue

import (
	"encoding/json"
	"strconv"
	"time"
)

// An EnqueueOption sets one field of a job that a [Task] enqueues; the fields
// of [NewJob] say what each is for and what its default is.
type EnqueueOption func(*NewJob) error

// apply applies the option that was given as number i, from 0.
func apply[T any](i int, opt func(T) error, to T) error {
	if opt == nil {
		return &InvalidError{Field: "option", Value: strconv.Itoa(i + 1), Problem: "it is nil: leave it out"}
	}
	return opt(to)
}

// ID sets the job's id to a UUID that the caller chose, so that the enqueue can
// be repeated: see [NewJob]. It cannot be used with EnqueueMany.
func ID(id string) EnqueueOption {
	return func(j *NewJob) error {
		if id == "" {
			return &InvalidError{Task: j.Task, Field: "id", Value: `""`, Problem: "use a UUID, or leave the option out"}
		}
		j.ID = id
		return nil
	}
}

// Queue sets the line the job waits in. An empty name is refused: leave the
// option out for the task's own.
func Queue(name string) EnqueueOption {
	return func(j *NewJob) error {
		j.Queue = name
		return CheckName("queue", name)
	}
}

// Priority sets the job's priority, -100 to 100; high ones start first.
func Priority(p int) EnqueueOption {
	return func(j *NewJob) error {
		j.Priority = p
		return nil
	}
}

// Delay makes the job wait before it may start.
func Delay(d time.Duration) EnqueueOption {
	return func(j *NewJob) error {
		j.Delay = d
		return nil
	}
}

// At sets the earliest time at which the job may start.
func At(t time.Time) EnqueueOption {
	return func(j *NewJob) error {
		j.RunAt = t
		return nil
	}
}

// UniqueKey lets one job of the task live at a time with that key: while it
// waits or runs, another enqueue stores nothing and answers with its id and
// [Receipt].Duplicate. A key that is empty is refused: computed by mistake, it
// would make nothing unique.
func UniqueKey(key string) EnqueueOption {
	return func(j *NewJob) error {
		j.UniqueKey = key
		return CheckName("unique key", key)
	}
}

// Metadata sets what people and middleware are told about the job: a JSON
// object of at most 64 KiB.
func Metadata(m map[string]any) EnqueueOption {
	return func(j *NewJob) error {
		b, err := json.Marshal(m)
		if err != nil {
			return &InvalidError{Task: j.Task, Field: "metadata", Problem: "no JSON form: " + err.Error(), kind: err}
		}
		j.Metadata = b
		if m == nil {
			j.Metadata = nil
		}
		return nil
	}
}

// WithWake makes a job of EnqueueTx wake schedulers when the caller's
// transaction commits, on PostgreSQL: without it they find the job at their next
// look, within half a second. The server lets transactions that notify commit
// one after the other, so leave it out where many commit at once. Other
// enqueues wake schedulers by themselves.
func WithWake() EnqueueOption {
	return func(j *NewJob) error {
		j.Wake = true
		return nil
	}
}

// StartBefore sets when the job is no longer worth starting; see [NewJob].
func StartBefore(t time.Time) EnqueueOption {
	return func(j *NewJob) error {
		j.StartBefore = t
		return nil
	}
}

// StartWithin sets how long the job is worth starting, from now; see [NewJob].
func StartWithin(d time.Duration) EnqueueOption {
	return func(j *NewJob) error {
		j.StartWithin = d
		return nil
	}
}

// Timeout sets how long an attempt may take.
func Timeout(d time.Duration) EnqueueOption {
	return func(j *NewJob) error {
		j.Timeout = d
		return nil
	}
}

// MaxRetries sets how often the job is tried again after its first failure: 0,
// never, to 1,000,000.
func MaxRetries(n int) EnqueueOption {
	return func(j *NewJob) error {
		j.MaxRetries = &n
		return nil
	}
}
