package store_test

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// A transaction that reads first and writes later cannot wait for the lock:
// SQLite answers "database is locked" at once.
func TestEveryWriteOfSQLiteBeginsAsAWriter(t *testing.T) {
	watch := &watcher{}
	s := storetest.SQLite(t).Open(t, store.Options{Wrap: watch.wrap})
	watch.reset()
	everyCall(t, s)
	committed, inTransaction := 0, map[*watchedConn]bool{}
	writers := map[*watchedConn]bool{}
	for _, seen := range watch.all() {
		verb, _, _ := strings.Cut(seen.text, " ")
		verb = strings.Fields(verb)[0]
		switch verb {
		case "begin":
			require.Equal(t, "begin immediate", seen.text)
			inTransaction[seen.conn] = true
			writers[seen.conn] = true
		case "commit", "rollback":
			if verb == "commit" {
				committed++
			}
			inTransaction[seen.conn] = false
		case "insert", "update", "delete":
			require.True(t, inTransaction[seen.conn], "outside a transaction: %s", seen.text)
		case "select", "with", "pragma":
		default:
			require.Fail(t, "what does this do?", seen.text)
		}
	}
	require.Len(t, writers, 1, "there is one writer")
	require.Equal(t, 30, committed) // as many as everyCall has calls that write
}

func TestAWriteWaitsForAnotherProcessThatWrites(t *testing.T) {
	watch := &watcher{}
	db := storetest.SQLite(t)
	s := db.Open(t, store.Options{Wrap: watch.wrap})
	b := &bundle{Store: s, db: db, beside: db.SQL(t)}
	release := b.inside(t, `update weir_limits set started = 1`)
	begun := make(chan struct{}, 1000)
	watch.intercept(func(_ context.Context, _ driver.Conn, query string, _ []driver.NamedValue) error {
		if query == "begin immediate" {
			begun <- struct{}{}
		}
		return nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := s.Turn(context.WithoutCancel(t.Context()), store.TurnRequest{Sweep: true})
		done <- err
	}()
	<-begun
	<-begun                                                  // it was told that it has to wait, and asks again
	_, err := s.List(t.Context(), store.JobFilter{Limit: 1}) // readers do not wait
	require.NoError(t, err)
	release()
	require.NoError(t, <-done)
}

func TestManyWritersInManyStoresOnOneFileNeverFindItLocked(t *testing.T) {
	db := storetest.SQLite(t)
	var wg sync.WaitGroup
	const stores, each = 3, 40
	for range stores {
		s := db.Open(t, store.Options{})
		for i := range 2 {
			wg.Go(func() {
				for range each {
					var err error
					if i == 0 {
						_, err = s.InsertOne(t.Context(), newJob("a"))
					} else {
						_, err = s.Turn(t.Context(), store.TurnRequest{Sweep: true, Limits: []store.Declared{declared(t, "l", "1/s")}, Admit: &admission{}})
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	b := &bundle{beside: db.SQL(t)}
	require.EqualValues(t, stores*each, b.count(t, `select count(*) from weir_jobs`))
}

func TestALockThatAnotherProcessKeepsIsGivenUpInTheEnd(t *testing.T) {
	db := storetest.SQLite(t)
	db.DSN += "?_pragma=busy_timeout(50)"
	s := db.Open(t, store.Options{})
	b := &bundle{Store: s, db: db, beside: storetest.Database{Dialect: db.Dialect, DSN: strings.TrimSuffix(db.DSN, "?_pragma=busy_timeout(50)")}.SQL(t)}
	release := b.inside(t, `update weir_limits set started = 1`)
	_, err := s.Insert(t.Context(), newJobs("a", 1))
	require.ErrorContains(t, err, "insert 1 jobs: begin: the database is locked: another process has been writing for 50ms")
	release()
	b.insert(t, newJob("a"))
}

// A process that begins again as soon as it has committed would keep another
// out for seconds: SQLite's wait for the lock polls ever more seldom.
func TestAProcessThatWritesAllTheTimeLetsTheOthersWriteToo(t *testing.T) {
	db := storetest.SQLite(t)
	watch := &watcher{}
	busy, other := db.Open(t, store.Options{Wrap: watch.wrap}), db.Open(t, store.Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := busy.Insert(context.WithoutCancel(t.Context()), newJobs("a", 1)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	insert := func(n int) {
		for range n {
			_, err := other.Insert(t.Context(), newJobs("b", 1))
			require.NoError(t, err)
		}
	}
	require.Eventually(t, func() bool { return watch.matching("commit") > 5 }, time.Minute, time.Millisecond, "it writes")
	insert(5) // now they know of each other
	watch.reset()
	insert(40)
	commits := watch.matching("commit")
	close(stop)
	wg.Wait()
	require.Less(t, commits, 4*40)
	require.Greater(t, commits, 40/4)
}

// The file's journal is made a WAL while another program still reads the file
// as it was: SQLite says busy at once, and the store tries again.
func TestOpeningWaitsForAReaderOfTheFileAsItWas(t *testing.T) {
	db := storetest.SQLite(t)
	beside := db.SQL(t)
	_, err := beside.ExecContext(t.Context(), `create table app (id integer)`)
	require.NoError(t, err)
	tx, err := beside.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.QueryRowContext(t.Context(), `select count(*) from app`).Scan(new(int)))
	failed := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		s, err := store.Open(context.WithoutCancel(t.Context()), db.DSN+"?_pragma=busy_timeout(1)", store.Options{
			Migrate: true,
			Wrap:    func(c driver.Connector) driver.Connector { return &noticing{Connector: c, failed: failed} },
		})
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	<-failed
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-done)
}

// noticing closes failed when a connection cannot be made.
type noticing struct {
	driver.Connector
	failed chan struct{}
	once   sync.Once
}

func (n *noticing) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := n.Connector.Connect(ctx)
	if err != nil {
		n.once.Do(func() { close(n.failed) })
	}
	return conn, err
}

// countedConns counts the connections that are open.
type countedConns struct {
	driver.Connector
	open *atomic.Int64
}

func (c countedConns) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedConn{watchedConn{Conn: conn, watch: &watcher{}}, c.open}, nil
}

type countedConn struct {
	watchedConn
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.open.Add(-1)
	return c.watchedConn.Close()
}

func TestAStoreThatCannotBeOpenedLeavesNoConnectionBehind(t *testing.T) {
	for _, pattern := range []string{`sqlite_stat1`, `busy_timeout`} {
		db, faults := storetest.SQLite(t), &storetest.Faults{}
		db.Open(t, store.Options{})
		var open atomic.Int64
		faults.Fail(pattern, 1)
		_, err := store.Open(t.Context(), db.DSN, store.Options{Wrap: func(c driver.Connector) driver.Connector {
			return faults.Wrap(countedConns{c, &open})
		}})
		require.ErrorIs(t, err, storetest.ErrInjected, pattern)
		require.ErrorContains(t, err, "cannot be opened for writing")
		require.Zero(t, open.Load(), pattern)
	}
}
