package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// windows lists the limits of the fixed-window strategy.
func (c *Client) windows(ctx context.Context, wanted func(name string) bool) ([]LimitInfo, error) {
	rows, err := c.store.Quotas(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]LimitInfo, 0, len(rows))
	for i := range rows {
		if !wanted(rows[i].Name) {
			continue
		}
		info, err := newWindowInfo(&rows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

func newWindowInfo(row *store.Quota) (LimitInfo, error) {
	info := LimitInfo{Name: row.Name, Strategy: store.FixedWindow, Source: SourceDeclared, Started: row.Started, Paused: row.Paused}
	quota := row.Declared()
	if row.Rate.Valid && (!row.OverUntil.Valid || row.OverUntil.Int64 > row.Now) {
		over, err := quota.WithCount(row.Rate.String)
		if err != nil { // the period was declared anew since
			over, err = bucket.ParseQuota(row.Rate.String)
		}
		if err != nil {
			return LimitInfo{}, fmt.Errorf("limit %s: its override: %w", quote(row.Name), err)
		}
		quota.Count = over.Count
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
	return info, info.covers(row.Covers)
}

// windowRate is an override's count as it is stored, with the window's own period.
func (c *Client) windowRate(ctx context.Context, name string, o Override) (string, error) {
	if o.Burst != 0 {
		return "", fmt.Errorf("limit %s: %w", quote(name), errors.New("burst: a fixed window has none: leave it out"))
	}
	rows, err := c.store.Quotas(ctx)
	if err != nil {
		return "", err
	}
	for i := range rows {
		if rows[i].Name == name {
			quota, err := rows[i].Declared().WithCount(o.Rate)
			if err != nil {
				return "", fmt.Errorf("limit %s: %w", quote(name), err)
			}
			return quota.String(), nil
		}
	}
	return "", limitFound(name, false, nil)
}
