package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// pages follows a list to its end.
func (b *bundle) pages(t testing.TB, f store.DeadFilter) (jobs []string, pages int) {
	t.Helper()
	for {
		page, next, err := b.ListDead(t.Context(), f)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), f.Limit)
		jobs, pages = append(jobs, jobIDs(page)...), pages+1
		if f.After = next; next == (store.DeadKey{}) {
			return jobs, pages
		}
	}
}

func TestDeadLettersAreFilteredInBothDirectionsWhateverThePage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		shed := b.bury(t, store.KindShed, "a", "r1", "r2")
		b.clock.Advance(time.Second)
		failed := b.bury(t, store.KindFailed, "a", "f1 100%", "f2")
		b.clock.Advance(-time.Hour) // it is the time of death that counts
		other := b.bury(t, store.KindFailed, "b", "f3")
		b.clock.Advance(time.Hour)
		b.exec(t, `update weir_dead set queue = 'Q' where job_id = $1`, other[0])
		oldest := slices.Concat(other, shed, failed)
		for _, c := range []struct {
			name   string
			filter store.DeadFilter
			want   []string
		}{
			{"all", store.DeadFilter{}, oldest},
			{"a kind", store.DeadFilter{Kind: store.KindFailed}, slices.Concat(other, failed)},
			{"but one kind", store.DeadFilter{NotKind: store.KindShed}, slices.Concat(other, failed)},
			{"a kind of a task", store.DeadFilter{Kind: store.KindShed, Task: "a"}, shed},
			{"a task in a queue", store.DeadFilter{Task: "a", Queue: "q"}, slices.Concat(shed, failed)},
			{"a task in another queue", store.DeadFilter{Task: "a", Queue: "Q"}, nil},
			{"a queue", store.DeadFilter{Queue: "Q"}, other},
			{"nothing", store.DeadFilter{Kind: store.KindExpired}, nil},
			{"the beginning of a reason", store.DeadFilter{Reason: "f"}, slices.Concat(other, failed)},
			{"no pattern", store.DeadFilter{Reason: "f_"}, nil},
			{"nor this", store.DeadFilter{Text: "100%"}, failed[:1]},
			{"upper case", store.DeadFilter{Reason: "F"}, nil},
			{"text in the reason", store.DeadFilter{Text: "r2"}, shed[1:]},
			{"text in the metadata", store.DeadFilter{Text: `"m":1`}, oldest},
			{"bytes in the arguments", store.DeadFilter{Text: "\x02"}, oldest},
			{"from", store.DeadFilter{From: b.now()}, failed},
			{"until", store.DeadFilter{Until: b.now()}, slices.Concat(other, shed)},
			{"from and until", store.DeadFilter{From: b.now() - second, Until: b.now()}, shed},
			{"through", store.DeadFilter{Through: store.DeadKey{At: b.dead(t, shed[1]).DeadAt, ID: b.dead(t, shed[1]).ID}}, slices.Concat(other, shed)},
			{"all of it", store.DeadFilter{Kind: store.KindFailed, Task: "a", Queue: "q", Reason: "f2", Text: "f2", From: 1, Until: b.now() + 1}, failed[1:]},
		} {
			for limit := 1; limit <= 6; limit++ {
				f := c.filter
				f.Limit, f.OldestFirst = limit, true
				got, _ := b.pages(t, f)
				require.Equal(t, c.want, got, "%s, oldest first, pages of %d", c.name, limit)
				f.OldestFirst = false
				got, _ = b.pages(t, f)
				slices.Reverse(got)
				require.Equal(t, c.want, got, "%s, pages of %d", c.name, limit)
			}
			n, capped, err := b.CountDead(t.Context(), c.filter)
			require.NoError(t, err)
			require.EqualValues(t, len(c.want), n, c.name)
			require.False(t, capped)
		}
	})
}

// Where a filter selects few of many, a page looks at so many and no more.
func TestNoPageLooksAtMoreThanTenThousandOfAKind(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		rare := b.bury(t, store.KindFailed, "a", "rare")
		b.clock.Advance(time.Second)
		b.fillDead(t, store.KindFailed, "a", 12_000)
		b.fillDead(t, store.KindShed, "b", 12_000)
		b.clock.Advance(time.Second)
		rare = append(rare, b.bury(t, store.KindFailed, "b", "rare")...)
		for _, oldestFirst := range []bool{false, true} {
			got, pages := b.pages(t, store.DeadFilter{Text: "rare", Limit: 100, OldestFirst: oldestFirst})
			require.ElementsMatch(t, rare, got)
			require.Equal(t, 2, pages)
		}
		whole, _ := b.pages(t, store.DeadFilter{Reason: "reason ", Limit: 5000})
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(whole))), 24_000)

		for _, c := range []struct {
			filter store.DeadFilter
			n      int64
			capped bool
		}{
			{store.DeadFilter{}, 24_002, false},                                         // the counts that are kept know these
			{store.DeadFilter{Kind: store.KindFailed, Reason: "reason 1"}, 4000, false}, // also by reason
			{store.DeadFilter{Queue: "q"}, 10_000, true},
			{store.DeadFilter{Queue: "q", From: b.now()}, 1, false},
			{store.DeadFilter{Task: "a", From: b.now() - second}, 10_000, true},
			{store.DeadFilter{Text: "rare"}, 1, true},
		} {
			n, capped, err := b.CountDead(t.Context(), c.filter)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(c.n, c.capped), fmt.Sprint(n, capped), "%+v", c.filter)
		}
	})
}
