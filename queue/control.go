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
// is stored ([ErrInvalid]), and so is another period for one of a list of rates;
// a limit that no process has declared is [ErrNotFound]. Of a fixed window it
// changes the count, at the next refresh of each process, and never the period.
func (c *Client) SetLimit(ctx context.Context, name string, o Override) error {
	if err := checkLimit(name); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return fmt.Errorf("limit %s: %w", quote(name), err)
	}
	rate, err := c.overrideRate(ctx, name, &o)
	if err != nil {
		return err
	}
	found, err := c.store.SetOverride(ctx, name, store.Override{
		Rate: rate, Burst: o.Burst, For: microseconds(o.For), Reason: o.Reason,
	})
	return limitFound(name, found, err)
}

// overrideRate is an override's rate as it is stored.
func (c *Client) overrideRate(ctx context.Context, name string, o *Override) (string, error) {
	windows, err := c.windowed(ctx)
	if err != nil {
		return "", err
	}
	if !windows {
		limit, err := o.limit(name)
		if err != nil {
			return "", fmt.Errorf("limit %s: %w", quote(name), err)
		}
		return limit.Rate.String(), nil
	}
	row, found, err := c.store.Quota(ctx, name)
	if err := limitFound(name, found, err); err != nil {
		return "", err
	}
	quota, err := o.quota(&row)
	if err != nil {
		return "", fmt.Errorf("limit %s: %w", quote(name), err)
	}
	return quota.String(), nil
}

// limit is what the override says, if it can be said of the limit of that name.
func (o *Override) limit(name string) (bucket.Limit, error) {
	limit, err := bucket.NewLimit(o.Rate, o.Burst)
	if err != nil {
		return bucket.Limit{}, invalid{err}
	}
	if period, _ := splitLimit(name); period != "" && period != limit.Rate.PeriodString() {
		return bucket.Limit{}, &InvalidError{
			Field: "rate", Value: quote(o.Rate),
			Problem: fmt.Sprintf("one of a list of rates keeps its period: use a count per %s, as in %q", period, "100/"+period),
		}
	}
	return limit, nil
}

// check refuses what no override can have, whatever it is for.
func (o *Override) check() error {
	const longestReason = 1000
	switch {
	case o.For < 0 || o.For > LongestDelay:
		return &InvalidError{Field: "for", Value: o.For.String(), Problem: "use up to a hundred years; 0 is until it is unset"}
	case len(o.Reason) > longestReason:
		return &InvalidError{Field: "reason", Value: fmt.Sprintf("of %d bytes", len(o.Reason)), Problem: "use up to 1000 bytes"}
	case textProblem(o.Reason) != "":
		return &InvalidError{Field: "reason", Value: quote(o.Reason), Problem: textProblem(o.Reason)}
	}
	return nil
}

// splitLimit takes the name of a limit apart: that of its task, queue or its
// own, and the period where it is one of a list, as in "task@m:resize".
func splitLimit(limit string) (period, name string) {
	if rest, ok := strings.CutPrefix(limit, "task@"); ok {
		period, name, _ = strings.Cut(rest, ":")
		return period, name
	}
	for _, prefix := range []string{"task:", "queue:"} {
		if rest, ok := strings.CutPrefix(limit, prefix); ok {
			return "", rest
		}
	}
	return "", limit
}

// checkLimit refuses the name of a limit that there cannot be.
func checkLimit(limit string) error {
	_, name := splitLimit(limit)
	if problem := nameProblem(name); problem != "" {
		return &InvalidError{Field: "limit", Value: quote(limit), Problem: problem}
	}
	return nil
}

// UnsetLimit takes an override away; a hold ends.
func (c *Client) UnsetLimit(ctx context.Context, name string) error {
	if err := checkLimit(name); err != nil {
		return err
	}
	found, err := c.store.UnsetOverride(ctx, name)
	return limitFound(name, found, err)
}

// PauseLimit stops starting what a limit covers, in every process within a
// second, until ResumeLimit. The jobs wait; none is shed.
func (c *Client) PauseLimit(ctx context.Context, name string) error {
	return c.pauseLimit(ctx, name, true)
}

// ResumeLimit lets a paused limit go on.
func (c *Client) ResumeLimit(ctx context.Context, name string) error {
	return c.pauseLimit(ctx, name, false)
}

func (c *Client) pauseLimit(ctx context.Context, name string, paused bool) error {
	if err := checkLimit(name); err != nil {
		return err
	}
	found, err := c.store.PauseLimit(ctx, name, paused)
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
