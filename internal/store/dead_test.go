package store_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// bury makes dead letters: one job each, of that task, with that reason.
func (b *bundle) bury(t testing.TB, kind, task string, reasons ...string) (uids []string) {
	t.Helper()
	for _, reason := range reasons {
		job := full(task)
		b.insert(t, job)
		uids = append(uids, job.UID)
		if kind == store.KindShed {
			b.turn(t, store.TurnRequest{Admit: &admission{asks: []store.Ask{ask(task, 1)}, decide: func(read [][]store.Candidate) store.Plan {
				return store.Plan{Shed: []store.Shed{{ID: read[0][0].ID, Reason: reason}}}
			}}})
			continue
		}
		r := end(b.grant(t, 1, task, 1)[0], store.Dead)
		r.Reason = reason
		b.turn(t, store.TurnRequest{Results: []store.Result{r}})
	}
	return uids
}

func jobIDs(letters []store.DeadLetter) []string {
	out := []string{}
	for _, d := range letters {
		out = append(out, d.JobID)
	}
	return out
}

func TestDeadLettersFilterAndPage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		sheds := b.bury(t, store.KindShed, "a", "r1", "r2")
		failures := b.bury(t, store.KindFailed, "a", "f1", "f2")
		other := b.bury(t, store.KindFailed, "b", "f3")
		list := func(f store.DeadFilter) []string {
			if f.Limit == 0 {
				f.Limit = 100
			}
			got, err := b.ListDead(t.Context(), f)
			require.NoError(t, err)
			return jobIDs(got)
		}
		all := []string{other[0], failures[1], failures[0], sheds[1], sheds[0]}
		require.Equal(t, all, list(store.DeadFilter{}))
		require.Equal(t, all[:3], list(store.DeadFilter{Kind: store.KindFailed}))
		require.Equal(t, all[:3], list(store.DeadFilter{NotKind: store.KindShed}))
		require.Equal(t, all[3:], list(store.DeadFilter{Kind: store.KindShed, Task: "a"}))
		require.Equal(t, all[1:], list(store.DeadFilter{Task: "a", Queue: "q"}))
		require.Empty(t, list(store.DeadFilter{Queue: "Q"}))
		require.Empty(t, list(store.DeadFilter{Kind: store.KindExpired}))
		var paged []string
		for before := int64(0); ; {
			page, err := b.ListDead(t.Context(), store.DeadFilter{Before: before, Limit: 2})
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			paged = append(paged, jobIDs(page)...)
			before = page[len(page)-1].ID
		}
		require.Equal(t, all, paged)
	})
}

func TestDeadLettersAreCountedByTheFirstEightyBytesOfTheFirstLine(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		long := strings.Repeat("x", 80)
		b.bury(t, store.KindFailed, "a",
			"boom\nat 1", "boom\nat 2", "boom", "\nfirst line empty", "", long, long+"y", long+"z\n",
			strings.Repeat("x", 79)+"é", strings.Repeat("x", 79)+"è", // of two bytes: the 80th is in the middle
			strings.Repeat("\u20ac", 26)+"ab", strings.Repeat("\u20ac", 27)+"c", strings.Repeat("\u20ac", 26)+"\u20aca", // of three
			strings.Repeat("\U0001F600", 20), strings.Repeat("\U0001F600", 21), "x"+strings.Repeat("\U0001F600", 20), // of four
		)
		b.bury(t, store.KindFailed, "b", "boom")
		b.bury(t, store.KindShed, "a", "rate_limit: task:a 1/s", "rate_limit: task:a 1/s")
		got, err := b.DeadStats(t.Context())
		require.NoError(t, err)
		group := func(reason string, n int64) store.DeadCount {
			return store.DeadCount{Kind: store.KindFailed, Task: "a", Reason: reason, Count: n}
		}
		require.Equal(t, []store.DeadCount{
			group("boom", 3), group(long, 3),
			group("", 2), group(strings.Repeat("x", 79), 2), group(strings.Repeat("\u20ac", 26), 2), group(strings.Repeat("\U0001F600", 20), 2),
			group("x"+strings.Repeat("\U0001F600", 19), 1), group(strings.Repeat("\u20ac", 26)+"ab", 1),
			{Kind: store.KindFailed, Task: "b", Reason: "boom", Count: 1},
			{Kind: store.KindShed, Task: "a", Reason: "rate_limit: task:a 1/s", Count: 2},
		}, got)
		for _, g := range got {
			require.True(t, utf8.ValidString(g.Reason))
			require.LessOrEqual(t, len(g.Reason), 80)
		}
	})
}

