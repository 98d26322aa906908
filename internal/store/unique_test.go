package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func uniqueJob(task, key string) store.NewJob {
	j := newJob(task)
	j.UniqueKey = key
	return j
}

func TestAUniqueKeyLetsOneJobOfATaskLive(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		first := uniqueJob("a", "k")
		jobs := []store.NewJob{first, uniqueJob("a", "k"), uniqueJob("a", "K"), uniqueJob("b", "k"), uniqueJob("a", "k"), newJob("a"), newJob("a")}
		out, err := b.Insert(t.Context(), jobs)
		require.NoError(t, err)
		duplicate := store.Inserted{UID: first.UID, Duplicate: true}
		require.Equal(t, []store.Inserted{
			{UID: first.UID}, duplicate, {UID: jobs[2].UID}, {UID: jobs[3].UID}, duplicate, {UID: jobs[5].UID}, {UID: jobs[6].UID},
		}, out)
		require.EqualValues(t, 5, b.count(t, `select count(*) from weir_jobs`))

		// Against one that lives, whatever its state.
		duplicates := func() {
			t.Helper()
			out, err := b.Insert(t.Context(), []store.NewJob{uniqueJob("a", "k")})
			require.NoError(t, err)
			require.Equal(t, []store.Inserted{duplicate}, out)
			one, err := b.InsertOne(t.Context(), uniqueJob("a", "k"))
			require.NoError(t, err)
			require.Equal(t, duplicate, one)
		}
		duplicates()
		started := b.grant(t, 1, "a", 1)
		require.Equal(t, first.UID, started[0].UID)
		duplicates()
		retry := end(started[0], store.Retry)
		retry.Delay = second
		b.turn(t, store.TurnRequest{Results: []store.Result{retry}})
		require.Equal(t, store.Scheduled, b.stored(t, first.UID).State)
		duplicates()
	})
}

func TestTheEndOfAJobFreesItsUniqueKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		for name, finish := range map[string]func(store.Job){
			"completed": func(j store.Job) { b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Done)}}) },
			"failed":    func(j store.Job) { b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Dead)}}) },
			"lost for good": func(j store.Job) {
				b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.DeadLost)}})
			},
			"cancelled": func(j store.Job) {
				was, err := b.Cancel(t.Context(), j.UID)
				require.NoError(t, err)
				require.True(t, was)
			},
			"shed": func(j store.Job) {
				b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.GiveBack)}, Admit: &admission{
					asks:   []store.Ask{ask("a", 1)},
					decide: func([][]store.Candidate) store.Plan { return store.Plan{Shed: []store.Shed{{ID: j.ID, Reason: "r"}}} },
				}})
			},
		} {
			job := uniqueJob("a", "k")
			j := b.running(t, int64(len(name)), job)
			finish(j)
			b.requireOnce(t, job.UID)
			again := uniqueJob("a", "k")
			b.insert(t, again)
			was, err := b.Cancel(t.Context(), again.UID)
			require.NoError(t, err)
			require.True(t, was, name)
		}
	})
}

func TestFiftyInsertsOfOneKeyAtOnceMakeOneJobThatAllCanRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		s := open(t, db, store.Options{})
		out, errs := make([]store.Inserted, 50), make([]error, 50)
		var wg sync.WaitGroup
		for i := range out {
			wg.Go(func() { out[i], errs[i] = s.InsertOne(t.Context(), uniqueJob("a", "k")) })
		}
		wg.Wait()
		fresh := 0
		for i := range out {
			require.NoError(t, errs[i])
			require.Equal(t, out[0].UID, out[i].UID)
			if !out[i].Duplicate {
				fresh++
			}
		}
		require.Equal(t, 1, fresh)
		_, found, err := s.Get(t.Context(), out[0].UID)
		require.NoError(t, err)
		require.True(t, found)
	})
}

// Two calls that name the same keys in opposite order wait for each other; the
// database ends one of them, which is run again.
func TestBulkInsertsOfTheSameKeysInOppositeOrderBothSucceed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		s := open(t, db, store.Options{})
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() {
				jobs := make([]store.NewJob, 300)
				for k := range jobs {
					n := k
					if i%2 == 1 {
						n = len(jobs) - 1 - k
					}
					jobs[k] = uniqueJob("a", string(rune('A'+n)))
				}
				_, errs[i] = s.Insert(t.Context(), jobs)
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		lines, err := s.Lines(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 300, lines[0].Waiting)
	})
}

func TestARepeatedInsertAnswersWithTheJobWhereverItIs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		repeat := func(j store.NewJob) {
			t.Helper()
			j.Repeat = true
			j.Args = []byte("changed")
			want := store.Inserted{UID: j.UID, Existed: true}
			one, err := b.InsertOne(t.Context(), j)
			require.NoError(t, err)
			require.Equal(t, want, one)
			out, err := b.Insert(t.Context(), []store.NewJob{j, newJob("b"), j})
			require.NoError(t, err)
			require.Equal(t, want, out[0])
			require.False(t, out[1].Existed)
			require.Equal(t, want, out[2])
			b.requireOnce(t, j.UID)
		}
		live := newJob("a")
		b.insert(t, live)
		repeat(live)
		require.Equal(t, live.Args, b.stored(t, live.UID).Args)
		started := b.grant(t, 1, "a", 1)
		repeat(live)
		b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Done)}})
		repeat(live)
		require.Equal(t, store.Completed, b.stored(t, live.UID).State)

		dead := newJob("a")
		b.turn(t, store.TurnRequest{Results: []store.Result{end(b.running(t, 2, dead), store.Dead)}})
		repeat(dead)

		cancelled := newJob("a")
		b.insert(t, cancelled)
		_, err := b.Cancel(t.Context(), cancelled.UID)
		require.NoError(t, err)
		repeat(cancelled)
		require.Equal(t, store.Cancelled, b.stored(t, cancelled.UID).State)
	})
}

