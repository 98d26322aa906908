package store_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// inside opens a transaction beside the store, runs a statement in it, and
// returns what ends it.
func (b *bundle) inside(t testing.TB, query string, args ...any) (end func()) {
	t.Helper()
	tx, err := b.beside.BeginTx(context.WithoutCancel(t.Context()), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
	end = sync.OnceFunc(func() { require.NoError(t, tx.Commit()) })
	t.Cleanup(end)
	return end
}

// The one token is there for whoever looks first: the second look waits for
// the first and sees what it left.
func TestTurnsOnOneLimitComeOneAfterTheOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		s := open(t, db, store.Options{})
		other := open(t, db, store.Options{})
		d := declared(t, "task:a", "1000/h")
		require.NoError(t, s.Register(t.Context(), nil, []store.Declared{d}))
		const rounds = 10
		var mu sync.Mutex
		times := map[int64]bool{}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range rounds {
					_, err := []*store.Store{s, other}[i%2].Turn(t.Context(), store.TurnRequest{
						Limits: []store.Declared{d}, Admit: &spending{seen: func(now int64) {
							mu.Lock()
							defer mu.Unlock()
							times[now] = true
						}},
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		rows, err := s.Limits(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 4*rounds, rows[0].Started)
		require.EqualValues(t, (1000-4*rounds)*1_000_000, rows[0].Level)
		require.Len(t, times, 4*rounds, "each has a time of its own")
	})
}

// spending takes a token of the first limit by reading and writing it, and
// fails where time runs backwards.
type spending struct {
	admission
	seen func(now int64)
}

func (s *spending) Decide([][]store.Candidate) store.Plan {
	s.seen(s.now)
	l := s.limits[0]
	if s.now <= l.Stamp {
		return store.Plan{Save: []store.Limit{{Name: "an earlier look had a later time"}}}
	}
	l.Level, l.Stamp, l.Started = l.Level-1_000_000, s.now, l.Started+1
	return store.Plan{Save: []store.Limit{l}}
}

func TestTheClockIsReadAfterTheLimitIsLocked(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		s := b.db.Open(t, store.Options{}) // its clock is the real one
		limits := []store.Declared{declared(t, "a", "1/s"), declared(t, "b", "1/s")}
		require.NoError(t, s.Register(t.Context(), nil, limits))
		for _, held := range []string{"a", "b"} {
			release := b.inside(t, `update weir_limits set started = started + 1 where name = $1`, held)
			type answer struct {
				out store.TurnResult
				err error
			}
			done := make(chan answer, 1)
			a := &admission{}
			go func() {
				out, err := s.Turn(t.Context(), store.TurnRequest{Limits: limits, Admit: a})
				done <- answer{out, err}
			}()
			if db.Dialect == store.Postgres {
				b.blocked(t, 1)
			}
			before, err := s.Now(t.Context())
			require.NoError(t, err)
			release()
			got := <-done
			require.NoError(t, got.err)
			require.Greater(t, got.out.Now, before)
			require.Equal(t, got.out.Now, a.now)
			require.EqualValues(t, 1, a.limits[map[string]int{"a": 0, "b": 1}[held]].Started)
		}
	})
}

func TestALookLeavesOutRowsThatSomebodyElseHasLocked(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	b.insert(t, newJobs("a", 3)...)
	due := newJob("a")
	due.Delay = 1
	b.insert(t, due)
	lost := b.running(t, 1, newJob("c"))
	b.clock.Advance(lease)
	var first int64
	require.NoError(t, b.beside.QueryRowContext(t.Context(), `select min(id) from weir_jobs where state = 0`).Scan(&first))
	release := b.inside(t, `select 1 from weir_jobs where id in ($1, $2) or state = 2 for update`, first, lost.ID)

	out := b.turn(t, store.TurnRequest{Sweep: true, Claim: 2, Admit: &admission{asks: []store.Ask{ask("a", 2)}, decide: startAll}})
	require.Len(t, out.Started, 2)
	require.Greater(t, out.Started[0].ID, first)
	require.Zero(t, out.Swept.Promoted+out.Swept.Lost)
	release()
	out = b.turn(t, store.TurnRequest{Sweep: true, Claim: 3, Admit: &admission{asks: []store.Ask{ask("a", 2)}, decide: startAll}})
	require.Equal(t, []int64{first, first + 3}, []int64{out.Started[0].ID, out.Started[1].ID})
	require.Equal(t, 1, out.Swept.Promoted)
	require.Equal(t, 1, out.Swept.Lost)
}

