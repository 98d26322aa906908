package bench

import (
	"context"
	"fmt"
	"time"
)

// A System is a job system on a store of its own, which was empty when it was
// opened. Its methods may be called by many goroutines.
type System interface {
	// Enqueue stores one job and returns when it is safe.
	Enqueue(ctx context.Context, job Job) error
	// EnqueueMany stores jobs in the way in which the system takes many at
	// once. A system that has none returns [errors.ErrUnsupported].
	EnqueueMany(ctx context.Context, jobs []Job) error
	// Start starts workers, once. What it returns stops them and waits for
	// them.
	Start(ctx context.Context, w Workers) (stop func() error, err error)
	// Finished tells whether n jobs were worked and that is stored. It is asked
	// when handlers have seen so many.
	Finished(ctx context.Context, n int) (bool, error)
	Close() error
}

// Workers say how jobs are worked.
type Workers struct {
	Count int
	// Rate is the rate of limited jobs, as in 100/s, with a burst of its count.
	Rate string
	// Handle is the handler: it only looks at the job.
	Handle func(Job)
}

// Job is one job.
type Job struct {
	// Limited jobs belong to a task with a rate limit, the others to one
	// without.
	Limited  bool
	Priority int
	// Queue is the line to wait in; empty is the system's default.
	Queue string
	Args  Args
	// Granted is when it was granted its start, where the system tells.
	Granted time.Time
}

// Args are about 100 bytes of JSON, and no two are equal.
type Args struct {
	N    int    `json:"n"`
	At   int64  `json:"at"` // when it was enqueued, in nanoseconds since 1970
	Text string `json:"text"`
}

// NewArgs are the arguments of the n-th job, enqueued at a time.
func NewArgs(n int, at int64) Args {
	return Args{N: n, At: at, Text: fmt.Sprintf("%048d", n)}
}

// Jobs are n jobs.
func Jobs(n int, like Job) []Job {
	jobs := make([]Job, n)
	for i := range jobs {
		jobs[i] = like
		jobs[i].Args = NewArgs(i, 0)
	}
	return jobs
}
