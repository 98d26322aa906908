package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
)

// Making a schema on PostgreSQL and dropping it takes longer than most tests
// do. So one that a test left as it was made, but for rows, goes to another
// test.
type spareSchemas struct {
	mu     sync.Mutex
	server *sql.DB
	shape  string   // of a schema that was just made
	unused []string // of that shape, and empty
}

var spare spareSchemas

// shapeSQL tells apart schemas that differ in a table, column, index,
// constraint, trigger, function, right or version.
const shapeSQL = `
with named as (select oid as named, relname, relkind, relpersistence, reloptions, relacl from pg_class where relnamespace = '%[1]s'::regnamespace)
select md5(string_agg(x, ' ' order by x)) from (
    select concat_ws(' ', relname, relkind, relpersistence, reloptions, relacl) as x from named
    union all
    select concat_ws(' ', relname, attname, attnum, atttypid, atttypmod, attnotnull, attidentity)
    from pg_attribute join named on attrelid = named
    union all select concat_ws(' ', tgname, tgenabled) from pg_trigger join named on tgrelid = named where not tgisinternal
    union all select concat_ws(' ', conname, contype) from pg_constraint where connamespace = '%[1]s'::regnamespace
    union all select proname from pg_proc where pronamespace = '%[1]s'::regnamespace
    union all select concat_ws(' ', version_id, is_applied) from %[1]s.weir_migrations
) s`

// emptySQL empties a schema that is small, once nobody is at it any more. One
// that has grown is not worth it: deleted rows stay in its files.
const emptySQL = `
set local lock_timeout = '5s';
do $$
declare r record;
begin
    if (select sum(pg_relation_size(oid)) from pg_class where relnamespace = '%[1]s'::regnamespace) > 2000000 then
        raise exception 'it has grown';
    end if;
    for r in select oid::regclass as name from pg_class
             where relnamespace = '%[1]s'::regnamespace and relkind = 'r' and relname <> 'weir_migrations' order by relname loop
        execute 'lock table ' || r.name || ' in access exclusive mode';
        execute 'delete from ' || r.name;
    end loop;
    for r in select oid::regclass as name from pg_class where relnamespace = '%[1]s'::regnamespace and relkind = 'S' and relname not like 'weir_migrations%%' loop
        perform setval(r.name, 1, false);
    end loop;
end $$`

func (s *spareSchemas) open(t testing.TB, server string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		var err error
		s.server, err = sql.Open("postgres", server)
		require.NoError(t, err)
	}
}

func (s *spareSchemas) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	for _, name := range s.unused {
		if _, err := s.server.ExecContext(context.Background(), `drop schema `+name+` cascade`); err != nil {
			return err
		}
	}
	return s.server.Close()
}

// take gives a schema of that name to a test, if there is a spare one.
func (s *spareSchemas) take(t testing.TB, name string) bool {
	t.Helper()
	s.mu.Lock()
	if len(s.unused) == 0 {
		s.mu.Unlock()
		return false
	}
	last := len(s.unused) - 1
	old := s.unused[last]
	s.unused = s.unused[:last]
	s.mu.Unlock()
	_, err := s.server.ExecContext(context.WithoutCancel(t.Context()), `alter schema `+old+` rename to `+name)
	if refused := (*pq.Error)(nil); errors.As(err, &refused) && refused.Code == "42P06" { // the test has made it by itself
		s.mu.Lock()
		s.unused = append(s.unused, old)
		s.mu.Unlock()
		return true
	}
	require.NoError(t, err)
	return true
}

// made notes the shape of a schema that was just made.
func (s *spareSchemas) made(t testing.TB, name string) {
	t.Helper()
	s.mu.Lock()
	known := s.shape != ""
	s.mu.Unlock()
	if known {
		return
	}
	shape, err := s.shapeOf(name)
	require.NoError(t, err)
	s.mu.Lock()
	s.shape = shape
	s.mu.Unlock()
}

func (s *spareSchemas) shapeOf(name string) (shape string, err error) {
	err = s.server.QueryRowContext(context.Background(), fmt.Sprintf(shapeSQL, name)).Scan(&shape)
	return shape, err
}

// giveBack takes a schema from a test that has ended.
func (s *spareSchemas) giveBack(t testing.TB, name string) {
	t.Helper()
	if s.reusable(t, name) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unused = append(s.unused, name)
		return
	}
	_, err := s.server.ExecContext(context.Background(), `drop schema if exists `+name+` cascade`)
	require.NoError(t, err)
}

func (s *spareSchemas) reusable(t testing.TB, name string) bool {
	t.Helper()
	if t.Failed() {
		return false
	}
	if shape, err := s.shapeOf(name); err != nil || shape != s.shape {
		return false
	}
	_, err := s.server.ExecContext(context.Background(), fmt.Sprintf(emptySQL, name))
	return err == nil
}