// Both take the rows one by one, in orders of their own: where one waited for
// the other, each could come to wait for what the other has.
func TestARenewalNeverWaitsForResultsOfTheSameJobs(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	b.insert(t, newJobs("a", 3)...)
	jobs := b.grant(t, 1, "a", 3)
	held := make([]store.Held, 0, len(jobs))
	results := make([]store.Result, 0, len(jobs))
	for _, j := range slices.Backward(jobs) {
		held = append(held, store.Held{ID: j.ID, Claim: 1})
		results = append(results, end(j, store.Done))
	}
	release := b.inside(t, `select 1 from weir_jobs where id = $1 for update`, jobs[0].ID)
	done := make(chan error, 1)
	go func() {
		_, err := b.Turn(context.WithoutCancel(t.Context()), store.TurnRequest{Results: results})
		done <- err
	}()
	b.blocked(t, 1)
	kept, err := b.Renew(t.Context(), held, second)
	require.NoError(t, err)
	require.Len(t, kept, 3, "what is being written is still its own")
	require.Equal(t, lease.Microseconds(), kept[held[2]], "locked")
	release()
	require.NoError(t, <-done)
	require.Zero(t, b.count(t, `select count(*) from weir_jobs`))
}

func TestAWriterThatIsWaitedForCanBeGivenUp(t *testing.T) {
	b := setup(t, storetest.SQLite(t))
	for _, holder := range []string{"another process", "this process"} {
		var release func()
		if holder == "another process" {
			release = b.inside(t, `update weir_limits set started = 1`)
		} else {
			in, out := make(chan struct{}), make(chan struct{})
			done := make(chan error, 1)
			go func() {
				_, err := b.Turn(context.WithoutCancel(t.Context()), store.TurnRequest{Admit: &admission{decide: func([][]store.Candidate) store.Plan {
					close(in)
					<-out
					return store.Plan{}
				}}})
				done <- err
			}()
			<-in
			release = func() { close(out); require.NoError(t, <-done) }
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			_, err := b.Insert(ctx, newJobs("a", 1))
			errs <- err
		}()
		cancel()
		require.ErrorIs(t, <-errs, context.Canceled, holder)
		_, err := b.Cancel(ctx, newID())
		require.ErrorIs(t, err, context.Canceled, holder)
		release()
		b.insert(t, newJob("a"))
	}
}

// A process that is in the middle of a transaction when its caller goes away
// leaves no connection in it.
func TestAPanicInAdmissionEndsTheTransaction(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		j := b.running(t, 1, newJob("a"))
		for range 3 { // more than there are connections for turns
			require.PanicsWithValue(t, "no", func() {
				_, _ = b.Turn(t.Context(), store.TurnRequest{
					Results: []store.Result{end(j, store.Done)},
					Admit:   &admission{decide: func([][]store.Candidate) store.Plan { panic("no") }},
				})
			})
		}
		require.Equal(t, store.Running, b.stored(t, j.UID).State)
		require.Empty(t, b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Done)}}).Refused)
		b.requireNoTransactions(t)
	})
}

// requireNoTransactions fails where the store has left one open.
func (b *bundle) requireNoTransactions(t testing.TB) {
	t.Helper()
	if b.db.Dialect == store.SQLite {
		b.exec(t, `update weir_limits set started = started`)
		return
	}
	// An autovacuum gives way after a second, a transaction of the store's does not.
	b.inside(t, `set local lock_timeout = '5s'; lock table weir_jobs in access exclusive mode`)()
}
