package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// Problem says what in the limit's row cannot be read; empty: nothing. A
	// rate that is not there is written anew at the limit's next look.
	Problem string `json:"problem,omitzero"`

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
	out, err := c.limits(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := c.store.Lines(ctx)
	if err != nil {
		return nil, err
	}
	for i := range out {
		countWaiting(&out[i], lines)
	}
	return out, nil
}

// limits are the limits without what waits for them.
func (c *Client) limits(ctx context.Context) ([]LimitInfo, error) {
	windows, err := c.windowed(ctx)
	switch {
	case err != nil:
		return nil, err
	case windows:
		return c.windows(ctx)
	}
	return c.buckets(ctx)
}

func (c *Client) buckets(ctx context.Context) ([]LimitInfo, error) {
	rows, err := c.store.Limits(ctx)
	if err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]LimitInfo, len(rows))
	for i := range rows {
		out[i] = newLimitInfo(&rows[i], now)
	}
	return out, nil
}

// Limit returns one limit, or [ErrNotFound].
func (c *Client) Limit(ctx context.Context, name string) (*LimitInfo, error) {
	if checkLimit(name) != nil {
		return nil, limitFound(name, false, nil) // there is none
	}
	read := c.bucket
	if windows, err := c.windowed(ctx); err != nil {
		return nil, err
	} else if windows {
		read = c.window
	}
	info, found, err := read(ctx, name)
	if err := limitFound(name, found, err); err != nil {
		return nil, err
	}
	lines, err := c.store.LinesOf(ctx, store.Covers{Tasks: info.Tasks, Queues: info.Queues})
	if err != nil {
		return nil, err
	}
	countWaiting(&info, lines)
	return &info, nil
}

func (c *Client) bucket(ctx context.Context, name string) (info LimitInfo, found bool, err error) {
	row, found, err := c.store.Limit(ctx, name)
	if err != nil || !found {
		return LimitInfo{}, false, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return LimitInfo{}, false, err
	}
	return newLimitInfo(&row, now), true, nil
}

// countWaiting sums up the jobs that wait in the lines a limit covers.
func countWaiting(l *LimitInfo, lines []store.LineStats) {
	var waiting int64
	for _, line := range lines {
		if covers(l, line.Line) {
			waiting += line.Waiting
		}
	}
	l.Waiting, l.WaitingCapped = capped(waiting)
}

// newLimitInfo shows what of a row can be read: a damaged one must not hide the
// others.
func newLimitInfo(row *store.Limit, now int64) LimitInfo {
	info := LimitInfo{
		Name: row.Name, Strategy: store.TokenBucket, Source: SourceDeclared,
		Deferred: row.Deferred, Shed: row.Shed, Started: row.Started, Paused: row.Paused,
	}
	b, problem := row.Bucket()
	b, _ = b.Refill(now)
	if row.Rate.Valid && (!row.OverUntil.Valid || row.OverUntil.Int64 > now) {
		over, err := bucket.NewLimit(row.Rate.String, row.OverBurst.Int64)
		if err != nil {
			problem = errors.Join(problem, fmt.Errorf("its override is not obeyed: %w", err))
		} else {
			// It holds from the next look; what is there by then is kept.
			b = b.Switch(over)
			info.Source, info.OverrideUntil, info.OverrideReason = SourceOverride, wire.NullTime(row.OverUntil), row.OverReason.String
		}
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
	complete(&info, row.Covers, problem)
	return info
}

// complete reads what the limit covers, and says what of its row could not be
// read.
func complete(l *LimitInfo, stored string, problem error) {
	var covers store.Covers
	if stored != "" {
		if err := json.Unmarshal([]byte(stored), &covers); err != nil {
			problem = errors.Join(problem, fmt.Errorf("what it covers: %w", err))
		}
	}
	l.Tasks, l.Queues = covers.Tasks, covers.Queues
	if problem != nil {
		l.Problem = problem.Error()
	}
}

// tokens turns millionths into tokens: at most 10^15 of them, so that every
// digit is kept.
func tokens(millionths int64) float64 { return float64(millionths) / float64(bucket.Token) }
