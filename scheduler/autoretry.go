package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weirq/weir/internal/store"
)

// DLQRetry replays the task's dead letters by itself: those that failed, when
// they have been dead for after (1 s to 366 days), until they were replayed most
// times (1 to 100), replays by hand counted. What was shed or expired stays.
// Default: none is replayed.
//
// However many schedulers run, each is replayed once, and passes the same
// limits as any other job. One whose unique key a live job holds waits until
// that one has ended.
func DLQRetry(after time.Duration, most int) TaskOption {
	return taskOption{"dlq_retry", func(c *taskConfig) error {
		c.deadRetry = &DLQRetryInfo{after, most}
		var errs []error
		if after < time.Second || after > 366*24*time.Hour {
			errs = append(errs, fmt.Errorf("after %v: use 1s to 366 days", after))
		}
		if most < 1 || most > 100 {
			errs = append(errs, fmt.Errorf("max %d: use 1 to 100", most))
		}
		return about("dlq_retry", errs...)
	}}
}

// One look for dead letters to retry names so many, and looks come so often.
const (
	retryBatch  = 500
	retrySeldom = 10 * time.Second
	retryOften  = time.Second
)

// retryPolicies are those of the tasks that have one, as of now, and how often
// to look for them: more often where they are to come back soon.
func (s *Scheduler) retryPolicies(now int64) (policies []store.DeadRetry, every time.Duration) {
	every = retrySeldom
	for _, t := range s.tasks {
		if p := t.deadRetry; p != nil {
			policies = append(policies, store.DeadRetry{Task: t.name, Before: now - p.After.Microseconds(), Most: p.Max})
			every = max(min(every, p.After/10), retryOften)
		}
	}
	return policies, every
}

// keepRetrying looks for dead letters to retry until ctx ends.
func (s *Scheduler) keepRetrying(ctx context.Context) {
	policies, every := s.retryPolicies(0)
	if len(policies) == 0 {
		return
	}
	for {
		if err := s.retryDead(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("dead_letter_retry_failed", "error", err)
		}
		fired, release := s.clock.Timer(every)
		select {
		case <-ctx.Done():
			release()
			return
		case <-fired:
		}
	}
}

// retryDead replays all dead letters whose time has come. A batch is one
// transaction, in which they go and new jobs come: of several schedulers one
// has each. A batch whose reply is lost needs no second try: the next look
// finds out.
func (s *Scheduler) retryDead(ctx context.Context) (err error) {
	if policies, _ := s.retryPolicies(0); len(policies) == 0 {
		return nil
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("retry dead letters: %w", err)
	}
	policies, _ := s.retryPolicies(now)
	total := 0
	for more := true; more && err == nil; {
		var letters []store.DeadLetter
		letters, err = s.store.RetryableDead(ctx, policies, retryBatch)
		more = false
		for batch := range store.DeadBatches(letters) {
			done, left, replayErr := s.revive(ctx, batch)
			total += done
			err = errors.Join(err, replayErr)
			more = more || left < len(batch)
		}
	}
	if total > 0 {
		s.log.Info("dead_letters_retried", "count", total)
	}
	return err
}

// revive replays dead letters and returns how many became jobs, and how many are
// still there. The others were somebody else's.
func (s *Scheduler) revive(ctx context.Context, letters []store.DeadLetter) (done, left int, err error) {
	set := make([]store.Revival, len(letters))
	for i, letter := range letters {
		set[i] = store.Revival{ID: letter.ID, UID: uuid.Must(uuid.NewV7()).String()}
	}
	out, err := s.store.ReplayDead(ctx, set, nil)
	if err != nil {
		return 0, len(letters), err
	}
	for _, r := range out {
		if r.Skipped {
			left++
		} else {
			done++
		}
	}
	return done, left, nil
}
