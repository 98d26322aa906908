package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// LimitInfo is a limit as an operator sees it, at the database's time.
type LimitInfo struct {
	Name  string `json:"name"`
	Rate  string `json:"rate"`
	Burst *int64 `json:"burst"` // nil: none, the capacity is the rate's count
	// Strategy is "token_bucket" or "fixed_window". Of a window Level is what it has
	// room for, Capacity its count; HeldUntil, where it is full, and NextTokenAt,
	// where something was counted in it, are its end.
	Strategy string `json:"strategy"`
	// Source is "declared" where the rate comes from a process, "override"
	// where an operator set it.
	Source   string  `json:"source"`
	Level    float64 `json:"level"` // tokens there now
	Capacity float64 `json:"capacity"`
	// HeldUntil is when the limit is asked again; zero: it is not on hold.
	HeldUntil time.Time `json:"held_until"`
	// NextTokenAt is when one more job than now could start, if none does until
	// then; zero: the bucket is full.
	NextTokenAt time.Time `json:"next_token_at"`
	// Waiting is how many jobs in line the limit covers.
	Waiting       int64 `json:"waiting"`
	WaitingCapped bool  `json:"waiting_capped,omitzero"`
	Deferred      int64 `json:"deferred"`
	Shed          int64 `json:"shed"`
	Started       int64 `json:"started"`
	Paused        bool  `json:"paused"`
	// OverrideUntil is when an override ends; zero: when it is unset.
	OverrideUntil  time.Time `json:"override_until,omitzero"`
	OverrideReason string    `json:"override_reason,omitzero"`

	Tasks  []string `json:"-"` // what it covers
	Queues []string `json:"-"`
}

// MarshalJSON writes the limit with stable names.
func (l LimitInfo) MarshalJSON() ([]byte, error) { return wire.Object(l) }

// The values of [LimitInfo].Source.
const (
	SourceDeclared = "declared"
	SourceOverride = "override"
)

// Limits lists the limits by name. Their levels are computed for now: looking
// changes nothing.
func (c *Client) Limits(ctx context.Context) ([]LimitInfo, error) {
	return c.limits(ctx, func(string) bool { return true })
}

// Limit returns one limit, or [ErrNotFound].
func (c *Client) Limit(ctx context.Context, name string) (*LimitInfo, error) {
	list, err := c.limits(ctx, func(n string) bool { return n == name })
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("limit %s: %w: `weir limits list` shows those that a scheduler has declared", quote(name), ErrNotFound)
	}
	return &list[0], nil
}

func (c *Client) limits(ctx context.Context, wanted func(name string) bool) ([]LimitInfo, error) {
	strategy, err := c.store.Strategy(ctx)
	if err != nil {
		return nil, err
	}
	rows := c.buckets
	if strategy == store.FixedWindow {
		rows = c.windows
	}
	out, err := rows(ctx, wanted)
	if err != nil {
		return nil, err
	}
	lines, err := c.store.Lines(ctx)
	if err != nil {
		return nil, err
	}
	for i := range out {
		info := &out[i]
		for _, l := range lines {
			if slices.Contains(info.Tasks, l.Task) || slices.Contains(info.Queues, l.Queue) {
				info.Waiting += l.Waiting
			}
		}
		info.Waiting, info.WaitingCapped = capped(info.Waiting)
	}
	return out, nil
}

func (c *Client) buckets(ctx context.Context, wanted func(name string) bool) ([]LimitInfo, error) {
	rows, err := c.store.Limits(ctx)
	if err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]LimitInfo, 0, len(rows))
	for i := range rows {
		if !wanted(rows[i].Name) {
			continue
		}
		info, err := newLimitInfo(&rows[i], now)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

func newLimitInfo(row *store.Limit, now int64) (LimitInfo, error) {
	b, err := row.Bucket()
	if err != nil {
		return LimitInfo{}, err
	}
	info := LimitInfo{
		Name: row.Name, Strategy: store.TokenBucket, Source: SourceDeclared,
		Deferred: row.Deferred, Shed: row.Shed, Started: row.Started, Paused: row.Paused,
	}
	b, _ = b.Refill(now)
	if row.Rate.Valid && (!row.OverUntil.Valid || row.OverUntil.Int64 > now) {
		// It holds from the next look; what is there by then is kept.
		over, err := bucket.NewLimit(row.Rate.String, row.OverBurst.Int64)
		if err != nil {
			return LimitInfo{}, fmt.Errorf("limit %s: its override: %w", quote(row.Name), err)
		}
		b = b.Switch(over)
		info.Source, info.OverrideUntil, info.OverrideReason = SourceOverride, wire.NullTime(row.OverUntil), row.OverReason.String
	}
	info.Rate = b.Limit.Rate.String()
	if b.Limit.Burst != 0 {
		info.Burst = &b.Limit.Burst
	}
	info.Level, info.Capacity = tokens(b.Level), tokens(b.Limit.Capacity())
	// A clock that stepped back by more than a second has ended the hold.
	if row.HeldUntil > now && now >= row.HeldFrom-time.Second.Microseconds() {
		info.HeldUntil = wire.Time(row.HeldUntil)
	}
	if at, ok := b.TimeOf(b.Tokens() + 1); ok {
		info.NextTokenAt = wire.Time(at)
	}
	return info, info.covers(row.Covers)
}

// covers reads what the limit covers.
func (l *LimitInfo) covers(stored string) error {
	var covers store.Covers
	if stored != "" {
		if err := json.Unmarshal([]byte(stored), &covers); err != nil {
			return fmt.Errorf("limit %s: what it covers: %w", quote(l.Name), err)
		}
	}
	l.Tasks, l.Queues = covers.Tasks, covers.Queues
	return nil
}

// tokens turns millionths into tokens: at most 10^15 of them, so that every
// digit is kept.
func tokens(millionths int64) float64 { return float64(millionths) / float64(bucket.Token) }