func TestARepeatOfWhatWasNeverStoredStoresIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := newJob("a")
		job.Repeat = true
		out, err := b.Insert(t.Context(), []store.NewJob{job, job, newJob("a"), job})
		require.NoError(t, err)
		existed := store.Inserted{UID: job.UID, Existed: true}
		require.Equal(t, []store.Inserted{{UID: job.UID}, existed, {UID: out[2].UID}, existed}, out)
		b.requireOnce(t, job.UID)
	})
}

// An id that stands twice in one call, the first time refused for its unique
// key, is refused the second time too.
func TestTheSameIdTwiceInOneCallIsDecidedOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		holder, job := uniqueJob("a", "k"), uniqueJob("a", "k")
		job.Repeat = true
		b.insert(t, holder)
		out, err := b.Insert(t.Context(), []store.NewJob{job, job})
		require.NoError(t, err)
		duplicate := store.Inserted{UID: holder.UID, Duplicate: true}
		require.Equal(t, []store.Inserted{duplicate, duplicate}, out)
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))
	})
}

// The first try commits after the second has looked for its job, which then
// ends before the second looks again: it must not come to life twice.
func TestARepeatThatMeetsItsFirstTryDoesNotStoreTheJobTwice(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	job := newJob("a")
	watch, looks := &watcher{}, 0
	second := b.db.Open(t, store.Options{Clock: b.clock, Wrap: watch.wrap})
	watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
		switch {
		case strings.Contains(query, "insert into"):
			b.insert(t, job)
		case strings.Contains(query, "where uid = any"):
			if looks++; looks == 2 {
				started := b.grant(t, 1, "a", 1)
				b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Done)}})
			}
		}
		return nil
	})
	repeat := job
	repeat.Repeat = true
	out, err := second.Insert(t.Context(), []store.NewJob{repeat})
	require.NoError(t, err)
	require.Equal(t, []store.Inserted{{UID: job.UID, Existed: true}}, out)
	require.Equal(t, 2, looks)
	b.requireOnce(t, job.UID)
}

// The first try commits and its job ends after the second has looked for it:
// nothing shows any more that the id is taken but the job's last place.
func TestARepeatWhoseJobEndsJustBeforeItIsStoredIsTakenBack(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	watch := &watcher{}
	second := b.db.Open(t, store.Options{Clock: b.clock, Wrap: watch.wrap})
	for name, finish := range map[string]func(store.Job){
		"completed": func(j store.Job) { b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Done)}}) },
		"failed":    func(j store.Job) { b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Dead)}}) },
		"cancelled": func(j store.Job) {
			was, err := b.Cancel(t.Context(), j.UID)
			require.NoError(t, err)
			require.True(t, was)
		},
	} {
		repeat, ended := uniqueJob("a", "k"), false
		watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
			if strings.Contains(query, "insert into") && !ended {
				ended = true
				finish(b.running(t, int64(len(name)), repeat))
			}
			return nil
		})
		var wakes []store.Wake
		cancel := second.OnWake(func(w store.Wake) { wakes = append(wakes, w) })
		again := repeat
		again.Repeat = true
		out, err := second.Insert(t.Context(), []store.NewJob{again})
		cancel()
		require.NoError(t, err)
		require.True(t, ended)
		require.Equal(t, []store.Inserted{{UID: repeat.UID, Existed: true}}, out, name)
		require.Empty(t, wakes)
		b.requireOnce(t, repeat.UID)

		// Who lost to the row that was taken back is stored instead.
		ended = false
		repeat = uniqueJob("a", "k")
		again = repeat
		again.Repeat = true
		other := uniqueJob("a", "k")
		out, err = second.Insert(t.Context(), []store.NewJob{again, other})
		require.NoError(t, err)
		require.Equal(t, []store.Inserted{{UID: repeat.UID, Existed: true}, {UID: other.UID}}, out, name)
		b.requireOnce(t, repeat.UID)
		was, err := b.Cancel(t.Context(), other.UID)
		require.NoError(t, err)
		require.True(t, was)
	}
}

// A snapshot does not show that a job has ended since.
func TestARepeatInASnapshotIsRefused(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	for level, refused := range map[sql.IsolationLevel]bool{
		sql.LevelDefault: false, sql.LevelReadCommitted: false, sql.LevelRepeatableRead: true, sql.LevelSerializable: true,
	} {
		tx, err := b.beside.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		repeat, fresh := newJob("a"), newJob("a")
		repeat.Repeat = true
		_, err = b.InsertTx(t.Context(), tx, []store.NewJob{newJob("a"), repeat}, false)
		if refused {
			require.ErrorIs(t, err, store.ErrSnapshot, level)
		} else {
			require.NoError(t, err)
		}
		_, err = b.InsertTx(t.Context(), tx, []store.NewJob{fresh}, false)
		require.NoError(t, err, "the transaction is as good as before")
		require.NoError(t, tx.Commit())
		require.Equal(t, map[bool]int64{true: 1, false: 3}[refused], b.count(t, `select count(*) from weir_jobs`), level)
		b.exec(t, `delete from weir_jobs`)
	}
}
