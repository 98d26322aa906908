package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// gate holds the first statement that begins like one of those until it is
// opened, at the latest when the test ends.
type gate struct {
	reached, opened chan struct{}
	once            sync.Once
	open            func()
}

func newGate(t testing.TB) *gate {
	t.Helper()
	g := &gate{reached: make(chan struct{}), opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(g.open)
	return g
}

func (g *gate) at(prefixes ...string) func(context.Context, driver.Conn, string, []driver.NamedValue) error {
	return func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
		query = strings.TrimSpace(query)
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(query, p) }) {
			g.once.Do(func() {
				close(g.reached)
				<-g.opened
			})
		}
		return nil
	}
}

func TestInsertsThatArriveDuringACommitShareTheNext(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch := &watcher{}
		s := open(t, db, store.Options{Wrap: watch.wrap})
		commit := newGate(t)
		watch.reset()
		watch.intercept(commit.at("commit"))
		errs := make([]error, 50)
		out := make([]store.Inserted, 50)
		jobs := newJobs("a", 50)
		var wg sync.WaitGroup
		insert := func(i int) {
			wg.Go(func() { out[i], errs[i] = s.InsertOne(t.Context(), jobs[i]) })
		}
		insert(0)
		<-commit.reached
		for i := 1; i < len(jobs); i++ {
			insert(i)
		}
		require.Eventually(t, func() bool { return s.PendingForTest() == 49 }, waitFor, tick)
		commit.open()
		wg.Wait()
		for i := range jobs {
			require.NoError(t, errs[i])
			require.Equal(t, store.Inserted{UID: jobs[i].UID}, out[i])
		}
		require.Equal(t, 2, watch.matching("commit"))
		lines, err := s.Lines(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 50, lines[0].Waiting)
	})
}

// Who was answered a moment ago is waited for, a fourth of what the commit took,
// so that all go together into the next one.
func TestCallersThatComeBackAtOnceShareTheNextCommit(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch, fake := &watcher{}, clock.NewFake(noon)
		s := open(t, db, store.Options{Wrap: watch.wrap, Clock: fake})
		s.SetPatienceForTest(time.Hour)
		commit := newGate(t)
		watch.reset()
		watch.intercept(commit.at("commit"))
		jobs := newJobs("a", 4)
		var wg sync.WaitGroup
		insert := func(jobs ...store.NewJob) {
			wg.Go(func() {
				for _, job := range jobs {
					_, err := s.InsertOne(t.Context(), job)
					require.NoError(t, err)
				}
			})
		}
		insert(jobs[0], jobs[1])
		<-commit.reached
		insert(jobs[2])
		require.Eventually(t, func() bool { return s.PendingForTest() == 1 }, waitFor, tick)
		fake.Advance(time.Hour)
		commit.open()
		wg.Wait()
		require.Equal(t, 2, watch.matching("commit"))

		// Nobody else comes, and the clock stands still.
		_, err := s.InsertOne(t.Context(), jobs[3])
		require.NoError(t, err)
		require.Equal(t, 3, watch.matching("commit"))
	})
}

func TestCallersThatDoNotComeBackAreWaitedForLessOften(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch, fake := &watcher{}, clock.NewFake(noon)
		s := open(t, db, store.Options{Wrap: watch.wrap, Clock: fake})
		watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
			if strings.HasPrefix(query, "commit") {
				fake.Advance(time.Hour)
			}
			return nil
		})
		insert := func() {
			_, err := s.InsertOne(t.Context(), newJob("a"))
			require.NoError(t, err)
		}
		passes := func(want int) {
			t.Helper()
			require.Eventually(t, func() bool { return s.PassesForTest() == want }, waitFor, tick)
		}
		for _, vain := range []int{2, 4, 8, 16, 16} {
			s.SetPatienceForTest(tick) // nobody comes back within it
			insert()
			passes(vain)
			s.SetPatienceForTest(time.Hour) // who waited now would never go on
			for left := vain - 1; left >= 0; left-- {
				insert()
				passes(left)
			}
		}
	})
}

func TestAJobThatCannotBeStoredDoesNotTakeItsGroupAlong(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch := &watcher{}
		s := open(t, db, store.Options{Wrap: watch.wrap})
		commit := newGate(t)
		if db.Dialect == store.SQLite {
			_, err := db.SQL(t).ExecContext(t.Context(),
				`create trigger test_refuse before insert on weir_jobs when new.uid = 'no' begin select raise(abort, 'refused'); end`)
			require.NoError(t, err)
		}
		watch.intercept(commit.at("commit"))
		jobs := newJobs("a", 10)
		jobs[5].UID = "no"
		errs := make([]error, len(jobs))
		var wg sync.WaitGroup
		wg.Go(func() { _, errs[0] = s.InsertOne(t.Context(), jobs[0]) })
		<-commit.reached
		for i := 1; i < len(jobs); i++ {
			wg.Go(func() { _, errs[i] = s.InsertOne(t.Context(), jobs[i]) })
		}
		require.Eventually(t, func() bool { return s.PendingForTest() == 9 }, waitFor, tick)
		commit.open()
		wg.Wait()
		for i := range jobs {
			if i == 5 {
				require.ErrorContains(t, errs[i], "insert 1 jobs: ")
				continue
			}
			require.NoError(t, errs[i])
		}
		lines, err := s.Lines(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 9, lines[0].Waiting)
	})
}

