package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestAnInsertStoresEveryFieldAsItWasGiven(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		retries := 0
		job := store.NewJob{
			UID: newID(), Task: "send: é 邮件", Queue: `q/"'%_\`, Args: []byte(`{"a":1}`), Metadata: `{"a":"\u0000"}`,
			Priority: 100, ExpiresIn: 5 * second, UniqueKey: "key ü", MaxRetries: &retries, Timeout: 7,
		}
		b.insert(t, job)
		got := b.stored(t, job.UID)
		require.Positive(t, got.ID)
		require.Equal(t, store.Job{
			ID: got.ID, UID: job.UID, Task: job.Task, Queue: job.Queue, State: store.Waiting, Rank: -100,
			FirstDue: b.now(), RunAt: b.now(), EnqueuedAt: b.now(), ExpiresAt: number(b.now() + 5*second),
			MaxRetries: number(0), Timeout: number(7), UniqueKey: text("key ü"), Args: job.Args, ArgsSize: 7,
			Metadata: text(job.Metadata),
		}, got)
	})
}

// What a job has that others have not comes to it alone, whichever others stand
// beside it, on Weir's own connections and on those of callers, whose drivers
// send parameters as text.
func TestAnInsertNamesWhatSomeOfItsJobsHave(t *testing.T) {
	retries := 7
	odd := []string{`plain`, ``, `NULL`, `"`, `\`, `{a,b}`, `, `, ` `, "a\tb\nc", `é 邮件 🎯`}
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Register(t.Context(), []store.Task{{Name: "a", Queue: "home", Definition: "{}"}}, nil))
		type unusual struct {
			with func(*store.NewJob)
			want func(*store.Job)
		}
		cases := []unusual{
			{func(*store.NewJob) {}, func(*store.Job) {}},
			{func(j *store.NewJob) { j.Queue = "named" }, func(j *store.Job) { j.Queue = "named" }},
			{func(j *store.NewJob) { j.Priority = -100 }, func(j *store.Job) { j.Rank = 100 }},
			{func(j *store.NewJob) { j.Delay = 5 }, func(j *store.Job) { j.State, j.FirstDue, j.RunAt = store.Scheduled, b.now()+5, b.now()+5 }},
			{func(j *store.NewJob) { j.RunAt = 5 }, func(j *store.Job) { j.RunAt = 5 }},
			{func(j *store.NewJob) { j.ExpiresIn = 5 }, func(j *store.Job) { j.ExpiresAt = number(b.now() + 5) }},
			{func(j *store.NewJob) { j.ExpiresAt = 1 << 60 }, func(j *store.Job) { j.ExpiresAt = number(1 << 60) }},
			{func(j *store.NewJob) { j.Metadata = `{"a":"\\"}` }, func(j *store.Job) { j.Metadata = text(`{"a":"\\"}`) }},
			{func(j *store.NewJob) { j.MaxRetries = &retries }, func(j *store.Job) { j.MaxRetries = number(7) }},
			{func(j *store.NewJob) { j.Timeout = 1 << 50 }, func(j *store.Job) { j.Timeout = number(1 << 50) }},
		}
		for i, value := range odd {
			args := append([]byte(value), 0, 255, byte(i))
			cases = append(cases, unusual{
				func(j *store.NewJob) { j.Queue, j.Args = "q"+value, args },
				func(j *store.Job) { j.Queue, j.Args, j.ArgsSize = "q"+value, args, int64(len(args)) },
			})
		}
		batch := func(key string) (jobs []store.NewJob) {
			for i, c := range cases {
				job := store.NewJob{UID: newID(), Task: "a"}
				if key != "" {
					job.UniqueKey = key + odd[i%len(odd)] + strings.Repeat("x", i)
				}
				c.with(&job)
				jobs = append(jobs, job)
			}
			return jobs
		}
		check := func(jobs []store.NewJob) {
			t.Helper()
			for i, c := range cases {
				got := b.stored(t, jobs[i].UID)
				want := store.Job{
					ID: got.ID, UID: jobs[i].UID, Task: "a", Queue: "home", State: store.Waiting,
					FirstDue: b.now(), RunAt: b.now(), EnqueuedAt: b.now(), Args: []byte{},
				}
				if jobs[i].UniqueKey != "" {
					want.UniqueKey = text(jobs[i].UniqueKey)
				}
				c.want(&want)
				if len(got.Args) == 0 {
					got.Args = []byte{}
				}
				require.Equal(t, want, got, i)
			}
		}
		for _, key := range []string{"", "key"} {
			jobs := batch(key)
			b.insert(t, jobs...)
			check(jobs)
			for _, job := range batch(key + "alone") {
				b.insert(t, job)
			}
			jobs = batch(key + "caller's")
			_, err := b.InsertTx(t.Context(), b.beside, jobs, false)
			require.NoError(t, err)
			check(jobs)
		}
	})
}

