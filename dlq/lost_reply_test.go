package dlq

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// unlucky runs do with letters whose commits, once they touch weir_dead, lose
// their replies: after they took place, or before.
func unlucky(t *testing.T, do func(t *testing.T, s *store.Store, l *Letters, lose func(times int))) {
	t.Helper()
	t.Parallel()
	for _, took := range []bool{true, false} {
		t.Run(fmt.Sprintf("took place %v", took), func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				t.Parallel()
				faults := &storetest.Faults{}
				s := db.Open(t, store.Options{Wrap: faults.Wrap})
				do(t, s, &Letters{store: s}, func(times int) {
					for n := range times {
						if took {
							faults.LoseReply(`^delete from \S*weir_dead\b|dead as \(delete`, n+1)
						} else {
							faults.FailCommit(`^delete from \S*weir_dead\b|dead as \(delete`, n+1)
						}
					}
				})
			})
		})
	}
}

func TestAReplayWhoseReplyIsLostHappensOnceAndIsAnswered(t *testing.T) {
	unlucky(t, func(t *testing.T, s *store.Store, l *Letters, lose func(int)) {
		const n = 700 // two transactions
		insertDead(t, s, n)
		page, err := l.List(t.Context(), Filter{Limit: 3})
		require.NoError(t, err)
		lose(1)
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

		lose(2)
		result, err := l.ReplayWhere(t.Context(), Filter{Kind: Shed})
		require.NoError(t, err)
		require.EqualValues(t, n-2, result.Replayed)
		jobs, err := s.List(t.Context(), store.JobFilter{Limit: 2 * n})
		require.NoError(t, err)
		require.Len(t, jobs, n)
		acts, err := s.Acts(t.Context(), store.ActFilter{Limit: 10})
		require.NoError(t, err)
		require.Len(t, acts, 2)
		require.EqualValues(t, n-2, acts[0].Count)
	})
}

func TestAReplayWhoseRepliesAreAllLostSaysSo(t *testing.T) {
	unlucky(t, func(t *testing.T, s *store.Store, l *Letters, lose func(int)) {
		insertDead(t, s, 1)
		lose(tries)
		_, err := l.ReplayWhere(t.Context(), Filter{Kind: Shed})
		require.ErrorIs(t, err, ErrOutcomeUnknown)
	})
}

func TestAPurgeWhoseReplyIsLostTellsHowManyWent(t *testing.T) {
	unlucky(t, func(t *testing.T, s *store.Store, l *Letters, lose func(int)) {
		insertDead(t, s, 1_200) // three transactions
		lose(2)
		n, err := l.PurgeWhere(t.Context(), Filter{Task: "a"})
		require.NoError(t, err)
		require.EqualValues(t, 1_200, n)
		acts, err := s.Acts(t.Context(), store.ActFilter{Limit: 10})
		require.NoError(t, err)
		require.Len(t, acts, 1)
		require.EqualValues(t, 1_200, acts[0].Count)
	})
}

// Whoever is stopped in the middle leaves what was done, and the rest to the
// next one.
func TestAReplayThatIsStoppedInTheMiddleIsGoneOnWithByTheNext(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		faults := &storetest.Faults{}
		s := db.Open(t, store.Options{Wrap: faults.Wrap})
		l := &Letters{store: s}
		const n = 1_700 // four transactions
		insertDead(t, s, n)
		ctx, stop := context.WithCancel(t.Context())
		faults.Before(`insert into \S*weir_jobs`, 3, stop)
		var progress []int64
		first, err := l.ReplayWhere(ctx, Filter{Kind: Shed}, Progress(func(done int64) { progress = append(progress, done) }))
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 1_000, first.Replayed)
		require.Equal(t, []int64{500, 1_000}, progress)

		second, err := l.ReplayWhere(t.Context(), Filter{Kind: Shed})
		require.NoError(t, err)
		require.EqualValues(t, n-1_000, second.Replayed)
		jobs, err := s.List(t.Context(), store.JobFilter{Limit: 2 * n})
		require.NoError(t, err)
		origins := map[string]struct{}{}
		for _, j := range jobs {
			origins[j.ReplayOf.String] = struct{}{}
		}
		require.Len(t, jobs, n)
		require.Len(t, origins, n)
	})
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
