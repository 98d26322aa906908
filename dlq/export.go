package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/weirq/weir/internal/store"
)

// named at a time by All and by what acts on a filter.
const namedAtOnce = 500

// All walks through the dead letters that a filter selects, with their
// arguments, in the order of List and as List pages. Of whatever number it
// holds few at a time. It ends after an error.
func (l *Letters) All(ctx context.Context, f Filter) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		err := l.walk(ctx, &f, func(letters []store.DeadLetter) error {
			whole, err := l.store.WholeDead(ctx, store.DeadIDs(letters))
			if err != nil {
				return err
			}
			byID := make(map[int64]*store.DeadLetter, len(whole))
			for i := range whole {
				byID[whole[i].ID] = &whole[i]
			}
			for _, letter := range letters {
				if row, there := byID[letter.ID]; there && !yield(wholeEntry(row), nil) {
					return errStopped
				}
			}
			return nil
		})
		if err != nil && err != errStopped { //nolint:errorlint // it is ours, and bare
			yield(nil, fmt.Errorf("read dead letters: %w", err))
		}
	}
}

// walk calls do with batch after batch of what a filter selects: a few hundred,
// and a few megabytes of arguments.
func (l *Letters) walk(ctx context.Context, f *Filter, do func([]store.DeadLetter) error) error {
	filter, err := l.stored(ctx, f)
	if err == nil && (f.Limit != 0 || f.Cursor != "") {
		err = &InvalidError{"limit", strconv.Itoa(f.Limit), "limit and cursor are for lists"}
	}
	if err != nil {
		return err
	}
	return l.walkStored(ctx, filter, do)
}

func (l *Letters) walkStored(ctx context.Context, filter store.DeadFilter, do func([]store.DeadLetter) error) error {
	filter.Limit = namedAtOnce
	for {
		letters, next, err := l.store.NameDead(ctx, filter)
		if err != nil {
			return err
		}
		for batch := range store.DeadBatches(letters) {
			if err := do(batch); err != nil {
				return err
			}
		}
		if filter.After = next; next == (store.DeadKey{}) {
			return nil
		}
	}
}

// Export writes the dead letters that a filter selects as All gives them, one
// JSON document a line, and returns how many it wrote.
func (l *Letters) Export(ctx context.Context, w io.Writer, f Filter) (n int64, err error) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for entry, err := range l.All(ctx, f) {
		if err == nil {
			err = enc.Encode(entry)
		}
		if err != nil {
			return n, fmt.Errorf("export: %w", err)
		}
		n++
	}
	return n, nil
}
