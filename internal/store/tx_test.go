package store_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// everyCall runs each of the store's calls once, with something to do.
func everyCall(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	limits := []store.Declared{declared(t, "task:a", "9/s")}
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	must(s.Register(ctx, []store.Task{{Name: "a", Queue: "q", MaxRetries: 3, Definition: "{}"}}, limits))
	jobs := newJobs("a", 8)
	jobs[1].UniqueKey = newID()
	_, err := s.Insert(ctx, jobs)
	must(err)
	duplicate, repeat := uniqueJob("a", jobs[1].UniqueKey), jobs[0]
	repeat.Repeat = true
	for _, j := range []store.NewJob{newJob("a"), duplicate, repeat} {
		_, err = s.InsertOne(ctx, j)
		must(err)
	}
	_, err = s.Cancel(ctx, jobs[7].UID)
	must(err)
	_, err = s.Survey(ctx, []string{"a"}, []string{"task:a"})
	must(err)
	claim := int64(len(jobs[0].UID)) + s.Clock().Now().UnixNano()
	out, err := s.Turn(ctx, store.TurnRequest{
		Sweep: true, Limits: limits, Claim: claim, Lease: lease,
		Admit: &admission{asks: []store.Ask{ask("a", 7)}, decide: func(read [][]store.Candidate) store.Plan {
			c := ids(read[0])
			return store.Plan{Start: c[:5], Defer: c[5:6], Shed: []store.Shed{{ID: c[6], Reason: "r"}}}
		}},
	})
	must(err)
	require.Len(t, out.Started, 5)
	_, err = s.Claimed(ctx, claim)
	must(err)
	_, err = s.Renew(ctx, []store.Held{{ID: out.Started[0].ID, Claim: claim}}, second)
	must(err)
	var results []store.Result
	for i, j := range out.Started {
		results = append(results, end(j, []store.Outcome{store.Done, store.Dead, store.Retry, store.GiveBack, store.Interrupted}[i]))
	}
	_, err = s.Turn(ctx, store.TurnRequest{Results: results})
	must(err)
	for range 2 { // done, and as a late repeat
		_, err = s.Turn(ctx, store.TurnRequest{Results: results})
		must(err)
	}
	_, _, err = s.Get(ctx, jobs[0].UID)
	must(err)
	_, err = s.List(ctx, store.JobFilter{Limit: 10})
	must(err)
	_, err = s.Tasks(ctx)
	must(err)
	_, err = s.Limits(ctx)
	must(err)
	_, err = s.Lines(ctx)
	must(err)
	_, err = s.Queues(ctx)
	must(err)
	_, err = s.Now(ctx)
	must(err)
	plan := func(now int64, rows []*store.Schedule) []store.NewJob {
		hourly(now, rows[0])
		rows[0].NextTick = now
		return nil
	}
	must(s.DeclareSchedules(ctx, []string{"s"}, plan))
	_, err = s.FireSchedules(ctx, []string{"s"}, onTime)
	must(err)
	_, err = s.ChangeSchedule(ctx, "s", store.Act{Action: "schedules pause"}, func(int64, *store.Schedule) {})
	must(err)
	_, _, err = s.RunSchedule(ctx, "s", newID(), false)
	must(err)
	_, err = s.NextTick(ctx, []string{"s"})
	must(err)
	_, err = s.Schedules(ctx)
	must(err)
	dead, _, err := s.ListDead(ctx, store.DeadFilter{Limit: 10})
	must(err)
	require.NotEmpty(t, dead)
	_, _, err = s.GetDead(ctx, dead[0].ID)
	must(err)
	_, _, err = s.GetDeadByJob(ctx, dead[0].JobID)
	must(err)
	for _, f := range []store.DeadFilter{{Task: "a", Limit: 10}, {Queue: "q", Text: "x", Limit: 10}, {Task: "a", Queue: "q", Limit: 10, OldestFirst: true}} {
		_, _, err = s.NameDead(ctx, f)
		must(err)
		_, _, err = s.CountDead(ctx, f)
		must(err)
	}
	_, err = s.FindDead(ctx, store.DeadIDs(dead), []string{newID()})
	must(err)
	everyCallOfWindows(t, s)
	_, err = s.WholeDead(ctx, store.DeadIDs(dead))
	must(err)
	_, err = s.DeadStats(ctx, 10)
	must(err)
	_, err = s.DeadHours(ctx, 24)
	must(err)
	_, err = s.RetryableDead(ctx, []store.DeadRetry{{Task: "a", Before: 1 << 60, Most: 3}}, 10)
	must(err)
	_, err = s.DeadRivals(ctx, store.DeadIDs(dead))
	must(err)
	_, err = s.ReplayDead(ctx, []store.Revival{{ID: dead[0].ID, UID: newID()}}, &store.Act{Action: "dlq replay"})
	must(err)
	_, err = s.PurgeDead(ctx, store.DeadIDs(dead), &store.Act{Action: "dlq purge"})
	must(err)
	_, err = s.KeepDead(ctx, store.KindFailed, time.Hour, 1)
	must(err)
	_, err = s.RemovedDead(ctx)
	must(err)
	must(s.RecountDead(ctx))
	_, err = s.Acts(ctx, store.ActFilter{Limit: 10})
	must(err)
}

