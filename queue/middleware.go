package queue

import (
	"context"
	"fmt"
	"slices"
)

// An Enqueuer stores jobs, all or none, and answers in their order.
type Enqueuer func(ctx context.Context, jobs []NewJob) ([]Receipt, error)

// WithMiddleware wraps every enqueue of the client, the first one outermost:
// to add metadata, refuse, count or trace. The jobs are the middleware's to
// change; they are checked after it. What it adds or leaves out the caller does
// not see: it answers with one receipt for each job it was given. Replays and
// schedules do not pass it: their jobs were made before.
func WithMiddleware(wrap ...func(next Enqueuer) Enqueuer) Option {
	return func(o *options) error {
		o.middleware = append(o.middleware, wrap...)
		return nil
	}
}

// through sends jobs through the middleware to what stores them.
func (c *Client) through(ctx context.Context, jobs []NewJob, store Enqueuer) ([]Receipt, error) {
	if c == nil {
		return nil, fmt.Errorf("enqueue: %w", errNoClient)
	}
	if len(c.middleware) == 0 {
		return store(ctx, jobs)
	}
	for _, wrap := range slices.Backward(c.middleware) {
		store = wrap(store)
	}
	out, err := store(ctx, slices.Clone(jobs))
	if err == nil && len(out) != len(jobs) {
		err = fmt.Errorf("enqueue: the middleware answered %d receipts for %d jobs", len(out), len(jobs))
	}
	return out, err
}