// The caller goes; what it asked for is under way all the same, and the others
// in its group get their answers.
func TestAnInsertThatIsGivenUpDoesNotHoldUpTheOthers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch := &watcher{}
		s := open(t, db, store.Options{Wrap: watch.wrap})
		commit := newGate(t)
		watch.intercept(commit.at("commit"))
		impatient, stay := newJob("a"), newJob("a")
		ctx, cancel := context.WithCancel(t.Context())
		insert := func(ctx context.Context, job store.NewJob) <-chan error {
			answer := make(chan error, 1)
			go func() {
				_, err := s.InsertOne(ctx, job)
				answer <- err
			}()
			return answer
		}
		gone := insert(ctx, impatient)
		<-commit.reached
		stays := insert(t.Context(), stay)
		require.Eventually(t, func() bool { return s.PendingForTest() == 1 }, waitFor, tick)
		cancel()
		require.ErrorIs(t, <-gone, context.Canceled)
		commit.open()
		require.NoError(t, <-stays)
		_, found, err := s.Get(t.Context(), impatient.UID)
		require.NoError(t, err)
		require.True(t, found)

		_, err = s.InsertOne(ctx, newJob("a"))
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.Insert(ctx, newJobs("a", 3))
		require.ErrorIs(t, err, context.Canceled)
		lines, err := s.Lines(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, lines[0].Waiting)
	})
}

// The end of a context in the middle of a bulk insert leaves nothing behind,
// neither rows nor a connection that is in a transaction.
func TestABulkInsertThatIsCutOffStoresNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		watch := &watcher{}
		s := open(t, db, store.Options{Wrap: watch.wrap, MaxConns: 1})
		ctx, cancel := context.WithCancel(t.Context())
		statements := 0
		watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
			if strings.Contains(query, "insert into") {
				if statements++; statements == 2 {
					cancel()
				}
			}
			return nil
		})
		_, err := s.Insert(ctx, newJobs("a", 5000))
		require.ErrorIs(t, err, context.Canceled)
		watch.intercept(nil)
		lines, err := s.Lines(t.Context())
		require.NoError(t, err)
		require.Empty(t, lines)
		_, err = s.Insert(t.Context(), newJobs("a", 5))
		require.NoError(t, err)
	})
}

func TestAnInsertInTheCallersTransactionSharesItsFate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.exec(t, `create table orders (id bigint)`)
		defer b.exec(t, `drop table orders`)
		require.NoError(t, b.Register(t.Context(), []store.Task{{Name: "a", Queue: "mail", Definition: "{}"}}, nil))
		woken := 0
		defer b.OnWake(func(store.Wake) { woken++ })()
		inTx := func(end func(*sql.Tx) error) (uids []string) {
			tx, err := b.beside.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), `insert into orders values (1)`)
			require.NoError(t, err)
			jobs := []store.NewJob{{UID: newID(), Task: "a", Args: []byte{0, 255}}, uniqueJob("a", "k"), uniqueJob("a", "k")}
			jobs[0].Repeat = true
			out, err := b.InsertTx(t.Context(), tx, jobs, false)
			require.NoError(t, err)
			require.Equal(t, []store.Inserted{{UID: jobs[0].UID}, {UID: jobs[1].UID}, {UID: jobs[1].UID, Duplicate: true}}, out)
			require.Zero(t, woken)
			require.NoError(t, end(tx))
			return []string{out[0].UID, out[1].UID}
		}
		for _, uid := range inTx((*sql.Tx).Rollback) {
			_, found, err := b.Get(t.Context(), uid)
			require.NoError(t, err)
			require.False(t, found)
		}
		require.Zero(t, b.count(t, `select count(*) from orders`))
		stored := inTx((*sql.Tx).Commit)
		require.Equal(t, []byte{0, 255}, b.stored(t, stored[0]).Args)
		require.Equal(t, "mail", b.stored(t, stored[0]).Queue)
		require.EqualValues(t, 1, b.count(t, `select count(*) from orders`))
		require.Zero(t, woken, "nobody here knows of the commit")
	})
}

func TestAGroupKeepsNothingOfWhatItHasStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		insert := func() weak.Pointer[byte] {
			job := newJob("a")
			job.Args = make([]byte, 1<<20)
			_, err := b.InsertOne(t.Context(), job)
			require.NoError(t, err)
			return weak.Make(&job.Args[0])
		}
		args := insert()
		for range 3 {
			runtime.GC()
		}
		require.Nil(t, args.Value())
	})
}
