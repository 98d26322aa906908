package dlq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// batch is how many entries one transaction replays or purges.
const batch = 500

// tries is how often a batch whose reply was lost is repeated by itself.
const tries = 3

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
	numbers, faults := l.numbers(ctx, ids)
	done := map[int64]Replayed{}
	for part := range slices.Chunk(slices.Sorted(slices.Values(numbers)), batch) {
		rows, err := l.replayBatch(ctx, store.DeadFilter{IDs: part, Limit: len(part)})
		if err != nil {
			faults = append(faults, err)
			break
		}
		for _, r := range rows {
			done[r.ID] = newReplayed(r)
		}
		for _, number := range part {
			if _, there := done[number]; !there {
				faults = append(faults, missing(strconv.FormatInt(number, 10)))
			}
		}
	}
	out := make([]Replayed, 0, len(done))
	for _, number := range numbers {
		if r, ok := done[number]; ok {
			out = append(out, r)
		}
	}
	return out, errors.Join(faults...)
}

// ReplayWhere makes new jobs of the dead letters that a filter selects and that
// are there when it begins, the oldest first, up to 500 in a transaction. The
// filter must name a kind or a task ([ErrFilterRequired]). What was shed is
// replayed only where the kind says so: under a task alone it stays, because
// what there was no room for once seldom finds room at once.
//
// After an error the result says what was done until then.
func (l *Letters) ReplayWhere(ctx context.Context, f Filter) (ReplayResult, error) {
	result := ReplayResult{FirstSkipped: []Replayed{}}
	if f.Kind == "" && f.Task == "" {
		return result, fmt.Errorf("replay: %w: name a kind (shed, failed, expired) or a task", ErrFilterRequired)
	}
	filter, err := l.bounded(ctx, f)
	if err != nil || filter.Before == 0 {
		return result, err
	}
	if filter.Kind == "" {
		filter.NotKind = store.KindShed
	}
	for {
		rows, err := l.replayBatch(ctx, filter)
		if err != nil {
			return result, err
		}
		if len(rows) == 0 {
			return result, nil
		}
		for _, r := range rows {
			filter.After = max(filter.After, r.ID) // what was skipped is not looked at again
			if !r.Skipped {
				result.Replayed++
				continue
			}
			const shown = 100
			if result.Skipped++; len(result.FirstSkipped) < shown {
				result.FirstSkipped = append(result.FirstSkipped, newReplayed(r))
			}
		}
	}
}

// replayBatch replays one batch. When the reply to its commit is lost, the jobs
// that it was to make tell whether it took place.
func (l *Letters) replayBatch(ctx context.Context, f store.DeadFilter) ([]store.Replayed, error) {
	tried := map[int64]store.Replayed{}
	revive := func(d store.DeadLetter) store.NewJob {
		r, again := tried[d.ID]
		if !again {
			r = store.Replayed{ID: d.ID, JobID: d.JobID, NewID: uuid.Must(uuid.NewV7()).String()}
			tried[d.ID] = r
		}
		return revived(&d, r.NewID)
	}
	var landed []store.Replayed
	for n := 1; ; n++ {
		rows, err := l.store.ReplayDead(ctx, f, revive)
		if err == nil {
			return append(landed, rows...), nil
		}
		if !errors.Is(err, ErrOutcomeUnknown) || n == tries || ctx.Err() != nil {
			return nil, err
		}
		if landed, err = l.landed(ctx, tried); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	}
}

func (l *Letters) landed(ctx context.Context, tried map[int64]store.Replayed) ([]store.Replayed, error) {
	var landed []store.Replayed
	for _, r := range tried {
		_, found, err := l.store.Get(ctx, r.NewID)
		if err == nil && !found {
			_, found, err = l.store.GetDeadByJob(ctx, r.NewID)
		}
		if err != nil {
			return nil, err
		}
		if found {
			landed = append(landed, r)
		}
	}
	return landed, nil
}

// revived is the job that a dead letter becomes.
func revived(d *store.DeadLetter, uid string) store.NewJob {
	job := store.NewJob{
		UID: uid, Task: d.Task, Queue: d.Queue, Args: d.Args, Metadata: d.JobMetadata.String,
		Priority: -d.Rank, UniqueKey: d.UniqueKey.String, Timeout: d.Timeout.Int64,
		ReplayOf: d.JobID, Replays: d.Replays + 1,
	}
	if d.MaxRetries.Valid {
		n := int(d.MaxRetries.Int64)
		job.MaxRetries = &n
	}
	return job
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
