package main

import (
	"context"
	"errors"
	"time"

	"github.com/weirq/weir/queue"
)

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until nothing is live any more.
func settle(ctx context.Context, client *queue.Client) error {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		page, err := client.List(ctx, queue.Filter{States: []queue.State{queue.StatePending, queue.StateRunning}, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("jobs are left after five minutes")
}
