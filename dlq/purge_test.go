package dlq_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
)

func TestLettersArePurgedByTheirIDsOrTheirJobs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		jobs := b.dead(t, dlq.Failed, "a", 3)
		entry, err := b.Get(t.Context(), jobs[1])
		require.NoError(t, err)
		n, err := b.Purge(t.Context(), jobs[0], entry.ID, "999999", jobs[0])
		require.EqualError(t, err, "dead letter 999999: not found: it never was, or it was replayed or purged")
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.EqualValues(t, 2, n)
		require.Equal(t, jobs[2:], jobsOf(b.all(t, dlq.Filter{})))
		require.Empty(t, b.pending(t))
	})
}

func TestAPurgeByFilterTakesWhatItNamesAndNothingElse(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Shed, "a", 2)
		failed := b.dead(t, dlq.Failed, "a", 3)
		other := b.dead(t, dlq.Failed, "b", 1)
		for _, f := range []dlq.Filter{{}, {Queue: "default"}, {Text: "x", OlderThan: time.Hour}} {
			_, err := b.PurgeWhere(t.Context(), f)
			require.ErrorIs(t, err, dlq.ErrFilterRequired)
			require.EqualError(t, err, "purge: filter required: name a kind (shed, failed, expired) or a task")
		}
		_, err := b.PurgeWhere(t.Context(), dlq.Filter{Task: "a", Limit: 1})
		require.ErrorIs(t, err, dlq.ErrInvalid)

		purge := func(f dlq.Filter) int64 {
			n, err := b.PurgeWhere(t.Context(), f)
			require.NoError(t, err)
			return n
		}
		require.Zero(t, purge(dlq.Filter{Kind: dlq.Expired}))
		require.EqualValues(t, 2, purge(dlq.Filter{Kind: dlq.Shed, Task: "a"}))
		require.Len(t, b.all(t, dlq.Filter{}), len(failed)+len(other))
		require.EqualValues(t, 3, purge(dlq.Filter{Task: "a"}))
		require.Equal(t, other, jobsOf(b.all(t, dlq.Filter{})))
		require.EqualValues(t, 1, purge(dlq.Filter{Kind: dlq.Failed, Queue: "default"}))
	})
}

func TestPurgesAndReplaysAtTheSameTimeShareTheLetters(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n = 1_300
		b.dead(t, dlq.Failed, "a", n)
		var purged, replayed [2]int64
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				var err error
				if purged[i], err = b.PurgeWhere(t.Context(), dlq.Filter{Task: "a"}); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				result, err := b.ReplayWhere(t.Context(), dlq.Filter{Task: "a"})
				if err != nil {
					t.Error(err)
				}
				replayed[i] = result.Replayed
			})
		}
		wg.Wait()
		require.EqualValues(t, n, purged[0]+purged[1]+replayed[0]+replayed[1])
		require.Empty(t, b.all(t, dlq.Filter{}))
		require.Len(t, b.pending(t), int(replayed[0]+replayed[1]))
	})
}