func TestWhatIsUnsetIsStoredAsMissing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uid := b.insert(t, store.NewJob{UID: newID(), Task: "a"})[0]
		got := b.stored(t, uid)
		require.Empty(t, got.Args)
		require.Equal(t, store.Job{
			ID: got.ID, UID: uid, Task: "a", Queue: "default", State: store.Waiting,
			FirstDue: b.now(), RunAt: b.now(), EnqueuedAt: b.now(), Args: got.Args,
		}, got)
	})
}

func TestJobsAreStoredInTheOrderOfTheCall(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var want []string
		for range 3 {
			want = append(want, b.insert(t, newJobs("a", 120)...)...)
		}
		var got []string
		for _, j := range b.grant(t, 1, "a", 1000) {
			got = append(got, j.UID)
		}
		require.Equal(t, want, got)
	})
}

func TestAJobWithoutAQueueGetsTheTasksAsLastRegistered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		queueOf := func(task, option string) string {
			return b.stored(t, b.insert(t, store.NewJob{UID: newID(), Task: task, Queue: option})[0]).Queue
		}
		require.Equal(t, "default", queueOf("mail", ""))
		for _, queue := range []string{"first", "second"} {
			require.NoError(t, b.Register(t.Context(), []store.Task{{Name: "mail", Queue: queue, Definition: "{}"}}, nil))
			require.Equal(t, queue, queueOf("mail", ""))
			require.Equal(t, "option", queueOf("mail", "option"))
			require.Equal(t, "default", queueOf("Mail", ""))
		}
	})
}

func TestAJobsTimeDecidesItsStateAndItsPlace(t *testing.T) {
	far := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
	before := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		now := b.now()
		for name, c := range map[string]struct {
			job      store.NewJob
			state    store.State
			firstDue int64
			runAt    int64
		}{
			"no time":              {store.NewJob{}, store.Waiting, now, now},
			"a delay":              {store.NewJob{Delay: 1}, store.Scheduled, now + 1, now + 1},
			"a time to come":       {store.NewJob{RunAt: now + 1}, store.Scheduled, now + 1, now + 1},
			"this very moment":     {store.NewJob{RunAt: now}, store.Waiting, now, now},
			"a time that passed":   {store.NewJob{RunAt: now - 1}, store.Waiting, now, now - 1},
			"before 1970":          {store.NewJob{RunAt: -1}, store.Waiting, now, -1},
			"the year 1":           {store.NewJob{RunAt: before}, store.Waiting, now, before},
			"the year 9999":        {store.NewJob{RunAt: far}, store.Scheduled, far, far},
			"the end of a second":  {store.NewJob{RunAt: now + second - 1}, store.Scheduled, now + second - 1, now + second - 1},
			"a delay of a century": {store.NewJob{Delay: 36_500 * 86_400 * second}, store.Scheduled, now + 36_500*86_400*second, now + 36_500*86_400*second},
		} {
			c.job.UID, c.job.Task = newID(), "a"
			got := b.stored(t, b.insert(t, c.job)[0])
			require.Equal(t, c.state, got.State, name)
			require.Equal(t, c.firstDue, got.FirstDue, name)
			require.Equal(t, c.runAt, got.RunAt, name)
			require.Equal(t, now, got.EnqueuedAt, name)
		}
		uid := b.insert(t, store.NewJob{UID: newID(), Task: "a", ExpiresAt: far})[0]
		require.Equal(t, number(far), b.stored(t, uid).ExpiresAt)
	})
}

func TestFarTimesListAndPromoteInTheRightOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var uids []string
		for _, at := range []time.Time{
			time.Date(2037, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC),
			time.Date(2262, 4, 11, 23, 47, 16, 854_775_000, time.UTC),
			time.Date(2262, 4, 11, 23, 47, 17, 0, time.UTC),
			time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		} {
			uids = append(uids, b.insert(t, store.NewJob{UID: newID(), Task: "a", Queue: "q", RunAt: at.UnixMicro()})[0])
		}
		for _, uid := range uids {
			due := b.stored(t, uid).RunAt
			require.Equal(t, due, b.turn(t, store.TurnRequest{Sweep: true}).Swept.Due)
			for b.now() < due { // a Duration spans 292 years
				b.clock.Advance(time.UnixMicro(due).Sub(b.clock.Now()))
			}
			require.Equal(t, 1, b.turn(t, store.TurnRequest{Sweep: true}).Swept.Promoted)
			started := b.grant(t, due, "a", 10)
			require.Len(t, started, 1)
			require.Equal(t, uid, started[0].UID)
			b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Done)}})
		}
	})
}

