package dlq

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// Purge deletes dead letters, named by their own ids or by those of the jobs
// that died, and returns how many it deleted. Ids that name nothing are an
// error that is [ErrNotFound]; the others are deleted all the same.
func (l *Letters) Purge(ctx context.Context, ids ...string) (int64, error) {
	letters, names, faults := l.named(ctx, ids)
	act := newAct("dlq purge", someIDs(names), bucket.Rate{})
	var purged int64
	for batch := range store.DeadBatches(letters) {
		if err := l.purgeBatch(ctx, batch, act, &purged); err != nil {
			faults = append(faults, err)
			break
		}
	}
	return purged, errors.Join(faults...)
}

// WouldPurge tells how many Purge would delete, and deletes none.
func (l *Letters) WouldPurge(ctx context.Context, ids ...string) (int64, error) {
	letters, _, faults := l.named(ctx, ids)
	return int64(len(letters)), errors.Join(faults...)
}

// PurgeWhere deletes the dead letters that a filter selects and that are there
// when it begins, the oldest first, up to 500 in a transaction, and returns how
// many it deleted. The filter must name a kind or a task ([ErrFilterRequired]).
func (l *Letters) PurgeWhere(ctx context.Context, f Filter, opts ...ActOption) (int64, error) {
	var act *store.Act
	var purged int64
	err := l.where(ctx, &f, opts, func(how *acting, batch []store.DeadLetter) error {
		if act == nil {
			act = newAct("dlq purge", f.String(), how.rate)
		}
		if how.dry {
			purged += int64(len(batch))
			return nil
		}
		return l.purgeBatch(ctx, batch, act, &purged)
	})
	if err != nil {
		return purged, fmt.Errorf("purge: %w", err)
	}
	return purged, nil
}

// purgeBatch deletes one batch and adds to what was deleted. When the reply to
// a commit is lost, what is recorded of the act tells the sum.
func (l *Letters) purgeBatch(ctx context.Context, batch []store.DeadLetter, act *store.Act, purged *int64) error {
	n, err := l.store.PurgeDead(ctx, store.DeadIDs(batch), act)
	lost := false
	for try := 1; try < tries && errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil; try++ {
		lost = true
		n, err = l.store.PurgeDead(ctx, store.DeadIDs(batch), act)
	}
	switch {
	case err != nil:
		return err
	case !lost:
		*purged += n
		return nil
	}
	sum, err := l.store.ActCount(ctx, act.UID)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	*purged = sum
	return nil
}