func revive(d store.DeadLetter) store.NewJob {
	j := store.NewJob{
		UID: newID(), Task: d.Task, Queue: d.Queue, Args: d.Args, Metadata: d.JobMetadata.String, Priority: -d.Rank,
		UniqueKey: d.UniqueKey.String, Timeout: d.Timeout.Int64, ReplayOf: d.JobID, Replays: d.Replays + 1,
	}
	return j
}

func TestAReplayTakesTheEntryAwayAndMakesANewJob(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uid := b.bury(t, store.KindFailed, "a", "boom")[0]
		entry := b.dead(t, uid)
		var wakes []store.Wake
		defer b.OnWake(func(w store.Wake) { wakes = append(wakes, w) })()
		b.clock.Advance(time.Second)
		out, err := b.ReplayDead(t.Context(), store.DeadFilter{IDs: []int64{entry.ID, 1 << 61}, Limit: 2}, revive)
		require.NoError(t, err)
		require.Equal(t, []store.Replayed{{ID: entry.ID, JobID: uid, NewID: out[0].NewID}}, out)
		require.Equal(t, []store.Wake{{Lines: []store.Line{{Task: "a", Queue: "q"}}}}, wakes)
		got := b.stored(t, out[0].NewID)
		require.Equal(t, store.Job{
			ID: got.ID, UID: out[0].NewID, Task: "a", Queue: "q", Rank: entry.Rank, FirstDue: b.now(), RunAt: b.now(), EnqueuedAt: b.now(),
			Timeout: entry.Timeout, UniqueKey: entry.UniqueKey, Args: entry.Args, ArgsSize: entry.ArgsSize, Metadata: entry.JobMetadata,
			ReplayOf: text(uid), Replays: 2,
		}, got)
		require.Zero(t, b.count(t, `select count(*) from weir_dead`))
		out, err = b.ReplayDead(t.Context(), store.DeadFilter{IDs: []int64{entry.ID}, Limit: 1}, revive)
		require.NoError(t, err)
		require.Empty(t, out)
	})
}

func TestAReplayWhoseUniqueKeyIsTakenLeavesTheEntry(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var entries []store.DeadLetter
		for range 3 {
			j := b.running(t, 1, uniqueJob("a", "k"))
			b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Dead)}})
			entries = append(entries, b.dead(t, j.UID))
		}
		// Of several with one key the oldest takes it.
		out, err := b.ReplayDead(t.Context(), store.DeadFilter{Limit: 10}, revive)
		require.NoError(t, err)
		require.Equal(t, []store.Replayed{
			{ID: entries[0].ID, JobID: entries[0].JobID, NewID: out[0].NewID},
			{ID: entries[1].ID, JobID: entries[1].JobID, NewID: out[0].NewID, Skipped: true},
			{ID: entries[2].ID, JobID: entries[2].JobID, NewID: out[0].NewID, Skipped: true},
		}, out)
		require.EqualValues(t, 2, b.count(t, `select count(*) from weir_dead`))
		require.Equal(t, entries[1], b.dead(t, entries[1].JobID))
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))
	})
}