func TestArgumentsComeBackByteForByte(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		for name, args := range map[string][]byte{
			"nil": nil, "empty": {}, "one NUL": {0}, "all bytes": all, "not UTF-8": {0xff, 0xfe}, "a backslash": []byte(`\x41`),
			"an escaped NUL": []byte(`{"a":"\u0000"}`), "the size of a page": bytes.Repeat([]byte{0xab}, 8000), "a MiB and one": bytes.Repeat(all, 4097),
		} {
			job := store.NewJob{UID: newID(), Task: "a", Queue: "q", Args: args}
			started := b.running(t, int64(len(name)), job)
			require.True(t, bytes.Equal(args, started.Args), name)
			require.True(t, bytes.Equal(args, b.stored(t, job.UID).Args), name)
			b.turn(t, store.TurnRequest{Results: []store.Result{end(started, store.Done)}})
			require.True(t, bytes.Equal(args, b.stored(t, job.UID).Args), name)
			require.EqualValues(t, len(args), b.stored(t, job.UID).ArgsSize, name)
		}
	})
}

func TestFortyThousandJobsAreStoredInOneCall(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 40_000)
		jobs[7].UniqueKey, jobs[39_998].UniqueKey, jobs[39_999].UniqueKey = "k", "k", "k"
		out, err := b.Insert(t.Context(), jobs)
		require.NoError(t, err)
		for i := range jobs[:39_998] {
			require.Equal(t, store.Inserted{UID: jobs[i].UID}, out[i])
		}
		duplicate := store.Inserted{UID: jobs[7].UID, Duplicate: true}
		require.Equal(t, []store.Inserted{duplicate, duplicate}, out[39_998:])
		require.EqualValues(t, 39_998, b.count(t, `select count(*) from weir_jobs`))
		require.EqualValues(t, 39_998, b.count(t, `select count(distinct id) from weir_jobs where task = 'a' and queue = 'q'`))
	})
}

func TestACallThatFailsLateStoresNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 2500)
		jobs[2400].UID = "" // no UUID, and no text that is not empty
		if db.Dialect == store.SQLite {
			b.exec(t, `create trigger test_refuse before insert on weir_jobs when new.uid = '' begin select raise(abort, 'no'); end`)
		}
		_, err := b.Insert(t.Context(), jobs)
		require.ErrorContains(t, err, "insert 2500 jobs: ")
		require.Zero(t, b.count(t, `select count(*) from weir_jobs`))
		b.insert(t, jobs[:2400]...)
	})
}

func TestLargeArgumentsGoInStatementsOfFourMiB(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch := &watcher{}
		s := open(t, db, store.Options{Wrap: watch.wrap})
		jobs := newJobs("a", 4)
		for i, size := range []int{2 << 20, 1 << 20, 1, 4<<20 + 1} { // the last is more than a statement's worth alone
			jobs[i].Args = make([]byte, size)
		}
		jobs[1].Metadata = `{"a":"` + strings.Repeat("a", 1<<20-8) + `"}` // it counts, too
		watch.reset()
		_, err := s.Insert(t.Context(), jobs)
		require.NoError(t, err)
		require.Equal(t, 3, watch.matching("insert into"))
		got, found, err := s.Get(t.Context(), jobs[3].UID)
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, 4<<20+1, got.ArgsSize)
	})
}

func TestNoStatementCarriesMoreThanAThousandJobs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch := &watcher{}
		s := open(t, db, store.Options{Wrap: watch.wrap})
		watch.reset()
		_, err := s.Insert(t.Context(), newJobs("a", 2001))
		require.NoError(t, err)
		want := 3
		if db.Dialect == store.SQLite {
			want = 35 // 15 of 64, one of 32 and one of 8, twice, and one of 1
		}
		require.Equal(t, want, watch.matching("insert into"))
		require.Less(t, watch.mostArgs(), 32_766)
		require.Equal(t, 1, watch.matching("begin"), "all or none")
		require.Equal(t, 1, watch.matching("commit"))
	})
}

func TestAnInsertWakesTheSchedulersOfItsProcess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var wakes []store.Wake
		cancel := b.OnWake(func(w store.Wake) { wakes = append(wakes, w) })
		b.insert(t, newJob("a"), newJob("a"))
		later, sooner := newJob("a"), newJob("a")
		later.Delay, sooner.Delay = 2*second, second
		b.insert(t, later, sooner)
		b.insert(t)
		require.Equal(t, []store.Wake{
			{Lines: []store.Line{{Task: "a", Queue: "q"}}},
			{Due: b.now() + second},
		}, wakes)
		cancel()
		b.insert(t, newJob("a"))
		require.Len(t, wakes, 2)
	})
}

