package store_test

import (
	"context"
	"database/sql/driver"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// listener hears what other processes make ready.
type listener struct {
	mu    sync.Mutex
	wakes []store.Wake
	told  []error
}

func (l *listener) wake(w store.Wake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakes = append(l.wakes, w)
}

func (l *listener) tell(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, err)
}

// take waits for a wake that is as wanted and forgets the ones before.
func (l *listener) take(t *testing.T, wanted func(store.Wake) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for i, w := range l.wakes {
			if wanted(w) {
				l.wakes = l.wakes[i+1:]
				return true
			}
		}
		return false
	}, waitFor, tick)
}

func (l *listener) hears(t *testing.T, times int) {
	t.Helper()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		n := 0
		for _, err := range l.told {
			if err == nil {
				n++
			}
		}
		return n >= times
	}, waitFor, tick)
}

// watching is a process that listens on the database of b.
func watching(t *testing.T, s *store.Store) *listener {
	t.Helper()
	l := &listener{}
	cancelWakes := s.OnWake(l.wake)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watch sync.WaitGroup
	watch.Go(func() { s.Watch(ctx, l.tell) })
	t.Cleanup(func() {
		stop()
		watch.Wait()
		cancelWakes()
	})
	return l
}

func looks(w store.Wake) bool { return w.Look }

func TestOneProcessHearsWhatOthersMakeReady(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		here, there := b.db.Direct().Open(t, store.Options{}), b.db.Open(t, store.Options{})
		require.NoError(t, here.Register(t.Context(), []store.Task{{Name: "a", Queue: "q", Definition: "{}"}}, []store.Declared{declared(t, "l", "1/s")}))
		l := watching(t, here)
		named := func(due bool) func(store.Wake) bool {
			return func(w store.Wake) bool {
				if db.Dialect == store.SQLite {
					return w.Look
				}
				return due && w.Due != 0 || !due && len(w.Lines) == 1 && w.Lines[0] == store.Line{Task: "a", Queue: "q"}
			}
		}
		if db.Dialect == store.Postgres {
			l.hears(t, 1)
			l.take(t, looks) // what came while nobody listened
		} else {
			for first := true; first; { // until it looks for the first time
				_, err := there.Insert(t.Context(), newJobs("a", 1))
				require.NoError(t, err)
				l.mu.Lock()
				first = len(l.wakes) == 0
				l.mu.Unlock()
			}
		}
		_, err := there.Insert(t.Context(), newJobs("a", 3))
		require.NoError(t, err)
		l.take(t, named(false))
		later := newJob("a")
		later.Delay = second
		_, err = there.Insert(t.Context(), []store.NewJob{later})
		require.NoError(t, err)
		l.take(t, named(true))
		_, err = there.PauseLimit(t.Context(), "l", true)
		require.NoError(t, err)
		l.take(t, looks)

		tx, err := b.beside.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = here.InsertTx(t.Context(), tx, newJobs("a", 2), true)
		require.NoError(t, err)
		require.NoError(t, tx.Commit())
		l.take(t, named(false))

		many := make([]store.NewJob, 200) // more than fits into one notice
		for i := range many {
			many[i] = newJob(strings.Repeat("x", 200) + string(rune(1000+i)))
		}
		_, err = there.Insert(t.Context(), many)
		require.NoError(t, err)
		l.take(t, looks)
	})
}

func TestAListenerWhoseConnectionIsLostListensAgainAndLooks(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	l := watching(t, b.db.Direct().Open(t, store.Options{}))
	for round := 1; round <= 3; round++ {
		l.hears(t, round)
		l.take(t, looks)
		require.Positive(t, b.count(t, `select count(pg_terminate_backend(pid)) from pg_stat_activity
			where query ilike 'listen%' || md5(current_schema()) || '%' and pid <> pg_backend_pid()`))
	}
	l.hears(t, 4)
	_, err := b.Insert(t.Context(), newJobs("a", 1))
	require.NoError(t, err)
	l.take(t, func(w store.Wake) bool { return len(w.Lines) == 1 })
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := 0
	for _, err := range l.told {
		if err != nil {
			require.ErrorContains(t, err, "listen: the connection was lost")
			lost++
		}
	}
	require.Equal(t, 3, lost, "told once each time")
}

// TCP would find that out hours later.
func TestAListenerWhoseConnectionDiesInSilenceListensAgain(t *testing.T) {
	relay, relayed := storetest.Relayed(t, storetest.Postgres(t).Direct())
	s := relayed.Open(t, store.Options{Silence: time.Second})
	l := watching(t, s)
	l.hears(t, 1)
	relay.Silence()
	l.hears(t, 2)
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := slices.DeleteFunc(slices.Clone(l.told), func(err error) bool { return err == nil })
	require.NotEmpty(t, lost)
	for _, err := range lost {
		require.ErrorContains(t, err, "listen: ")
		require.NotErrorIs(t, err, store.ErrDeaf, "it did hear")
	}
}

// pooled hands all connections the one session that it has, as a pooler in
// transaction mode does that nobody else uses.
type pooled struct {
	driver.Connector
	mu      sync.Mutex
	session driver.Conn
}

func (p *pooled) Connect(ctx context.Context) (_ driver.Conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == nil {
		p.session, err = p.Connector.Connect(ctx)
	}
	return client{p.session}, err
}

type client struct{ driver.Conn }

func (client) Close() error { return nil }

func (c client) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// A LISTEN would be heard by nobody, and would stay with a session that others
// get.
func TestNobodyListensBehindAPoolerInTransactionMode(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	var poolers []*pooled
	s := b.db.Direct().Open(t, store.Options{Wrap: func(c driver.Connector) driver.Connector {
		p := &pooled{Connector: c}
		poolers = append(poolers, p)
		return p
	}})
	l := &listener{}
	require.NoError(t, ends(t, "watch", func() error { s.Watch(t.Context(), l.tell); return nil }))
	require.Equal(t, []error{store.ErrDeaf}, l.told)
	for _, p := range poolers {
		if p.session != nil {
			require.NoError(t, p.session.Close())
		}
	}
}

func TestAnythingMayComeOverTheChannel(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	l := watching(t, b.db.Direct().Open(t, store.Options{}))
	l.hears(t, 1)
	l.take(t, looks)
	for _, junk := range []string{``, `{`, `[]`, `{"lines": [["a"]]}`, `{"lines": [[1, 2]]}`, `{"due": "x"}`, `{"due": 1e300}`} {
		b.exec(t, `select pg_notify('weir_' || md5(current_schema()), $1)`, junk)
		if junk == `{"lines": [["a"]]}` {
			l.take(t, func(w store.Wake) bool { return len(w.Lines) == 1 })
			continue
		}
		l.take(t, looks)
	}
}
