package store_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// revivals name new jobs for dead letters.
func revivals(letters ...store.DeadLetter) []store.Revival {
	out := make([]store.Revival, len(letters))
	for i, d := range letters {
		out[i] = store.Revival{ID: d.ID, UID: newID()}
	}
	return out
}

func (b *bundle) replay(t testing.TB, letters ...store.DeadLetter) []store.Replayed {
	t.Helper()
	out, err := b.ReplayDead(t.Context(), revivals(letters...), nil)
	require.NoError(t, err)
	return out
}

func TestAReplayTakesTheLetterAwayAndMakesANewJob(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uid := b.bury(t, store.KindFailed, "a", "boom")[0]
		letter := b.dead(t, uid)
		var wakes []store.Wake
		defer b.OnWake(func(w store.Wake) { wakes = append(wakes, w) })()
		b.clock.Advance(time.Second)
		set := revivals(letter, store.DeadLetter{ID: 1 << 61})
		out, err := b.ReplayDead(t.Context(), set, nil)
		require.NoError(t, err)
		require.Equal(t, []store.Replayed{{ID: letter.ID, JobID: uid, NewID: set[0].UID}}, out)
		require.Equal(t, []store.Wake{{Lines: []store.Line{{Task: "a", Queue: "q"}}}}, wakes)
		got := b.stored(t, out[0].NewID)
		require.Equal(t, store.Job{
			ID: got.ID, UID: set[0].UID, Task: "a", Queue: "q", Rank: letter.Rank, FirstDue: b.now(), RunAt: b.now(), EnqueuedAt: b.now(),
			MaxRetries: letter.MaxRetries, Timeout: letter.Timeout, UniqueKey: letter.UniqueKey, Args: letter.Args, ArgsSize: letter.ArgsSize,
			Metadata: letter.JobMetadata, ReplayOf: text(uid), Replays: 2,
		}, got)
		require.Zero(t, b.count(t, `select count(*) from weir_dead`))
		require.Empty(t, b.replay(t, letter))
	})
}

func TestReplayedJobsComeInTheOrderOfTheReplay(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var letters []store.DeadLetter
		for _, uid := range b.bury(t, store.KindFailed, "a", "1", "2", "3") {
			letters = append(letters, b.dead(t, uid))
		}
		slices.Reverse(letters)
		out := b.replay(t, letters...)
		require.Len(t, out, 3)
		for i := 1; i < 3; i++ {
			require.Less(t, b.stored(t, out[i-1].NewID).ID, b.stored(t, out[i].NewID).ID)
		}
	})
}

func TestAReplayWhoseUniqueKeyIsTakenLeavesTheLetter(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var letters []store.DeadLetter
		for range 3 {
			j := b.running(t, 1, uniqueJob("a", "k"))
			b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Dead)}})
			letters = append(letters, b.dead(t, j.UID))
		}
		// Of several with one key the first takes it.
		out := b.replay(t, letters...)
		require.Equal(t, []store.Replayed{
			{ID: letters[0].ID, JobID: letters[0].JobID, NewID: out[0].NewID},
			{ID: letters[1].ID, JobID: letters[1].JobID, NewID: out[0].NewID, Skipped: true},
			{ID: letters[2].ID, JobID: letters[2].JobID, NewID: out[0].NewID, Skipped: true},
		}, out)
		rivals, err := b.DeadRivals(t.Context(), store.DeadIDs(letters))
		require.NoError(t, err)
		require.ElementsMatch(t, out[1:], rivals)
		require.EqualValues(t, 2, b.count(t, `select count(*) from weir_dead`))
		require.Equal(t, letters[1], b.dead(t, letters[1].JobID))
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))
	})
}

func TestHoweverManyReplayALetterItHappensOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b, watch := setup(t, db), &watcher{}
		first := b.db.Open(t, store.Options{Clock: b.clock, Wrap: watch.wrap})
		insert := newGate(t)
		j := b.running(t, 1, newJob("a")) // without a unique key, which would prevent it as well
		b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Dead)}})
		letter := b.dead(t, j.UID)
		watch.intercept(insert.at("insert into"))
		var wg sync.WaitGroup
		replayed := make([][]store.Replayed, 4)
		replay := func(i int, s *store.Store) {
			wg.Go(func() {
				var err error
				if replayed[i], err = s.ReplayDead(t.Context(), revivals(letter), nil); err != nil {
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
		uids := b.bury(t, store.KindFailed, "a", "1", "2")
		counts := b.counted(t)
		s := b.db.Open(t, store.Options{Clock: b.clock, Wrap: faults.Wrap})
		for _, statement := range []string{`delete from \S*weir_dead\b`, `insert into \S*weir_dead_counts`, `insert into \S*weir_audit`} {
			faults.Fail(statement, 1)
			_, err := s.ReplayDead(t.Context(), revivals(b.dead(t, uids[0]), b.dead(t, uids[1])), &store.Act{Action: "dlq replay"})
			require.ErrorIs(t, err, storetest.ErrInjected, statement)
			require.ErrorContains(t, err, "replay 2 dead letters: ")
			require.EqualValues(t, 2, b.count(t, `select count(*) from weir_dead`))
			require.Zero(t, b.count(t, `select count(*) from weir_jobs`))
			require.Equal(t, counts, b.counted(t))
			require.Zero(t, b.count(t, `select count(*) from weir_audit`))
		}
	})
}

func TestAPurgeDeletesWhatItsIdsName(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uids := b.bury(t, store.KindFailed, "a", "1", "2", "3")
		n, err := b.PurgeDead(t.Context(), []int64{b.dead(t, uids[0]).ID, b.dead(t, uids[2]).ID, 1 << 61}, nil)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_dead`))
		require.NotZero(t, b.dead(t, uids[1]))
	})
}

func TestLettersAreFoundByTheirIdsAndThoseOfTheirJobsOnceEach(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uids := b.bury(t, store.KindFailed, "a", "1", "2", "3")
		one, two := b.dead(t, uids[0]), b.dead(t, uids[1])
		got, err := b.FindDead(t.Context(), []int64{one.ID, 1 << 61}, []string{uids[0], uids[1], newID()})
		require.NoError(t, err)
		name := func(d store.DeadLetter) store.DeadLetter {
			return store.DeadLetter{ID: d.ID, JobID: d.JobID, Kind: d.Kind, DeadAt: d.DeadAt, ArgsSize: d.ArgsSize}
		}
		require.ElementsMatch(t, []store.DeadLetter{name(one), name(two)}, got)
		whole, err := b.WholeDead(t.Context(), store.DeadIDs(got))
		require.NoError(t, err)
		require.ElementsMatch(t, []store.DeadLetter{one, two}, whole)
	})
}

func TestBatchesAreBoundedByNumberAndBySize(t *testing.T) {
	sizes := func(letters []store.DeadLetter) (out []int) {
		for batch := range store.DeadBatches(letters) {
			out = append(out, len(batch))
		}
		return out
	}
	require.Equal(t, []int{500, 500, 200}, sizes(make([]store.DeadLetter, 1200)))
	large := make([]store.DeadLetter, 10)
	for i := range large {
		large[i].ArgsSize = 1 << 20
	}
	large[0].ArgsSize = 100 << 20
	require.Equal(t, []int{1, 4, 4, 1}, sizes(large))
	require.Empty(t, sizes(nil))
}

func TestRetentionRemovesByAgeAndByCountFromTheOldest(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		sheds := b.bury(t, store.KindShed, "a", "r", "r")
		old := b.bury(t, store.KindFailed, "a", "1", "2")
		b.clock.Advance(time.Hour)
		b.fillDead(t, store.KindFailed, "b", 1203) // three batches
		b.clock.Advance(time.Second)
		young := b.bury(t, store.KindFailed, "a", "3", "4", "5")
		keep := func(age time.Duration, count int64) (byAge, byCount int64) {
			removed, err := b.KeepDead(t.Context(), store.KindFailed, age, count)
			require.NoError(t, err)
			return removed.ByAge, removed.ByCount
		}
		for _, c := range []struct {
			age            time.Duration
			count          int64
			byAge, byCount int64
		}{
			{0, 0, 0, 0},
			{2 * time.Hour, 2000, 0, 0},
			{time.Hour, 0, 2, 0},
			{time.Hour, 1206, 0, 0},
			{0, 2, 0, 1204},
		} {
			byAge, byCount := keep(c.age, c.count)
			require.Equal(t, c.byAge, byAge, "%v", c)
			require.Equal(t, c.byCount, byCount, "%v", c)
			b.requireCounted(t)
		}
		left, _, err := b.ListDead(t.Context(), store.DeadFilter{Limit: 10})
		require.NoError(t, err)
		require.Equal(t, []string{young[2], young[1], sheds[1], sheds[0]}, jobIDs(left))
		require.NotContains(t, jobIDs(left), old[0])
		removed, err := b.RemovedDead(t.Context())
		require.NoError(t, err)
		require.Equal(t, []store.Removed{{Kind: store.KindFailed, ByAge: 2, ByCount: 1204}}, removed)
	})
}

// Counts that somebody made wrong by hand must not cost what is young.
func TestRetentionByCountDecidesByTheRows(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.bury(t, store.KindFailed, "a", "1", "2", "3")
		b.exec(t, `update weir_dead_counts set count = 1000000`)
		removed, err := b.KeepDead(t.Context(), store.KindFailed, 0, 3)
		require.NoError(t, err)
		require.Zero(t, removed.ByCount)
		require.NoError(t, b.RecountDead(t.Context()))
		b.requireCounted(t)
	})
}

func TestWhatIsRetriedFailedLongEnoughAgoAndHasReplaysLeft(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.fillDead(t, store.KindShed, "a", 100_000)
		early := b.bury(t, store.KindFailed, "a", "1", "2", "rate_limit: so says the user")
		b.bury(t, store.KindFailed, "b", "not asked for")
		b.clock.Advance(time.Second)
		b.bury(t, store.KindFailed, "a", "too young")
		b.exec(t, `update weir_dead set replays = 3 where job_id = $1`, early[1])
		retryable := func(most, limit int) []string {
			rows, err := b.RetryableDead(t.Context(), []store.DeadRetry{{Task: "a", Before: b.now() - second, Most: most}, {Task: "none", Before: b.now(), Most: 9}}, limit)
			require.NoError(t, err)
			return jobIDs(rows)
		}
		require.ElementsMatch(t, []string{early[0], early[2]}, retryable(3, 10))
		require.ElementsMatch(t, early, retryable(4, 10))
		require.Empty(t, retryable(1, 10), "each was replayed once before")
		require.Len(t, retryable(4, 2), 2)

		holder := uniqueJob("a", b.dead(t, early[0]).UniqueKey.String)
		b.insert(t, holder)
		require.Equal(t, []string{early[2]}, retryable(3, 10), "a live job holds its unique key")
	})
}

func TestWhatOperatorsDoIsRecordedWithTheirNames(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{declared(t, "stripe", "9/s")}))
		uids := b.bury(t, store.KindFailed, "a", "1", "2", "3")
		ctx := store.WithActor(t.Context(), "ada@host")
		act := &store.Act{UID: newID(), Action: "dlq replay", Subject: "task=a", Detail: "rate 1/s"}
		for _, uid := range uids[:2] { // in two transactions
			_, err := b.ReplayDead(ctx, revivals(b.dead(t, uid)), act)
			require.NoError(t, err)
		}
		_, err := b.ReplayDead(ctx, revivals(store.DeadLetter{ID: 1 << 61}), act)
		require.NoError(t, err)
		n, err := b.ActCount(ctx, act.UID)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		b.clock.Advance(time.Second)
		_, err = b.PurgeDead(t.Context(), []int64{b.dead(t, uids[2]).ID}, &store.Act{Action: "dlq purge", Subject: "3"})
		require.NoError(t, err)
		_, err = b.SetOverride(ctx, "stripe", store.Override{Rate: "2/s", Burst: 5, For: 60 * second, Reason: "why"})
		require.NoError(t, err)
		_, err = b.UnsetOverride(ctx, "nobody's")
		require.NoError(t, err)
		require.NoError(t, b.PauseQueue(ctx, "mail", true))
		jobs := newJobs("a", 2)
		b.insert(t, jobs...)
		for i, by := range []string{"ada@host", ""} {
			cancelled, err := b.Cancel(store.WithActor(ctx, by), jobs[i].UID)
			require.NoError(t, err)
			require.True(t, cancelled)
		}

		all, err := b.Acts(ctx, store.ActFilter{Limit: 10})
		require.NoError(t, err)
		for i := range all {
			require.Positive(t, all[i].ID)
			all[i].ID = 0
		}
		at := b.now()
		require.Equal(t, []store.Recorded{
			{At: at, Actor: "ada@host", Action: "jobs cancel", Subject: jobs[0].UID, Count: 1},
			{At: at, Actor: "ada@host", Action: "queues pause", Subject: "mail", Count: 1},
			{At: at, Actor: "ada@host", Action: "limits set", Subject: "stripe", Detail: "2/s burst 5 for 1m0s: why", Count: 1},
			{At: at, Action: "dlq purge", Subject: "3", Count: 1},
			{At: at - second, Actor: "ada@host", Action: "dlq replay", Subject: "task=a", Detail: "rate 1/s", Count: 2},
		}, all)
		some, err := b.Acts(ctx, store.ActFilter{Actor: "ada@host", Action: "dlq replay", Limit: 10})
		require.NoError(t, err)
		require.Len(t, some, 1)
		some, err = b.Acts(ctx, store.ActFilter{Before: some[0].ID, Limit: 10})
		require.NoError(t, err)
		require.Empty(t, some)
	})
}

// fillDead makes many dead letters of a kind and a task at once, behind the
// store's back, and counts them as it does.
func (b *bundle) fillDead(t testing.TB, kind, task string, n int) {
	t.Helper()
	series, uid, args := `generate_series(1, $1) i`, `gen_random_uuid()`, `''`
	if b.db.Dialect == store.SQLite {
		series = `(with recursive s(i) as (select 1 union all select i + 1 from s where i < $1) select i from s)`
		uid, args = `lower(hex(randomblob(16)))`, `x''`
	}
	b.exec(t, `insert into weir_dead (job_id, kind, task, queue, reason, args, rank, attempt, deferrals, enqueued_at, first_due, dead_at, replays)
select `+uid+`, $2, $3, 'q', 'reason ' || (i % 3), `+args+`, 0, 0, 0, i, i, cast($4 as bigint) + i / 1000, 0 from `+series, n, kind, task, b.now())
	require.NoError(t, b.RecountDead(t.Context()))
}

func TestAReasonsClassIsTheFirstEightyBytesOfItsFirstLine(t *testing.T) {
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
		late := newJob("a")
		late.ExpiresAt = b.now()
		b.insert(t, late)
		b.turn(t, store.TurnRequest{Sweep: true})
		group := func(reason string, n int64) store.DeadCount {
			return store.DeadCount{Kind: store.KindFailed, Task: "a", Reason: reason, Count: n}
		}
		want := []store.DeadCount{
			{Kind: store.KindExpired, Task: "a", Reason: "expired: not started", Count: 1},
			group("boom", 3), group(long, 3),
			group("", 2), group(strings.Repeat("x", 79), 2), group(strings.Repeat("\u20ac", 26), 2), group(strings.Repeat("\U0001F600", 20), 2),
			group("x"+strings.Repeat("\U0001F600", 19), 1), group(strings.Repeat("\u20ac", 26)+"ab", 1),
			{Kind: store.KindFailed, Task: "b", Reason: "boom", Count: 1},
			{Kind: store.KindShed, Task: "a", Reason: "rate_limit: task:a 1/s", Count: 2},
		}
		for _, counted := range []string{"as they came", "anew"} {
			got, err := b.DeadStats(t.Context(), 100)
			require.NoError(t, err)
			require.Equal(t, want, got, counted)
			require.NoError(t, b.RecountDead(t.Context()))
		}
		got, err := b.DeadStats(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, got, 3, "the largest")
		hours, err := b.DeadHours(t.Context(), 1)
		require.NoError(t, err)
		hour := b.now() / (3600 * second)
		require.Equal(t, []store.DeadHour{{store.KindExpired, hour, 1}, {store.KindFailed, hour, 17}, {store.KindShed, hour, 2}}, hours)
		b.clock.Advance(time.Hour)
		hours, err = b.DeadHours(t.Context(), 1)
		require.NoError(t, err)
		require.Empty(t, hours)
	})
}

// The counts of a database from before they were kept are those of its rows.
func TestTheMigrationCountsWhatIsThere(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		db.Open(t, store.Options{})
		m, err := store.OpenForMigration(t.Context(), db.DSN, false)
		require.NoError(t, err)
		defer m.Close()
		for {
			status, err := m.MigrationStatus(t.Context())
			require.NoError(t, err)
			if i := slices.IndexFunc(status, func(s store.MigrationStatus) bool { return s.Name == "dead_letters" }); !status[i].Applied {
				break
			}
			require.NoError(t, m.MigrateDown(t.Context()))
		}
		b := &bundle{db: db, beside: db.SQL(t)}
		args := `''`
		if db.Dialect == store.SQLite {
			args = `x''`
		}
		for i, r := range []struct{ kind, reason string }{
			{"failed", "boom\nat 1"}, {"failed", "boom"}, {"failed", "x" + strings.Repeat("\u20ac", 40)}, {"shed", "rate_limit: x"}, {"expired", "expired: not started by 2026"},
		} {
			b.exec(t, `insert into weir_dead (job_id, kind, task, queue, reason, args, rank, attempt, deferrals, enqueued_at, first_due, dead_at, replays)
values ($1, $2, 'a', 'q', $3, `+args+`, 0, 0, 0, 1, 1, $4, 0)`, newID(), r.kind, r.reason, int64(i)*1800*second)
		}
		b.Store = db.Open(t, store.Options{})
		b.requireCounted(t)
		got, err := b.DeadStats(t.Context(), 9)
		require.NoError(t, err)
		require.Equal(t, []store.DeadCount{
			{"expired", "a", "expired: not started", 1}, {"failed", "a", "boom", 2}, {"failed", "a", "x" + strings.Repeat("\u20ac", 26), 1}, {"shed", "a", "rate_limit: x", 1},
		}, got)
	})
}
