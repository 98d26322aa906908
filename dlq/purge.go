package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirq/weir/internal/store"
)

// Purge deletes dead letters, named by their own ids or by those of the jobs
// that died, and returns how many it deleted. Ids that name nothing are an
// error that is [ErrNotFound]; the others are deleted all the same.
func (l *Letters) Purge(ctx context.Context, ids ...string) (int64, error) {
	var there []int64
	var faults []error
	for _, id := range ids {
		row, err := l.row(ctx, id)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		there = append(there, row.ID)
	}
	var purged int64
	for part := range slices.Chunk(there, batch) {
		n, err := l.store.PurgeDead(ctx, store.DeadFilter{IDs: part, Limit: len(part)})
		if err != nil {
			faults = append(faults, err)
			break
		}
		purged += n
	}
	return purged, errors.Join(faults...)
}

// PurgeWhere deletes the dead letters that a filter selects and that are there
// when it begins, up to 500 in a transaction, and returns how many it deleted.
// The filter must name a kind, a task or a queue ([ErrFilterRequired]).
func (l *Letters) PurgeWhere(ctx context.Context, f Filter) (int64, error) {
	if f.Kind == "" && f.Task == "" && f.Queue == "" {
		return 0, fmt.Errorf("purge: %w: name a kind (shed, failed, expired), a task or a queue", ErrFilterRequired)
	}
	var purged int64
	for {
		// What others purge or replay meanwhile makes a batch smaller, even
		// empty, so the end is where nothing is left to see.
		filter, err := l.bounded(ctx, f)
		if err != nil || filter.Before == 0 {
			return purged, err
		}
		for n := int64(1); n > 0; purged += n {
			filter.Limit = batch
			if n, err = l.store.PurgeDead(ctx, filter); err != nil {
				return purged, err
			}
		}
	}
}

// bounded is the filter for what is there now. Its Before is 0 where that is
// nothing.
func (l *Letters) bounded(ctx context.Context, f Filter) (store.DeadFilter, error) {
	filter, err := f.stored()
	if err == nil && (f.Limit != 0 || f.Cursor != "") {
		err = fmt.Errorf("%w: limit and cursor are for lists", ErrInvalid)
	}
	if err != nil {
		return filter, err
	}
	filter.Limit = 1
	newest, err := l.store.ListDead(ctx, filter)
	if err != nil || len(newest) == 0 {
		return filter, err
	}
	filter.Before, filter.Limit = newest[0].ID+1, batch
	return filter, nil
}

// numbers are the entries that ids name, each once, in their order.
func (l *Letters) numbers(ctx context.Context, ids []string) (numbers []int64, faults []error) {
	seen := map[int64]struct{}{}
	for _, id := range ids {
		number, uid, err := parseID(id)
		if err == nil && uid != "" {
			var row store.DeadLetter
			row, err = l.row(ctx, uid)
			number = row.ID
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if _, again := seen[number]; !again {
			seen[number] = struct{}{}
			numbers = append(numbers, number)
		}
	}
	return numbers, faults
}
