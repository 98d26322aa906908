package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirq/weir/internal/wire"
)

// Get returns a live or finished job with its arguments. It returns a
// [DeadError] for a job that has become a dead letter, and [ErrNotFound] for
// one that never was or that retention has taken.
func (c *Client) Get(ctx context.Context, id string) (*JobInfo, error) {
	uid, err := wire.UUID(id)
	if err != nil {
		return nil, &InvalidError{Field: "job", Value: quote(id), Problem: err.Error()}
	}
	row, found, err := c.store.Get(ctx, uid)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, c.missing(ctx, uid)
	}
	info := newJobInfo(&row)
	info.RawArgs = append([]byte{}, row.Args...)
	return &info, nil
}

// missing says where a job is that is not among the jobs.
func (c *Client) missing(ctx context.Context, uid string) error {
	dead, found, err := c.store.GetDeadByJob(ctx, uid)
	switch {
	case err != nil:
		return err
	case found:
		return &DeadError{JobID: uid, EntryID: strconv.FormatInt(dead.ID, 10)}
	}
	return fmt.Errorf("job %s: %w: it never was, or it ended so long ago that retention has taken it", uid, ErrNotFound)
}

// Cancel ends a job that has not ended: it does not start any more, and a
// handler that has it learns so by its context. What that handler returns is
// not recorded. A job that is cancelled already stays so, without an error. It
// returns a [NotCancellableError] for a completed job, a [DeadError] for a dead
// one, and [ErrNotFound].
func (c *Client) Cancel(ctx context.Context, id string) error {
	uid, err := wire.UUID(id)
	if err != nil {
		return &InvalidError{Field: "job", Value: quote(id), Problem: err.Error()}
	}
	var done bool
	err = untilKnown(ctx, func(bool) (err error) {
		done, err = c.store.Cancel(ctx, uid)
		return err
	})
	if err != nil || done {
		return err
	}
	row, found, err := c.store.Get(ctx, uid)
	switch {
	case err != nil:
		return err
	case !found:
		return c.missing(ctx, uid)
	case states[row.State] == StateCancelled:
		return nil
	}
	return &NotCancellableError{JobID: uid, State: states[row.State]}
}

// RunNow brings a scheduled job into line at once: one that waits for its time,
// or for its next attempt after a failure. Its place in line is now, and limits
// hold for it as for any other. It returns a [NotScheduledError] for a job that
// waits, runs or has ended, a [DeadError] for a dead one, and [ErrNotFound].
func (c *Client) RunNow(ctx context.Context, id string) error {
	uid, err := wire.UUID(id)
	if err != nil {
		return &InvalidError{Field: "job", Value: quote(id), Problem: err.Error()}
	}
	done, err := c.store.RunNow(ctx, uid)
	perhaps := false
	for n := 1; n < tries && errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil; n++ {
		perhaps = true
		done, err = c.store.RunNow(ctx, uid)
	}
	if err != nil || done {
		return err
	}
	row, found, err := c.store.Get(ctx, uid)
	switch {
	case err != nil:
		return err
	case !found:
		return c.missing(ctx, uid)
	case perhaps && states[row.State] != StateCancelled:
		return nil // the try whose reply was lost had done it
	}
	return &NotScheduledError{JobID: uid, State: states[row.State]}
}
