package dlq

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// Replayed is what became of one entry of a replay.
type Replayed struct {
	ID    string `json:"id"`
	JobID string `json:"job_id"`             // the job that died
	NewID string `json:"new_id" wire:"null"` // the job that was made of it; empty if none
	// Skipped says why the entry stayed: "duplicate of ID", where the live job
	// ID holds the unique key. Empty: it was replayed.
	Skipped string `json:"skipped" wire:"null"`
}

// MarshalJSON writes what became of the entry with stable names.
func (r Replayed) MarshalJSON() ([]byte, error) { return wire.Object(r) }

// ReplayResult is what became of the entries that a filter selected.
type ReplayResult struct {
	Replayed int64 `json:"replayed"`
	Skipped  int64 `json:"skipped"` // live jobs hold their unique keys: they stay
	// FirstSkipped are the first hundred of those.
	FirstSkipped []Replayed `json:"first_skipped"`
}

// Replay makes new jobs of dead letters, named by their own ids or by those of
// the jobs that died, and answers for each that was there. However many people
// do so at the same time, an entry is replayed once. Ids that name nothing are
// an error that is [ErrNotFound]; the others are replayed all the same.
func (l *Letters) Replay(ctx context.Context, ids ...string) ([]Replayed, error) {
	return l.replayNamed(ctx, ids, l.replayBatch)
}

// WouldReplay tells what Replay would do as things stand, and does nothing: of
// what would be replayed NewID is empty.
func (l *Letters) WouldReplay(ctx context.Context, ids ...string) ([]Replayed, error) {
	return l.replayNamed(ctx, ids, l.previewBatch)
}

func (l *Letters) replayNamed(ctx context.Context, ids []string, replay replayFunc) ([]Replayed, error) {
	letters, names, faults := l.named(ctx, ids)
	act := newAct("dlq replay", someIDs(names), bucket.Rate{})
	out := []Replayed{}
	for batch := range store.DeadBatches(letters) {
		rows, err := replay(ctx, batch, act)
		if err != nil {
			faults = append(faults, err)
			break
		}
		there := make(map[int64]store.Replayed, len(rows))
		for _, r := range rows {
			there[r.ID] = r
		}
		for _, letter := range batch {
			if r, ok := there[letter.ID]; ok {
				out = append(out, newReplayed(r))
			} else {
				faults = append(faults, missing(strconv.FormatInt(letter.ID, 10)))
			}
		}
	}
	return out, errors.Join(faults...)
}

// ReplayWhere makes new jobs of the dead letters that a filter selects and that
// are there when it begins, the oldest first, up to 500 in a transaction. The
// filter must name a kind or a task ([ErrFilterRequired]). What was shed is
// replayed only where the kind says so: under a task alone it stays, because
// what there was no room for once seldom finds room at once. (That is a NotKind
// of Shed, where none is given.)
//
// After an error, or when ctx ends, the result says what was done until then.
// The call can be made again: what was replayed is gone.
func (l *Letters) ReplayWhere(ctx context.Context, f Filter, opts ...ActOption) (ReplayResult, error) {
	result := ReplayResult{FirstSkipped: []Replayed{}}
	var act *store.Act
	if f.Kind == "" && f.NotKind == "" {
		f.NotKind = Shed
	}
	err := l.where(ctx, &f, opts, func(how *acting, batch []store.DeadLetter) error {
		if act == nil {
			act = newAct("dlq replay", f.String(), how.rate)
		}
		replay := replayFunc(l.replayBatch)
		if how.dry {
			replay = l.previewBatch
		}
		rows, err := replay(ctx, batch, act)
		for _, r := range rows {
			if !r.Skipped {
				result.Replayed++
				continue
			}
			const shown = 100
			if result.Skipped++; len(result.FirstSkipped) < shown {
				result.FirstSkipped = append(result.FirstSkipped, newReplayed(r))
			}
		}
		return err
	})
	if err != nil {
		return result, fmt.Errorf("replay: %w", err)
	}
	return result, nil
}

// replayFunc deals with one batch of a replay.
type replayFunc func(ctx context.Context, batch []store.DeadLetter, act *store.Act) ([]store.Replayed, error)

// replayBatch replays one batch. When the reply to its commit is lost, the jobs
// that it was to make tell whether it took place.
func (l *Letters) replayBatch(ctx context.Context, batch []store.DeadLetter, act *store.Act) ([]store.Replayed, error) {
	set := make([]store.Revival, len(batch))
	for i, letter := range batch {
		set[i] = store.Revival{ID: letter.ID, UID: uuid.Must(uuid.NewV7()).String()}
	}
	rows, err := l.store.ReplayDead(ctx, set, act)
	lost := false
	for n := 1; n < tries && errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil; n++ {
		lost = true
		rows, err = l.store.ReplayDead(ctx, set, act)
	}
	if err != nil || !lost {
		return rows, err
	}
	landed, err := l.landed(ctx, batch, set, rows)
	return append(rows, landed...), err
}

// landed are the entries that an earlier try replayed: they did not answer the
// last one, and the jobs that were to come of them are there.
func (l *Letters) landed(ctx context.Context, batch []store.DeadLetter, set []store.Revival, rows []store.Replayed) (landed []store.Replayed, err error) {
	answered := make(map[int64]struct{}, len(rows))
	for _, r := range rows {
		answered[r.ID] = struct{}{}
	}
	uids := make([]string, len(set))
	for i, r := range set {
		uids[i] = r.UID
	}
	known, err := l.store.KnownJobs(ctx, uids)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	for i, r := range set {
		_, told := answered[r.ID]
		if _, made := known[r.UID]; made && !told {
			landed = append(landed, store.Replayed{ID: r.ID, JobID: batch[i].JobID, NewID: r.UID})
		}
	}
	return landed, nil
}

// previewBatch tells what a replay would do as things stand.
func (l *Letters) previewBatch(ctx context.Context, batch []store.DeadLetter, _ *store.Act) ([]store.Replayed, error) {
	rivals, err := l.store.DeadRivals(ctx, store.DeadIDs(batch))
	if err != nil {
		return nil, err
	}
	byID := make(map[int64]store.Replayed, len(rivals))
	for _, r := range rivals {
		byID[r.ID] = r
	}
	rows := make([]store.Replayed, len(batch))
	for i, letter := range batch {
		rows[i] = store.Replayed{ID: letter.ID, JobID: letter.JobID}
		if r, held := byID[letter.ID]; held {
			rows[i] = r
		}
	}
	return rows, nil
}

func newReplayed(r store.Replayed) Replayed {
	out := Replayed{ID: strconv.FormatInt(r.ID, 10), JobID: r.JobID}
	if r.Skipped {
		out.Skipped = "duplicate of " + r.NewID
	} else {
		out.NewID = r.NewID
	}
	return out
}