func TestAPoolOfOneOrTwoConnectionsDoesNotWaitForItself(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		for _, conns := range []int{1, 2} {
			s := open(t, db, store.Options{MaxConns: conns})
			everyCall(t, s)
			// Also where many want one at the same time.
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				wg.Go(func() {
					_, a := s.InsertOne(t.Context(), newJob("b"))
					_, b := s.Insert(t.Context(), []store.NewJob{uniqueJob("b", "k"), newJob("b")})
					_, c := s.List(t.Context(), store.JobFilter{Limit: 3})
					_, d := s.Turn(t.Context(), store.TurnRequest{Sweep: true})
					errs[i] = errors.Join(a, b, c, d)
				})
			}
			wg.Wait()
			require.NoError(t, errors.Join(errs...))
		}
	})
}

func TestEveryCallWorksWhateverTheDatabasesDefaultIsolation(t *testing.T) {
	server := storetest.Postgres(t)
	name := "weir_" + strings.ReplaceAll(newID(), "-", "")
	admin := server.SQL(t)
	exec := func(query string) {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), query)
		require.NoError(t, err)
	}
	exec(`create database ` + name)
	defer exec(`drop database ` + name + ` with (force)`)
	db := server.Another(t, name)
	for _, level := range []string{"repeatable read", "serializable"} {
		exec(`alter database ` + name + ` set default_transaction_isolation = '` + level + `'`)
		watch := &watcher{}
		one, other := db.Open(t, store.Options{Wrap: watch.wrap}), db.Open(t, store.Options{Wrap: watch.wrap})
		watch.reset()
		b := &bundle{Store: one, db: db, beside: db.SQL(t)}
		var have string
		require.NoError(t, b.beside.QueryRowContext(t.Context(), `show transaction_isolation`).Scan(&have))
		require.Equal(t, level, have)
		everyCall(t, one)

		// One limit, a token for each turn, from two stores at once.
		d := declared(t, level, "1000/h")
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() {
				for range 5 {
					_, err := []*store.Store{one, other}[i%2].Turn(t.Context(), store.TurnRequest{
						Limits: []store.Declared{d}, Admit: &spending{seen: func(int64) {}},
					})
					errs[i] = errors.Join(errs[i], err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.EqualValues(t, 20, b.limit(t, level).Started)
		require.Zero(t, watch.matching("rollback"), "nothing had to be tried again")
	}
}

func TestDeadlocksAndSerializationFailuresAreTriedAgainInPlace(t *testing.T) {
	for _, failure := range []*pq.Error{{Code: "40001", Message: "not now"}, {Code: "40P01", Message: "not now"}} {
		watch := &watcher{}
		s := open(t, storetest.Postgres(t), store.Options{Wrap: watch.wrap})
		failures := 3
		watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
			if strings.Contains(query, "insert into") && failures > 0 {
				failures--
				return failure
			}
			return nil
		})
		_, err := s.Insert(t.Context(), newJobs("a", 3))
		require.NoError(t, err)
		require.Zero(t, failures)

		failures = 1000 // it is not tried for ever
		_, err = s.Insert(t.Context(), newJobs("a", 3))
		require.ErrorContains(t, err, "not now")
		require.Equal(t, 1000-8, failures)
		watch.intercept(nil)
		lines, err := s.Lines(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 3, lines[0].Waiting)

		// A question alone fails, too, where the server's default is strict.
		failures = 3
		watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
			if strings.Contains(query, "weir_jobs") && failures > 0 {
				failures--
				return failure
			}
			return nil
		})
		lines, err = s.Lines(t.Context())
		require.NoError(t, err)
		require.Zero(t, failures)
		require.EqualValues(t, 3, lines[0].Waiting)
		failures = 1000
		_, err = s.Lines(t.Context())
		require.ErrorContains(t, err, "not now")
		require.Equal(t, 1000-8, failures)
	}
}

