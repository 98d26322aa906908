package store

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// One transaction replays or deletes at most so many dead letters, and so many
// bytes of arguments (unless one alone has more).
const (
	deadBatch = 500
	deadBytes = 4 << 20
)

// DeadBatches cuts dead letters into what goes into one transaction.
func DeadBatches(letters []DeadLetter) iter.Seq[[]DeadLetter] {
	return func(yield func([]DeadLetter) bool) {
		for len(letters) > 0 {
			n, bytes := 0, int64(0)
			for n < len(letters) && n < deadBatch && (n == 0 || bytes+letters[n].ArgsSize <= deadBytes) {
				bytes += letters[n].ArgsSize
				n++
			}
			if !yield(letters[:n]) {
				return
			}
			letters = letters[n:]
		}
	}
}

// DeadIDs are the ids of dead letters.
func DeadIDs(letters []DeadLetter) []int64 {
	ids := make([]int64, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
	}
	return ids
}

// Removed is what retention took away since the beginning.
type Removed struct {
	Kind    string `db:"kind"`
	ByAge   int64  `db:"by_age"`
	ByCount int64  `db:"by_count"`
}

var (
	addRemovedSQL = &statement{postgres: `
insert into weir_dead_removed (kind, by_age, by_count) values ($1, $2, $3)
on conflict (kind) do update set by_age = weir_dead_removed.by_age + excluded.by_age, by_count = weir_dead_removed.by_count + excluded.by_count`}
	removedSQL = &statement{postgres: `select kind, by_age, by_count from weir_dead_removed order by kind`}
)

// RemovedDead tells what retention took away since the beginning, by kind.
func (s *Store) RemovedDead(ctx context.Context) ([]Removed, error) {
	rows, err := selectRows[Removed](ctx, s.read, s.text(removedSQL))
	if err != nil {
		return nil, fmt.Errorf("list what retention removed: %w", err)
	}
	return rows, nil
}

// KeepDead removes the dead letters of a kind that died longer ago than age,
// and the oldest beyond a count of them; 0 is without a bound. It removes a
// batch in a transaction and returns how many went.
func (s *Store) KeepDead(ctx context.Context, kind string, age time.Duration, count int64) (removed Removed, err error) {
	removed.Kind = kind
	if age > 0 {
		now, err := s.Now(ctx)
		if err == nil {
			removed.ByAge, err = s.removeDead(ctx, DeadFilter{Kind: kind, Until: now - age.Microseconds()}, 1, 0)
		}
		if err != nil {
			return removed, fmt.Errorf("remove old dead letters: %w", err)
		}
	}
	if count > 0 {
		last, err := s.beyondDead(ctx, kind, count)
		if err == nil && !last.isZero() {
			removed.ByCount, err = s.removeDead(ctx, DeadFilter{Kind: kind, Through: last}, 0, 1)
		}
		if err != nil {
			return removed, fmt.Errorf("remove dead letters beyond %d: %w", count, err)
		}
	}
	return removed, nil
}

// beyondDead is the latest place of a kind's letters that has so many behind
// it. The counts that are kept tell when there is no need to look; what goes
// is decided by the rows.
func (s *Store) beyondDead(ctx context.Context, kind string, count int64) (DeadKey, error) {
	f := DeadFilter{Kind: kind}
	if n, err := s.sumDead(ctx, &f); err != nil || n <= count {
		return DeadKey{}, err
	}
	var places []DeadKey
	err := s.guarded(ctx, func(h Handle) (err error) {
		low, high := f.bounds()
		args := f.args(kind, low, high, 0)
		args[len(args)-1] = count
		places, err = selectRows[DeadKey](ctx, h, s.text(placeDeadSQL.of(&f)), args...)
		return err
	})
	if err != nil || len(places) == 0 {
		return DeadKey{}, err
	}
	return places[0], nil
}

// removeDead removes what a filter selects, from the oldest, and counts it as
// so much by age and by count each.
func (s *Store) removeDead(ctx context.Context, f DeadFilter, byAge, byCount int64) (removed int64, err error) {
	f.OldestFirst, f.Limit = true, deadBatch
	for {
		page, next, err := s.NameDead(ctx, f)
		if err != nil {
			return removed, err
		}
		for batch := range DeadBatches(page) {
			var n int64
			err := s.changeDead(ctx, func(t *tx) (err error) {
				if n, err = s.unbury(ctx, t, dropDeadSQL, s.ids(DeadIDs(batch))); err != nil || n == 0 {
					return err
				}
				_, err = s.exec(ctx, t, addRemovedSQL, f.Kind, n*byAge, n*byCount)
				return err
			})
			if err != nil {
				return removed, err
			}
			removed += n
		}
		if f.After = next; next.isZero() {
			return removed, nil
		}
	}
}
