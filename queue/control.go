package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// An Override is an operator's rate for a limit. It beats what the processes
// declare, in all of them within a second, until it is unset or ends.
type Override struct {
	Rate   string        // as "100/m"
	Burst  int64         // 1 to 1,000,000,000; 0: none, the count is the capacity
	For    time.Duration // up to a hundred years; 0: until it is unset
	Reason string        // for people, up to 1,000 bytes
}

// SetLimit overrides a limit's rate. What is in the bucket stays, cut to the
// new capacity; a hold ends. A rate that cannot be is refused before anything
// is stored, and so is another period for one of a list of rates; a limit that
// no process has declared is [ErrNotFound]. Of a fixed window it changes the count,
// at the next refresh of each process, and never the period.
func (c *Client) SetLimit(ctx context.Context, name string, o Override) error {
	strategy, err := c.store.Strategy(ctx)
	if err != nil {
		return err
	}
	var rate string
	if strategy == store.FixedWindow {
		rate, err = c.windowRate(ctx, name, o)
	} else {
		rate, err = bucketRate(name, o)
	}
	if err != nil {
		return err
	}
	const longestReason = 1000
	switch {
	case o.For < 0 || o.For > LongestDelay:
		return fmt.Errorf("limit %s: %w", quote(name), &InvalidError{Field: "for", Value: o.For.String(), Problem: "use up to a hundred years; 0 is until it is unset"})
	case len(o.Reason) > longestReason:
		return fmt.Errorf("limit %s: %w", quote(name), &InvalidError{Field: "reason", Value: fmt.Sprintf("of %d bytes", len(o.Reason)), Problem: "use up to 1000 bytes"})
	}
	found, err := c.store.SetOverride(ctx, name, store.Override{
		Rate: rate, Burst: o.Burst, For: microseconds(o.For), Reason: o.Reason,
	})
	return limitFound(name, found, err)
}

// bucketRate is an override's rate as it is stored.
func bucketRate(name string, o Override) (string, error) {
	limit, err := bucket.NewLimit(o.Rate, o.Burst)
	if err != nil {
		return "", fmt.Errorf("limit %s: %w", quote(name), err)
	}
	if period := elementPeriod(name); period != "" && period != limit.Rate.PeriodString() {
		return "", fmt.Errorf("limit %s: rate %s: one of a list of rates keeps its period: use a count per %s, as in %q", quote(name), quote(o.Rate), period, "100/"+period)
	}
	return limit.Rate.String(), nil
}

// elementPeriod is the period in the name of a limit that is one of a list, as
// in "task@m:resize"; "" for others.
func elementPeriod(limit string) string {
	rest, ok := strings.CutPrefix(limit, "task@")
	if !ok {
		return ""
	}
	period, _, _ := strings.Cut(rest, ":")
	return period
}

// UnsetLimit takes an override away; a hold ends.
func (c *Client) UnsetLimit(ctx context.Context, name string) error {
	found, err := c.store.UnsetOverride(ctx, name)
	return limitFound(name, found, err)
}

// PauseLimit stops starting what a limit covers, in every process within a
// second, until ResumeLimit. The jobs wait; none is shed.
func (c *Client) PauseLimit(ctx context.Context, name string) error {
	found, err := c.store.PauseLimit(ctx, name, true)
	return limitFound(name, found, err)
}

// ResumeLimit lets a paused limit go on.
func (c *Client) ResumeLimit(ctx context.Context, name string) error {
	found, err := c.store.PauseLimit(ctx, name, false)
	return limitFound(name, found, err)
}

func limitFound(name string, found bool, err error) error {
	if err == nil && !found {
		err = fmt.Errorf("limit %s: %w: `weir limits list` shows those that a scheduler has declared", quote(name), ErrNotFound)
	}
	return err
}

// PauseQueue stops starting jobs of a queue, in every process within a second,
// until ResumeQueue. It may be a queue that nothing is in yet.
func (c *Client) PauseQueue(ctx context.Context, name string) error {
	return c.pauseQueue(ctx, name, true)
}

// ResumeQueue lets a paused queue go on.
func (c *Client) ResumeQueue(ctx context.Context, name string) error {
	return c.pauseQueue(ctx, name, false)
}

func (c *Client) pauseQueue(ctx context.Context, name string, paused bool) error {
	if err := CheckName("queue", name); err != nil {
		return err
	}
	return c.store.PauseQueue(ctx, name, paused)
}