// A real one: two transactions that lock two rows in opposite order.
func TestADeadlockWithTheCallersOwnTransactionIsSurvived(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	first, second := uniqueJob("a", "1"), uniqueJob("a", "2")
	tx, err := b.beside.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = b.InsertTx(t.Context(), tx, []store.NewJob{first}, false)
	require.NoError(t, err)
	done := make(chan error, 1)
	ours := []store.NewJob{uniqueJob("a", "2"), uniqueJob("a", "1")}
	go func() {
		_, err := b.Insert(context.WithoutCancel(t.Context()), ours)
		done <- err
	}()
	b.blocked(t, 1)
	_, err = tx.ExecContext(t.Context(), `set local deadlock_timeout = '1h'`) // the other one finds it
	require.NoError(t, err)
	_, err = b.InsertTx(t.Context(), tx, []store.NewJob{second}, false)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	require.NoError(t, <-done)
	require.EqualValues(t, 2, b.count(t, `select count(*) from weir_jobs`))
}

// After a restart of the server the pool is full of connections that are dead,
// and no write was begun on them: nobody needs to know.
func TestWritesSurviveTheLossOfAllIdleConnections(t *testing.T) {
	db := storetest.Postgres(t).Direct()
	const conns = 5
	b := &bundle{db: db, beside: db.SQL(t)}
	name := newID() // of these connections: there are others on the server
	s, err := store.Open(t.Context(), db.DSN+"&application_name="+name, store.Options{MaxConns: conns, Migrate: true})
	require.NoError(t, err)
	defer s.Close()
	gate := b.inside(t, `lock table weir_jobs in access exclusive mode`)
	var wg sync.WaitGroup
	for range conns { // as many at once, so that the pool is full
		wg.Go(func() {
			if _, err := s.Insert(t.Context(), newJobs("a", 1)); err != nil {
				t.Error(err)
			}
		})
	}
	b.blocked(t, conns)
	gate()
	wg.Wait()
	_, err = s.Turn(t.Context(), store.TurnRequest{Sweep: true})
	require.NoError(t, err)
	killed := b.count(t, `select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = $1`, name)
	require.EqualValues(t, conns+1, killed)
	_, err = s.Insert(t.Context(), newJobs("a", 1))
	require.NoError(t, err)
	_, err = s.Turn(t.Context(), store.TurnRequest{Sweep: true})
	require.NoError(t, err)
}

// standby makes connections to a server that may not write, as long as it says
// so.
type standby struct {
	driver.Connector
	yes  *atomic.Bool
	made *atomic.Int64
}

func (c standby) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err == nil && c.yes.Load() {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, `set default_transaction_read_only = on`, nil)
	}
	c.made.Add(1)
	return conn, err
}

// After a failover the connections that are there lead to a server that may not
// write, and new ones to the primary: nobody needs to know.
func TestWritesGoRoundAServerThatIsThePrimaryNoLonger(t *testing.T) {
	const conns = 5
	db := storetest.Postgres(t).Direct() // a pooler would keep what is set
	db.Open(t, store.Options{})          // makes the tables
	var demoted atomic.Bool
	var made atomic.Int64
	demoted.Store(true)
	s := db.Open(t, store.Options{MaxConns: conns, Wrap: func(c driver.Connector) driver.Connector { return standby{c, &demoted, &made} }})
	fill(t, s, conns)

	// One that is so everywhere says so, soon.
	before := made.Load()
	_, err := s.Insert(t.Context(), newJobs("a", 1))
	require.ErrorContains(t, err, "read-only transaction")
	require.ErrorContains(t, err, ": name the primary in the DSN, or see why its operator has made this server, database or role read-only")
	_, err = s.Turn(t.Context(), store.TurnRequest{Lease: lease, Limits: []store.Declared{declared(t, "task:a", "9/s")}, Admit: &admission{}})
	require.ErrorContains(t, err, "read-only transaction")
	require.LessOrEqual(t, made.Load()-before, int64(6))
	require.ErrorContains(t, s.Join(t.Context(), store.Process{ID: newID()}, store.TokenBucket, time.Second), ": name the primary in the DSN")

	fill(t, s, conns)
	demoted.Store(false)
	before = made.Load()
	everyCall(t, s)
	require.LessOrEqual(t, made.Load()-before, int64(conns), "not one for each call")
}

