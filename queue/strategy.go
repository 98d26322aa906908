package queue

import (
	"context"

	"github.com/weirq/weir/internal/store"
)

// ErrLive is returned by SwitchStrategy while processes run jobs.
var ErrLive = store.ErrLive

// Strategy is the strategy under which the jobs of the database run,
// "token_bucket" or "fixed_window"; "" until a process has run some.
func (c *Client) Strategy(ctx context.Context) (string, error) { return c.store.Strategy(ctx) }

// Switched is what a switch of the strategy did.
type Switched struct {
	From      string // "": none was stored
	To        string
	Overrides int64 // that were unset: they mean something else under the other strategy
}

// SwitchStrategy gives the database another strategy, "token_bucket" or
// "fixed_window". It is refused, with [ErrLive], while a process runs jobs: one that
// was killed counts for 30 s. Jobs, pauses and counters stay; overrides are unset.
func (c *Client) SwitchStrategy(ctx context.Context, to string) (Switched, error) {
	if to != store.TokenBucket && to != store.FixedWindow {
		return Switched{}, &InvalidError{Field: "strategy", Value: quote(to), Problem: `use "token_bucket" or "fixed_window"`}
	}
	done, err := c.store.SwitchStrategy(ctx, to)
	if err != nil {
		return Switched{}, err
	}
	return Switched{From: done.From, To: to, Overrides: done.Overrides}, nil
}
