package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// windowed tells whether the limits of the database are fixed windows.
func (c *Client) windowed(ctx context.Context) (bool, error) {
	strategy, err := c.store.Strategy(ctx)
	return strategy == store.FixedWindow, err
}

func (c *Client) windows(ctx context.Context) ([]LimitInfo, error) {
	rows, err := c.store.Quotas(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]LimitInfo, len(rows))
	for i := range rows {
		out[i] = newWindowInfo(&rows[i])
	}
	return out, nil
}

func (c *Client) window(ctx context.Context, name string) (info LimitInfo, found bool, err error) {
	row, found, err := c.store.Quota(ctx, name)
	if err != nil || !found {
		return LimitInfo{}, false, err
	}
	return newWindowInfo(&row), true, nil
}

func newWindowInfo(row *store.Quota) LimitInfo {
	info := LimitInfo{Name: row.Name, Strategy: store.FixedWindow, Source: SourceDeclared, Started: row.Started, Paused: row.Paused}
	quota, problem := row.Declared()
	quota, overridden, err := row.InForce(quota)
	if err != nil {
		problem = errors.Join(problem, fmt.Errorf("its override is not obeyed: %w", err))
	}
	if overridden {
		info.Source, info.OverrideUntil, info.OverrideReason = SourceOverride, wire.NullTime(row.OverUntil), row.OverReason.String
	}
	room := quota.Count
	if w := row.State(); !w.Expired(row.Now, quota.Period) {
		room = w.Room(quota.Count)
		ends := wire.Time(w.Ends(quota.Period))
		if room < quota.Count {
			info.NextTokenAt = ends
		}
		if room == 0 && quota.Count > 0 {
			info.HeldUntil = ends
		}
	}
	info.Rate = quota.String()
	info.Level, info.Capacity = float64(room), float64(quota.Count)
	complete(&info, row.Covers, problem)
	return info
}

// quota is what the override says of a fixed window: another count.
func (o *Override) quota(row *store.Quota) (bucket.Quota, error) {
	if o.Burst != 0 {
		return bucket.Quota{}, &InvalidError{Field: "burst", Value: strconv.FormatInt(o.Burst, 10), Problem: "a fixed window has none: leave it out"}
	}
	declared, err := row.Declared()
	if err != nil {
		return bucket.Quota{}, err
	}
	quota, err := declared.WithCount(o.Rate)
	if err != nil {
		return bucket.Quota{}, invalid{err}
	}
	return quota, nil
}
