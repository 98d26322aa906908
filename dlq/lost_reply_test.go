package dlq

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// losing loses the replies to the first commits, which took place or not.
type losing struct {
	letterStore
	replies int // to lose
	before  bool
	calls   int
}

func (l *losing) ReplayDead(ctx context.Context, f store.DeadFilter, revive func(store.DeadLetter) store.NewJob) ([]store.Replayed, error) {
	l.calls++
	lost := l.calls <= l.replies
	if lost && l.before {
		return nil, errors.Join(errors.New("connection reset"), store.ErrOutcomeUnknown)
	}
	out, err := l.letterStore.ReplayDead(ctx, f, revive)
	if lost && err == nil {
		return nil, errors.Join(errors.New("connection reset"), store.ErrOutcomeUnknown)
	}
	return out, err
}

func TestAReplayWhoseReplyIsLostHappensOnceAndIsAnswered(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before the commit": true, "after the commit": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				s := db.Open(t, store.Options{})
				const n = 700 // two transactions
				insertDead(t, s, n)
				lossy := &losing{letterStore: s, replies: 2, before: before}
				l := &Letters{store: lossy}

				page, err := l.List(t.Context(), Filter{Limit: 3})
				require.NoError(t, err)
				replayed, err := l.Replay(t.Context(), page.Items[0].ID, page.Items[1].JobID)
				require.NoError(t, err)
				require.Len(t, replayed, 2)
				for i, r := range replayed {
					require.Equal(t, page.Items[i].JobID, r.JobID)
					job, found, err := s.Get(t.Context(), r.NewID)
					require.NoError(t, err)
					require.True(t, found)
					require.Equal(t, r.JobID, job.ReplayOf.String)
				}

				lossy.calls = 0
				result, err := l.ReplayWhere(t.Context(), Filter{Kind: Shed})
				require.NoError(t, err)
				require.EqualValues(t, n-2, result.Replayed)
				jobs, err := s.List(t.Context(), store.JobFilter{Limit: 2 * n})
				require.NoError(t, err)
				require.Len(t, jobs, n)

				insertDead(t, s, 1)
				lossy.calls, lossy.replies = 0, tries
				_, err = l.ReplayWhere(t.Context(), Filter{Kind: Shed})
				require.ErrorIs(t, err, ErrOutcomeUnknown)
			})
		})
	}
}

// insertDead makes dead letters that were shed.
func insertDead(t *testing.T, s *store.Store, n int) {
	t.Helper()
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = store.NewJob{UID: uuid.Must(uuid.NewV7()).String(), Task: "a", Args: fmt.Append(nil, i)}
	}
	_, err := s.Insert(t.Context(), jobs)
	require.NoError(t, err)
	_, err = s.Turn(t.Context(), store.TurnRequest{Lease: time.Minute, Admit: shedding{}})
	require.NoError(t, err)
}

type shedding struct{}

func (shedding) Ask(int64, store.Locked) []store.Ask {
	return []store.Ask{{Line: store.Line{Task: "a", Queue: "default"}, Max: 10_000, Fresh: true}}
}

func (shedding) Decide(read [][]store.Candidate) store.Plan {
	var p store.Plan
	for _, c := range read[0] {
		p.Shed = append(p.Shed, store.Shed{ID: c.ID, Reason: "rate_limit: task:a 1/m"})
	}
	return p
}