func TestAConnectionThatBreaksInATransactionIsNotUsedAgain(t *testing.T) {
	b, watch := setup(t, storetest.Postgres(t)), &watcher{}
	s := b.db.Open(t, store.Options{Wrap: watch.wrap, MaxConns: 1})
	var broken *watchedConn
	watch.intercept(func(ctx context.Context, conn driver.Conn, query string, _ []driver.NamedValue) error {
		if strings.Contains(query, "insert into") && broken == nil {
			all := watch.all()
			broken = all[len(all)-1].conn
			pid, err := backend(ctx, conn)
			if err == nil {
				_, err = b.beside.ExecContext(ctx, `select pg_terminate_backend($1, 10000)`, pid)
			}
			return err
		}
		return nil
	})
	_, err := s.Insert(t.Context(), newJobs("a", 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown) // it never came to a commit
	watch.reset()
	_, err = s.Insert(t.Context(), newJobs("a", 1))
	require.NoError(t, err)
	for _, seen := range watch.all() {
		require.NotSame(t, broken, seen.conn)
	}
}

// Whatever the driver thinks of a connection: one whose rollback failed may
// still be in its transaction.
func TestAConnectionThatCannotBeRolledBackIsNotUsedAgain(t *testing.T) {
	b, watch := setup(t, storetest.Postgres(t)), &watcher{}
	s := b.db.Open(t, store.Options{Wrap: watch.wrap, MaxConns: 1})
	watch.reset()
	watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
		if strings.Contains(query, "insert into") || query == "rollback" {
			return storetest.ErrInjected
		}
		return nil
	})
	_, err := s.Insert(t.Context(), newJobs("a", 1))
	require.ErrorIs(t, err, storetest.ErrInjected)
	stuck := watch.all()[0].conn
	watch.reset()
	watch.intercept(nil)
	_, err = s.Insert(t.Context(), newJobs("a", 1))
	require.NoError(t, err)
	for _, seen := range watch.all() {
		require.NotSame(t, stuck, seen.conn)
	}
}

func TestACommitWhoseConnectionBreaksHasAnUnknownOutcome(t *testing.T) {
	b, watch := setup(t, storetest.Postgres(t)), &watcher{}
	s := b.db.Open(t, store.Options{Wrap: watch.wrap})
	watch.intercept(func(ctx context.Context, conn driver.Conn, query string, _ []driver.NamedValue) error {
		if query != "commit" {
			return nil
		}
		pid, err := backend(ctx, conn)
		if err == nil {
			_, err = b.beside.ExecContext(ctx, `select pg_terminate_backend($1, 10000)`, pid)
		}
		return err
	})
	_, err := s.Insert(t.Context(), newJobs("a", 1))
	require.ErrorIs(t, err, store.ErrOutcomeUnknown)
	watch.intercept(nil)
	_, err = s.Insert(t.Context(), newJobs("a", 1))
	require.NoError(t, err)
}

// backend is the server's process behind a connection.
func backend(ctx context.Context, conn driver.Conn) (pid int64, err error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, `select pg_backend_pid()`, nil)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	row := make([]driver.Value, 1)
	if err := rows.Next(row); err != nil {
		return 0, err
	}
	return row[0].(int64), nil
}

// everyCallOfWindows makes those that the other strategy needs.
func everyCallOfWindows(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	must(s.DeclareQuotas(ctx, []store.DeclaredQuota{{Name: "window", Quota: bucket.Quota{Count: 1, Period: time.Second}}}))
	rows, err := s.Windows(ctx, []string{"window"})
	must(err)
	require.Len(t, rows, 1)
	id := store.WindowID{Name: "window", ID: rows[0].ID}
	_, err = s.CountWindows(ctx, []store.WindowID{id})
	must(err)
	_, err = s.ProbeWindow(ctx, id)
	must(err)
	_, err = s.RollWindows(ctx, []store.WindowID{id}, false)
	must(err)
	w := &windowed{save: []store.SavedWindow{{Name: "window"}}}
	_, err = s.Turn(ctx, store.TurnRequest{Windows: []string{"window"}, Admit: w})
	must(err)
	_, err = s.Quotas(ctx)
	must(err)
	_, _, err = s.Quota(ctx, "window")
	must(err)
	p := store.Process{ID: "p"}
	must(s.Join(ctx, p, store.TokenBucket, time.Second))
	stayed, err := s.Stay(ctx, p, time.Second)
	must(err)
	require.True(t, stayed)
	must(s.ForgetGone(ctx))
	_, err = s.Processes(ctx)
	must(err)
	must(s.Leave(ctx, p.ID))
	_, err = s.SwitchStrategy(ctx, store.FixedWindow)
	must(err)
	_, err = s.SwitchStrategy(ctx, store.TokenBucket)
	must(err)
	_, err = s.Strategy(ctx)
	must(err)
}
