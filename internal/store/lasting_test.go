package store_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// turnOver has a few jobs inserted, started, kept, looked around for and completed,
// by all lasting statements of PostgreSQL's but few.
func (b *bundle) turnOver(t *testing.T, claim int64) {
	t.Helper()
	limits := []store.Declared{declared(t, "l1", "9/s"), declared(t, "l2", "9/s")}
	require.NoError(t, b.Register(t.Context(), nil, limits))
	b.insert(t, newJobs("mail", 5)...)
	_, err := b.InsertOne(t.Context(), newJob("mail"))
	require.NoError(t, err)
	out := b.turn(t, store.TurnRequest{
		Limits: limits, Gates: []string{"queue:q", "task:mail"}, Claim: claim, Lease: time.Minute,
		Admit: &admission{asks: []store.Ask{ask("mail", 6), ask("none", 9)}, decide: func(read [][]store.Candidate) store.Plan {
			return store.Plan{Start: ids(read[0])}
		}},
	})
	require.Len(t, out.Started, 6)
	held, results := make([]store.Held, 6), make([]store.Result, 6)
	for i, j := range out.Started {
		held[i], results[i] = store.Held{ID: j.ID, Claim: claim}, end(j, store.Done)
	}
	kept, err := b.Renew(t.Context(), held, 3600*second)
	require.NoError(t, err)
	require.Len(t, kept, 6)
	require.Empty(t, b.turn(t, store.TurnRequest{Results: results}).Refused)
	_, err = b.Survey(t.Context(), []string{"mail", "throttled1", "none"}, []string{"l1"})
	require.NoError(t, err)
}

// askNumber asks a connection for one.
func askNumber(ctx context.Context, conn driver.Conn, query string) (int64, error) {
	rows, err := queryAll(ctx, conn, query, nil)
	if err != nil {
		return 0, err
	}
	return rows[0][0].(int64), nil
}

// prepared is what connections have prepared when they are asked for something.
type prepared struct{ statements, twice, planned int64 }

// preparing notes that of each connection.
func (w *watcher) preparing() map[driver.Conn]prepared {
	counts := map[driver.Conn]prepared{}
	w.intercept(func(ctx context.Context, conn driver.Conn, text string, _ []driver.NamedValue) error {
		if beside(text) {
			return nil
		}
		rows, err := queryAll(ctx, conn, `
select count(*), count(*) - count(distinct statement), coalesce(sum(custom_plans), 0)::bigint from pg_prepared_statements`, nil)
		if err == nil {
			w.mu.Lock()
			counts[conn] = prepared{rows[0][0].(int64), rows[0][1].(int64), rows[0][2].(int64)}
			w.mu.Unlock()
		}
		return err
	})
	return counts
}

// beside tells what goes on beside the test's own calls.
func beside(text string) bool {
	return strings.Contains(text, "pg_notify") || strings.HasPrefix(text, "listen")
}

func TestStatementsArePreparedOnceAndOnlyWhereNothingStandsBetween(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		watch := &watcher{}
		db := storetest.Postgres(t).Direct()
		b := &bundle{Store: db.Open(t, store.Options{Wrap: watch.wrap}), db: db, beside: db.SQL(t)}
		counts := watch.preparing()
		for claim := range int64(9) {
			b.turnOver(t, claim+1)
		}
		var most int64
		for _, c := range counts {
			require.Zero(t, c.twice)
			require.Zero(t, c.planned, "plans for the values of one call")
			most = max(most, c.statements)
		}
		require.Greater(t, most, int64(5))
	})
	t.Run("relayed", func(t *testing.T) {
		watch := &watcher{}
		_, db := storetest.Relayed(t, storetest.Postgres(t).Direct())
		b := &bundle{Store: db.Open(t, store.Options{Wrap: watch.wrap}), db: db, beside: db.SQL(t)}
		counts := watch.preparing()
		b.turnOver(t, 1)
		b.turnOver(t, 2)
		require.NotEmpty(t, counts)
		for _, c := range counts {
			require.Zero(t, c)
		}
	})
}

// A plan is made when the tables are empty, and kept while they fill up: nobody
// analyses them meanwhile.
func TestAPlanKeptFromEmptyTablesReadsNoMoreOfFullOnes(t *testing.T) {
	db, watch := storetest.Postgres(t).Direct(), &watcher{}
	b := &bundle{Store: db.Open(t, store.Options{Wrap: watch.wrap}), db: db, beside: db.SQL(t)}
	for _, table := range []string{"jobs", "history", "dead", "tasks", "limits", "gates"} {
		b.exec(t, `alter table weir_`+table+` set (autovacuum_enabled = off)`)
	}
	b.turnOver(t, 1)
	b.fill(t, 50_000, `0`, `null`)
	b.fill(t, 50_000, `1`, `1 << 61`)
	b.exec(t, `update weir_jobs set claim = 7 where state = 1`)

	const reads = `select coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0)::bigint
from pg_class c where c.relname like 'weir_%' and c.relkind in ('r', 'i')`
	var before int64
	var text string
	seen := 0
	watch.intercept(func(ctx context.Context, conn driver.Conn, next string, _ []driver.NamedValue) error {
		if beside(next) {
			return nil
		}
		if strings.HasPrefix(next, "begin") || strings.HasPrefix(next, "rollback") {
			before, text = 0, ""
			return nil
		}
		now, err := askNumber(ctx, conn, reads)
		if err == nil && text != "" {
			seen++
			if now-before > 1000 {
				err = fmt.Errorf("%d rows were read by %s", now-before, text)
			}
		}
		before, text = now, next
		return err
	})
	b.turnOver(t, 2)
	watch.intercept(nil)
	require.Greater(t, seen, 10)
}

func TestAStatementThatTheServerHasForgottenIsPreparedAnew(t *testing.T) {
	for name, forget := range map[string]string{
		"dropped":               `deallocate all`,
		"its columns are wider": `alter table weir_limits alter column level type numeric`,
	} {
		t.Run(name, func(t *testing.T) {
			watch := &watcher{}
			db := storetest.Postgres(t).Direct()
			b := &bundle{Store: db.Open(t, store.Options{Wrap: watch.wrap}), db: db, beside: db.SQL(t)}
			b.turnOver(t, 1)
			if name == "dropped" {
				done := map[driver.Conn]bool{}
				watch.intercept(func(ctx context.Context, conn driver.Conn, text string, _ []driver.NamedValue) error {
					if beside(text) || done[conn] {
						return nil
					}
					done[conn] = true
					_, err := conn.(driver.ExecerContext).ExecContext(ctx, forget, nil)
					return err
				})
			} else {
				b.exec(t, forget)
			}
			b.turnOver(t, 2)
		})
	}
}
