package scheduler

import (
	"errors"
	"fmt"
	"time"
)

// verb is what a handler asks for with the error that it returns.
type verb struct {
	after   time.Duration
	timed   bool
	discard bool
	err     error
}

func (v *verb) Error() string {
	if v.err == nil {
		return fmt.Sprintf("retry after %v", v.after)
	}
	return v.err.Error()
}

func (v *verb) Unwrap() error { return v.err }

// longestRetryAfter keeps a retry within the times that a job can have.
const longestRetryAfter = 366 * 24 * time.Hour

// RetryAfter fails the attempt and asks for the next one after d instead of the
// back-off: 0 to 366 days, cut to that. It counts against max_retries. The
// errors given, if any, are kept as the attempt's.
func RetryAfter(d time.Duration, errs ...error) error {
	return &verb{after: min(max(d, 0), longestRetryAfter), timed: true, err: errors.Join(errs...)}
}

// Discard fails the job for good: it becomes a dead letter at once, with err
// as the reason. A breaker does not count it: the job is at fault, not what it
// depends on. A nil err is a text of its own.
func Discard(err error) error {
	if err == nil {
		err = errors.New("discarded by its handler")
	}
	return &verb{discard: true, err: err}
}

func verbOf(err error) verb {
	if v := (*verb)(nil); errors.As(err, &v) {
		return *v
	}
	return verb{}
}