// Ids lose digits where they pass through a 32-bit or a floating point number,
// and nowhere else up to the last.
func TestLargeRowIdsKeepAllTheirDigits(t *testing.T) {
	for _, next := range []int64{1<<31 - 2, 1<<32 - 2, 1<<53 + 1, 1<<63 - 5} {
		t.Run(fmt.Sprint(next), func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				b := setup(t, db)
				b.insert(t, newJob("a"))
				b.nextID(t, next)
				defer b.nextID(t, 1)
				b.insert(t, newJobs("a", 4)...)
				started := b.grant(t, 1<<62+1, "a", 4)
				require.Len(t, started, 4)
				var results []store.Result
				var held []store.Held
				for i, j := range started {
					require.Equal(t, next+int64(i), j.ID)
					require.Equal(t, number(1<<62+1), j.Claim)
					held = append(held, store.Held{ID: j.ID, Claim: j.Claim.Int64})
					results = append(results, end(j, []store.Outcome{store.Done, store.Dead, store.Retry, store.GiveBack}[i]))
				}
				kept, err := b.Renew(t.Context(), held, second)
				require.NoError(t, err)
				require.Len(t, kept, 4)
				require.Empty(t, b.turn(t, store.TurnRequest{Results: results}).Refused)
				page, err := b.List(t.Context(), store.JobFilter{Before: next + 3, Limit: 2})
				require.NoError(t, err)
				require.Equal(t, []int64{next + 2, next}, []int64{page[0].ID, page[1].ID})
			})
		})
	}
}

// nextID empties the jobs' table and sets the id that the next one gets.
func (b *bundle) nextID(t testing.TB, next int64) {
	t.Helper()
	if b.db.Dialect == store.SQLite {
		b.exec(t, fmt.Sprintf(`update sqlite_sequence set seq = %d where name = 'weir_jobs'`, next-1))
	} else {
		b.exec(t, fmt.Sprintf(`alter table weir_jobs alter column id restart with %d`, next))
	}
	b.exec(t, `delete from weir_jobs`)
}

// In the transaction of a caller, all or none of its jobs are stored, too.
func TestAnIDThatIsTakenInACallersTransactionLosesNoOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 120)
		b.insert(t, jobs[110])
		tx, err := b.beside.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		out, err := b.InsertTx(t.Context(), tx, jobs, false)
		if db.Dialect == store.Postgres {
			require.Error(t, err)
			require.Error(t, tx.Commit())
			require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))
			return
		}
		require.NoError(t, err)
		require.Equal(t, store.Inserted{UID: jobs[110].UID, Existed: true}, out[110])
		require.NoError(t, tx.Commit())
		require.EqualValues(t, 120, b.count(t, `select count(*) from weir_jobs`))
	})
}

// A transaction that does not say at its beginning that it will write waits for
// SQLite's writer only with its first statement.
func TestAnInsertInATransactionOfSQLitesOrdinaryKindWaitsForTheWriter(t *testing.T) {
	db := storetest.SQLite(t)
	b := setup(t, db)
	path, _, _ := strings.Cut(strings.TrimPrefix(b.db.DSN, "sqlite:"), "?")
	callers, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer callers.Close()
	again := newJob("a")
	again.Repeat = true
	for _, jobs := range [][]store.NewJob{{newJob("a")}, {again}, {uniqueJob("a", "k")}} {
		writer, err := b.beside.BeginTx(t.Context(), nil) // immediate
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			done <- func() error {
				tx, err := callers.BeginTx(t.Context(), nil)
				if err != nil {
					return err
				}
				if _, err := b.InsertTx(t.Context(), tx, jobs, false); err != nil {
					return errors.Join(err, tx.Rollback())
				}
				return tx.Commit()
			}()
		}()
		select {
		case err := <-done:
			require.NoError(t, err, "it did not wait")
		case <-time.After(50 * time.Millisecond): // it waits, or has not begun: both are right
		}
		require.NoError(t, writer.Commit())
		require.NoError(t, <-done)
	}
	require.EqualValues(t, 3, b.count(t, `select count(*) from weir_jobs`))
}

func TestTheJobsOfAnInsertAreEnqueuedAtOneMoment(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		_, err := b.db.Open(t, store.Options{}).Insert(t.Context(), newJobs("a", 1000))
		require.NoError(t, err)
		require.EqualValues(t, 1, b.count(t, `select count(distinct enqueued_at) from weir_jobs`))
	})
}

// Ids that were just made are not looked for, unless one is in the way.
func TestAnIDThatIsTakenAgainstAllExpectationIsFound(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 3)
		b.insert(t, jobs[1])
		out, err := b.Insert(t.Context(), jobs)
		require.NoError(t, err)
		require.Equal(t, []store.Inserted{{UID: jobs[0].UID}, {UID: jobs[1].UID, Existed: true}, {UID: jobs[2].UID}}, out)
		require.EqualValues(t, 3, b.count(t, `select count(*) from weir_jobs`))
	})
}
