package queue

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// The bounds of a page.
const (
	DefaultLimit = 100
	LargestLimit = 10_000
)

// A Filter selects jobs. Zero values select all.
type Filter struct {
	Task   string
	Queue  string
	States []State // any of them
	Limit  int     // jobs on a page, 1 to 10,000. Default: 100
	Cursor string  // Next of the page before
}

// A Page is a part of a list.
type Page[T any] struct {
	Items []T
	// Next is the cursor of the page that follows; empty at the end of the list.
	Next string
}

// MarshalJSON writes {"items": [...], "next": CURSOR or null}.
func (p Page[T]) MarshalJSON() ([]byte, error) { return wire.Page(p.Items, p.Next) }

// jobsList marks the cursors of List.
const jobsList = 'j'

// List returns live and finished jobs, the latest enqueued first. Following
// Next from the first page, every job that was there all the time comes exactly
// once, whatever comes and goes meanwhile. Arguments over 4 KiB are not read.
func (c *Client) List(ctx context.Context, f Filter) (Page[JobInfo], error) {
	filter, err := f.stored()
	if err != nil {
		return Page[JobInfo]{}, fmt.Errorf("list jobs: %w", err)
	}
	limit := filter.Limit
	filter.Limit++ // one more tells whether another page follows
	rows, err := c.store.List(ctx, filter)
	if err != nil {
		return Page[JobInfo]{}, err
	}
	var page Page[JobInfo]
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = wire.Cursor(jobsList, rows[limit-1].ID)
	}
	page.Items = make([]JobInfo, len(rows))
	for i := range rows {
		page.Items[i] = newJobInfo(&rows[i])
	}
	return page, nil
}

func (f *Filter) stored() (store.JobFilter, error) {
	out := store.JobFilter{Task: f.Task, Queue: f.Queue, Limit: f.Limit}
	for _, name := range []struct{ kind, name string }{{"task", f.Task}, {"queue", f.Queue}} {
		if name.name == "" {
			continue
		}
		if err := CheckName(name.kind, name.name); err != nil {
			return out, err
		}
	}
	for _, s := range f.States {
		state, err := ParseState(string(s))
		if err != nil {
			return out, err
		}
		out.States = append(out.States, storedStates[state]...)
	}
	if out.Limit == 0 {
		out.Limit = DefaultLimit
	}
	if out.Limit < 1 || out.Limit > LargestLimit {
		return out, &InvalidError{Field: "limit", Value: strconv.Itoa(f.Limit), Problem: fmt.Sprintf("use 1 to %d", LargestLimit)}
	}
	before, err := wire.ParseCursor(jobsList, f.Cursor)
	if err != nil {
		return out, &InvalidError{Field: "cursor", Value: quote(f.Cursor), Problem: err.Error()}
	}
	out.Before = before
	return out, nil
}