func TestReplaysGoInBatchesFromTheOldest(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uids := b.bury(t, store.KindFailed, "a", "1", "2", "3", "4", "5")
		b.bury(t, store.KindShed, "a", "r")
		b.bury(t, store.KindFailed, "b", "6")
		f := store.DeadFilter{Task: "a", NotKind: store.KindShed, Limit: 2, Before: b.dead(t, uids[4]).ID}
		var replayed []string
		for {
			out, err := b.ReplayDead(t.Context(), f, revive)
			require.NoError(t, err)
			if len(out) == 0 {
				break
			}
			require.LessOrEqual(t, len(out), 2)
			for _, r := range out {
				replayed = append(replayed, r.JobID)
				f.After = r.ID
			}
		}
		require.Equal(t, uids[:4], replayed)
		left, err := b.ListDead(t.Context(), store.DeadFilter{Limit: 10})
		require.NoError(t, err)
		require.Len(t, left, 3)
	})
}

func TestHoweverManyReplayAnEntryItHappensOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b, watch := setup(t, db), &watcher{}
		first := b.db.Open(t, store.Options{Clock: b.clock, Wrap: watch.wrap})
		insert := newGate(t)
		j := b.running(t, 1, newJob("a")) // without a unique key, which would prevent it as well
		b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Dead)}})
		watch.intercept(insert.at("insert into", "with c as"))
		var wg sync.WaitGroup
		replayed := make([][]store.Replayed, 4)
		replay := func(i int, s *store.Store) {
			wg.Go(func() {
				var err error
				if replayed[i], err = s.ReplayDead(t.Context(), store.DeadFilter{Limit: 10}, revive); err != nil {
					t.Error(err)
				}
			})
		}
		replay(0, first)
		<-insert.reached
		for i := 1; i < len(replayed); i++ {
			replay(i, b.Store)
		}
		if db.Dialect == store.Postgres {
			b.blocked(t, int64(len(replayed)-1))
		}
		insert.open()
		wg.Wait()
		require.Len(t, replayed[0], 1)
		require.Empty(t, slices.Concat(replayed[1:]...))
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs where replay_of = $1`, j.UID))
	})
}

func TestAFailedReplayChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		faults := &storetest.Faults{}
		b := setup(t, db)
		b.bury(t, store.KindFailed, "a", "1", "2")
		s := b.db.Open(t, store.Options{Clock: b.clock, Wrap: faults.Wrap})
		faults.Fail(`^delete from`, 1)
		_, err := s.ReplayDead(t.Context(), store.DeadFilter{Limit: 10}, revive)
		require.ErrorIs(t, err, storetest.ErrInjected)
		require.ErrorContains(t, err, "replay dead letters: ")
		require.EqualValues(t, 2, b.count(t, `select count(*) from weir_dead`))
		require.Zero(t, b.count(t, `select count(*) from weir_jobs`))
	})
}

func TestAPurgeDeletesInBatchesWhatTheFilterSelects(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		sheds := b.bury(t, store.KindShed, "a", "r", "r", "r")
		failed := b.bury(t, store.KindFailed, "a", "1", "2")
		purge := func(f store.DeadFilter) int64 {
			n, err := b.PurgeDead(t.Context(), f)
			require.NoError(t, err)
			return n
		}
		last := b.dead(t, sheds[2]).ID
		f := store.DeadFilter{Kind: store.KindShed, Before: last, Limit: 1}
		require.EqualValues(t, 1, purge(f))
		require.EqualValues(t, 1, purge(f))
		require.Zero(t, purge(f))
		require.EqualValues(t, 3, b.count(t, `select count(*) from weir_dead`))
		require.EqualValues(t, 2, purge(store.DeadFilter{IDs: []int64{last, b.dead(t, failed[0]).ID, 1 << 61}}))
		require.Zero(t, purge(store.DeadFilter{Task: "b", Limit: 9}))
		require.EqualValues(t, 1, purge(store.DeadFilter{NotKind: store.KindShed, Queue: "q", Limit: 9}))
		require.Zero(t, b.count(t, `select count(*) from weir_dead`))
	})
}
