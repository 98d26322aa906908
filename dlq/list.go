package dlq

import (
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// The bounds of a page.
const (
	DefaultLimit = 100
	LargestLimit = 10_000
)

// A Filter selects dead letters. Zero values select all.
type Filter struct {
	Kind  Kind
	Task  string
	Queue string

	// Limit and Cursor are for lists alone.
	Limit  int    // entries on a page, 1 to 10,000. Default: 100
	Cursor string // Next of the page before
}

// A Page is a part of a list.
type Page struct {
	Items []Entry
	// Next is the cursor of the page that follows; empty at the end of the list.
	Next string
}

// MarshalJSON writes {"items": [...], "next": CURSOR or null}.
func (p Page) MarshalJSON() ([]byte, error) { return wire.Page(p.Items, p.Next) }

// lettersList marks the cursors of List.
const lettersList = 'd'

// List returns dead letters, the latest first. Following Next from the first
// page, every entry that was there all the time comes exactly once, whatever
// comes and goes meanwhile. Arguments over 4 KiB are not read.
func (l *Letters) List(ctx context.Context, f Filter) (Page, error) {
	filter, err := f.stored()
	if err != nil {
		return Page{}, fmt.Errorf("list dead letters: %w", err)
	}
	limit := f.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if limit < 1 || limit > LargestLimit {
		return Page{}, fmt.Errorf("list dead letters: %w: limit %d: use 1 to %d", ErrInvalid, limit, LargestLimit)
	}
	if filter.Before, err = wire.ParseCursor(lettersList, f.Cursor); err != nil {
		return Page{}, fmt.Errorf("list dead letters: %w: cursor %q: %w", ErrInvalid, f.Cursor, err)
	}
	filter.Limit = limit + 1 // one more tells whether another page follows
	rows, err := l.store.ListDead(ctx, filter)
	if err != nil {
		return Page{}, err
	}
	var page Page
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = wire.Cursor(lettersList, rows[limit-1].ID)
	}
	page.Items = make([]Entry, len(rows))
	for i := range rows {
		page.Items[i] = newEntry(&rows[i])
	}
	return page, nil
}

func (f *Filter) stored() (store.DeadFilter, error) {
	switch f.Kind {
	case "", Shed, Failed, Expired:
	default:
		return store.DeadFilter{}, fmt.Errorf("%w: kind %q: use shed, failed or expired", ErrInvalid, string(f.Kind))
	}
	for _, name := range []struct{ kind, name string }{{"task", f.Task}, {"queue", f.Queue}} {
		if !utf8.ValidString(name.name) || len(name.name) > 255 {
			return store.DeadFilter{}, fmt.Errorf("%w: %s %.80q: no name is such", ErrInvalid, name.kind, name.name)
		}
		for _, r := range name.name {
			if unicode.IsControl(r) {
				return store.DeadFilter{}, fmt.Errorf("%w: %s %.80q: no name has control characters", ErrInvalid, name.kind, name.name)
			}
		}
	}
	return store.DeadFilter{Kind: string(f.Kind), Task: f.Task, Queue: f.Queue}, nil
}
