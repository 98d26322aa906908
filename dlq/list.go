package dlq

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

// A Page is a part of a list.
type Page struct {
	Items []Entry
	// Next is the cursor of the page that follows; empty at the end of the list.
	Next string
}

// MarshalJSON writes {"items": [...], "next": CURSOR or null}.
func (p Page) MarshalJSON() ([]byte, error) { return wire.Page(p.Items, p.Next) }

// The letters of the cursors of List: one leads on in its own direction alone.
const (
	latestFirst = 'd'
	oldestFirst = 'o'
)

func (f *Filter) cursors() byte {
	if f.OldestFirst {
		return oldestFirst
	}
	return latestFirst
}

// List returns dead letters in the order of their death, the latest first.
// Following Next from the first page, every entry that was there all the time
// comes exactly once, whatever comes and goes meanwhile. Arguments over 4 KiB
// are not read.
//
// No page looks at more than some ten thousand entries: where a filter by
// Reason, by Text, or by Task and Queue at once selects few of them, a page has
// fewer than Limit, or none, although Next leads on.
func (l *Letters) List(ctx context.Context, f Filter) (Page, error) {
	page, err := l.list(ctx, &f)
	if err != nil {
		return Page{}, fmt.Errorf("list dead letters: %w", err)
	}
	return page, nil
}

func (l *Letters) list(ctx context.Context, f *Filter) (page Page, err error) {
	filter, err := l.stored(ctx, f)
	if err != nil {
		return page, err
	}
	filter.Limit = f.Limit
	if f.Limit == 0 {
		filter.Limit = DefaultLimit
	}
	if f.Limit < 0 || f.Limit > LargestLimit {
		return page, &InvalidError{"limit", strconv.Itoa(f.Limit), fmt.Sprintf("use 1 to %d", LargestLimit)}
	}
	if filter.After.At, filter.After.ID, err = wire.ParsePlace(f.cursors(), f.Cursor); err != nil {
		return page, &InvalidError{"cursor", quote(f.Cursor), err.Error()}
	}
	rows, next, err := l.store.ListDead(ctx, filter)
	if err != nil {
		return page, err
	}
	if next != (store.DeadKey{}) {
		page.Next = wire.Place(f.cursors(), next.At, next.ID)
	}
	page.Items = make([]Entry, len(rows))
	for i := range rows {
		page.Items[i] = newEntry(&rows[i])
	}
	return page, nil
}

// A Count is how many dead letters a filter selects.
type Count struct {
	N int64 `json:"count"`
	// Capped: there may be more.
	Capped bool `json:"count_capped,omitzero"`
}

// Count counts dead letters without walking through all of them: exactly where
// a filter names no more than a kind, a task and the beginning of a reason,
// whatever their number; else exactly up to 10,000, and among the ten thousand
// entries of a kind that it looks at where List would do the same.
func (l *Letters) Count(ctx context.Context, f Filter) (Count, error) {
	filter, err := l.stored(ctx, &f)
	if err != nil {
		return Count{}, fmt.Errorf("count dead letters: %w", err)
	}
	n, capped, err := l.store.CountDead(ctx, filter)
	return Count{n, capped}, err
}
