package store_test

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// plan is how the database ran a statement.
type plan struct {
	text    string
	indexes []string // of Weir's tables, as "weir_jobs_line"
	scans   []string // Weir's tables that were walked through
	removed float64  // rows that were read for nothing
	blocks  float64
	detail  string
}

// explainer asks for the plan of each statement right before it runs: in its
// transaction, under its settings, with its parameters.
type explainer struct {
	dialect store.Dialect
	mu      sync.Mutex
	open    map[driver.Conn]bool // in a transaction
	plans   []plan
}

func (e *explainer) before(ctx context.Context, conn driver.Conn, text string, args []driver.NamedValue) error {
	verb := strings.Fields(text)[0]
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case verb == "begin":
		e.open[conn] = true
	case verb == "commit" || verb == "rollback":
		delete(e.open, conn)
	case strings.Contains(text, "weir_"):
		p, err := e.explain(ctx, conn, text, args)
		if err != nil {
			return fmt.Errorf("explain %s: %w", text, err)
		}
		e.plans = append(e.plans, p)
	}
	return nil
}

// all are the plans so far: notices go on being sent.
func (e *explainer) all() []plan {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.plans)
}

func (e *explainer) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.plans = nil
}

func (e *explainer) explain(ctx context.Context, conn driver.Conn, text string, args []driver.NamedValue) (plan, error) {
	p := plan{text: text}
	if e.dialect == store.SQLite {
		rows, err := queryAll(ctx, conn, `explain query plan `+text, args)
		for _, row := range rows {
			p.readSQLite(row[3].(string))
		}
		return p, err
	}
	control := func(query string) error {
		if !e.open[conn] {
			return nil
		}
		_, err := conn.(driver.ExecerContext).ExecContext(ctx, query, nil)
		return err
	}
	if err := control(`savepoint explained`); err != nil {
		return p, err
	}
	rows, err := queryAll(ctx, conn, `explain (analyze, buffers, format json) `+text, args)
	if err != nil {
		return p, err
	}
	p.detail = fmt.Sprintf("%s", rows[0][0])
	var doc []struct{ Plan map[string]any }
	if err := json.Unmarshal([]byte(p.detail), &doc); err != nil {
		return p, err
	}
	p.readPostgres(doc[0].Plan)
	p.blocks = number64(doc[0].Plan["Shared Hit Blocks"]) + number64(doc[0].Plan["Shared Read Blocks"])
	return p, control(`rollback to savepoint explained`)
}

func number64(v any) float64 { n, _ := v.(float64); return n }

var sqliteIndex = regexp.MustCompile(`^SEARCH (\w+) USING (?:COVERING )?(?:INDEX (\w+)|INTEGER PRIMARY KEY)`)

func (p *plan) readSQLite(detail string) {
	p.detail += detail + "\n"
	if m := sqliteIndex.FindStringSubmatch(detail); m != nil {
		if m[2] == "" {
			m[2] = "primary key"
		}
		p.indexes = append(p.indexes, m[2])
	}
	if table, ok := strings.CutPrefix(detail, "SCAN "); ok && (table == "j" || strings.HasPrefix(table, "weir_")) {
		p.scans = append(p.scans, table)
	}
	if strings.Contains(detail, "TEMP B-TREE FOR ORDER BY") && strings.HasPrefix(p.text, "select ?5") {
		p.scans = append(p.scans, "sorted") // a line must be read in the order of its index
	}
}

func (p *plan) readPostgres(node map[string]any) {
	relation, _ := node["Relation Name"].(string)
	switch kind := node["Node Type"].(string); {
	case strings.HasPrefix(relation, "weir_") && strings.Contains(kind, "Seq Scan"):
		p.scans = append(p.scans, relation)
	case node["Index Name"] != nil:
		p.indexes = append(p.indexes, node["Index Name"].(string))
	}
	loops := max(1, number64(node["Actual Loops"]))
	p.removed += loops * (number64(node["Rows Removed by Filter"]) + number64(node["Rows Removed by Index Recheck"]))
	children, _ := node["Plans"].([]any)
	for _, child := range children {
		p.readPostgres(child.(map[string]any))
	}
}

func queryAll(ctx context.Context, conn driver.Conn, query string, args []driver.NamedValue) (out [][]driver.Value, err error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for {
		row := make([]driver.Value, len(rows.Columns()))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
}

// intended are the indexes by which each statement finds its jobs, in
// PostgreSQL's form and SQLite's.
var intended = []struct {
	name, pattern string
	postgres      []string
	sqlite        []string
}{
	{"candidates", `^select (l\.n|\?9), (j\.)?id`, []string{"weir_jobs_line"}, []string{"weir_jobs_line"}},
	{"start", `^update weir_jobs set state = 1`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"defer", `^update weir_jobs set run_at`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"shed", `insert into weir_dead [^']*'shed'`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"dead", `insert into weir_dead [^']*'failed'`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"done", `insert into weir_history [^$?]*queue, 3,`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"back in line", `update weir_jobs (j )?set state = case`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"promote", `^update weir_jobs set state = 0`, []string{"weir_jobs_pkey", "weir_jobs_scheduled"}, []string{"primary key", "weir_jobs_scheduled"}},
	{"lapsed", `^select id, uid, task, queue, claim, attempt, given_back`, []string{"weir_jobs_lease"}, []string{"weir_jobs_lease"}},
	{"next", `^select \(select min\(first_due\)`, []string{"weir_jobs_expiry", "weir_jobs_lease", "weir_jobs_scheduled"}, []string{"weir_jobs_expiry", "weir_jobs_lease", "weir_jobs_scheduled"}},
	{"running", `^select task, queue, count`, []string{"weir_jobs_lease"}, []string{"weir_jobs_lease"}},
	{"renew", `^(update weir_jobs set lease_until|with mine as )`, []string{"weir_jobs_pkey"}, []string{"primary key"}},
	{"claimed", `^select id, uid, [^$?]* where lease_until is not null and claim`, []string{"weir_jobs_lease"}, []string{"weir_jobs_lease"}},
	{
		"survey", `^with recursive l`,
		[]string{"weir_jobs_expiry", "weir_jobs_lease", "weir_jobs_line", "weir_jobs_scheduled"},
		[]string{"weir_jobs_expiry", "weir_jobs_lease", "weir_jobs_line", "weir_jobs_scheduled"},
	},
	{
		"late", `^select uid, claim from weir_jobs where id`,
		[]string{"weir_dead_job", "weir_history_pkey", "weir_jobs_pkey"},
		[]string{"primary key", "weir_dead_job"},
	},
	{
		"known", `^select uid from weir_jobs where uid`,
		[]string{"weir_dead_job", "weir_history_uid", "weir_jobs_uid"},
		[]string{"weir_dead_job", "weir_history_uid", "weir_jobs_uid"},
	},
	{"holders", `^select j\.uid`, []string{"weir_jobs_unique"}, []string{"weir_jobs_unique"}},
	{"cancel", `insert into weir_history [^$?]*queue, 4,`, []string{"weir_jobs_uid"}, []string{"weir_jobs_uid"}},
	{"purge", `^delete from weir_history`, []string{"weir_history_finished", "weir_history_pkey"}, []string{"primary key", "weir_history_finished"}},
	{"get", `^select id, uid, [^$?]* from weir_jobs where uid`, []string{"weir_history_uid", "weir_jobs_uid"}, []string{"weir_history_uid", "weir_jobs_uid"}},
}

var (
	schemaPart   = regexp.MustCompile(`"\w+"\.`)
	indexOfLimit = regexp.MustCompile(`weir_limits|weir_tasks|weir_queues`)
)

// require fails where the plan is another than the intended one.
func (p *plan) require(t *testing.T, dialect store.Dialect) (name string) {
	t.Helper()
	plain := schemaPart.ReplaceAllString(p.text, "")
	for _, want := range intended {
		if !regexp.MustCompile(want.pattern).MatchString(plain) {
			continue
		}
		indexes := want.postgres
		if dialect == store.SQLite {
			indexes = want.sqlite
		}
		used := slices.DeleteFunc(p.indexes, indexOfLimit.MatchString)
		slices.Sort(used)
		require.Equal(t, indexes, slices.Compact(used), "%s: %s", want.name, p.detail)
		// Limits, tasks and queues are few: how those are read does not matter.
		require.Empty(t, slices.DeleteFunc(p.scans, indexOfLimit.MatchString), "%s: %s", want.name, p.detail)
		require.Less(t, p.removed, 100.0, "%s: rows that were read for nothing: %s", want.name, p.detail)
		require.Less(t, p.blocks, 1000.0, "%s: blocks for at most 30 jobs: %s", want.name, p.detail)
		return want.name
	}
	return ""
}

func TestPlansDoNotDependOnTheBacklogNorOnStatistics(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		// A schema that was used before would bring its statistics along.
		s, err := store.Open(t.Context(), db.DSN, store.Options{Migrate: true})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		b := &bundle{db: db, beside: db.SQL(t)}
		if db.Dialect == store.Postgres {
			for _, table := range []string{"jobs", "history", "dead"} {
				b.exec(t, `alter table weir_`+table+` set (autovacuum_enabled = off)`)
			}
		}
		// While a few jobs run and none waits, statistics are taken: a state that
		// is empty then looks as if it always were.
		b.fill(t, 20, `1`, `1 << 61`)
		b.exec(t, `analyze`)
		b.exec(t, `delete from weir_jobs`)
		b.fill(t, 1_000_000, `0`, `null`)
		for _, statistics := range []string{"of an idle day", "of this day"} {
			if statistics == "of this day" {
				b.exec(t, `analyze`)
			}
			e := &explainer{dialect: db.Dialect, open: map[driver.Conn]bool{}}
			seen := map[string]bool{}
			for _, p := range e.run(t, db) {
				seen[p.require(t, db.Dialect)] = true
			}
			for _, want := range intended {
				require.True(t, seen[want.name] || want.sqlite == nil && db.Dialect == store.SQLite, "statistics %s: %s was not seen", statistics, want.name)
			}
		}
	})
}

// A flood of sheds must not hide what failed, nor make a page slow, nor hold
// the writer while something is looked for.
func TestDeadLettersAreFoundByAnIndexInTheOrderOfTheirDeath(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.bury(t, store.KindFailed, "a", "1", "2", "3")
		b.fillDead(t, store.KindShed, "a", 20_000)
		b.bury(t, store.KindFailed, "b", "4")
		if db.Dialect == store.Postgres {
			b.exec(t, `analyze`)
		}
		watch, e := &watcher{}, &explainer{dialect: db.Dialect, open: map[driver.Conn]bool{}}
		s := b.db.Open(t, store.Options{Clock: b.clock, Wrap: watch.wrap})
		watch.intercept(e.before)
		ctx, at := t.Context(), store.DeadKey{At: b.now(), ID: 10_000}
		for _, f := range []struct {
			filter store.DeadFilter
			index  string
		}{
			{store.DeadFilter{}, "weir_dead_kind"},
			{store.DeadFilter{Kind: store.KindFailed}, "weir_dead_kind"},
			{store.DeadFilter{Kind: store.KindShed, After: at}, "weir_dead_kind"},
			{store.DeadFilter{Kind: store.KindShed, From: b.now(), Until: b.now() + second}, "weir_dead_kind"},
			{store.DeadFilter{Task: "a", After: at}, "weir_dead_task"},
			{store.DeadFilter{Task: "a", Kind: store.KindFailed}, "weir_dead_task"},
			{store.DeadFilter{Queue: "q", After: at}, "weir_dead_queue"},
			{store.DeadFilter{Queue: "q", Kind: store.KindFailed}, "weir_dead_queue"},
			{store.DeadFilter{Text: "nowhere"}, "weir_dead_kind"},
			{store.DeadFilter{Task: "a", Queue: "q", Reason: "reason"}, "weir_dead_task"},
		} {
			for _, oldestFirst := range []bool{false, true} {
				f.filter.OldestFirst, f.filter.Limit = oldestFirst, 100
				e.reset()
				_, _, err := s.ListDead(ctx, f.filter)
				require.NoError(t, err)
				_, _, err = s.NameDead(ctx, f.filter)
				require.NoError(t, err)
				_, _, err = s.CountDead(ctx, f.filter)
				require.NoError(t, err)
				for _, p := range e.all() {
					if strings.Contains(p.text, "weir_dead_counts") {
						continue // small
					}
					if db.Dialect == store.SQLite {
						require.Equal(t, []string{f.index}, p.indexes, "%+v: %s", f.filter, p.detail)
					} // PostgreSQL may take another where that reads no more
					require.Empty(t, p.scans, p.detail)
					require.NotContains(t, p.detail, "TEMP B-TREE")
					require.NotContains(t, p.detail, `"Sort"`)
					if f.filter.Text == "" {
						require.Less(t, p.removed, 10.0, p.detail)
					} else {
						require.LessOrEqual(t, p.removed, 10_000.0, p.detail)
					}
				}
				require.NotEmpty(t, e.all())
			}
		}

		b.fillDead(t, store.KindFailed, "a", 3000)
		b.exec(t, `update weir_dead set replays = 9 where task = 'a' and kind = 'failed' and unique_key is null`)
		if db.Dialect == store.Postgres {
			b.exec(t, `analyze`)
		}
		e.reset()
		letters, err := s.RetryableDead(ctx, []store.DeadRetry{{Task: "a", Before: b.now(), Most: 3}}, 10)
		require.NoError(t, err)
		require.Len(t, letters, 3)
		require.Contains(t, e.all()[0].indexes, "weir_dead_retry", e.all()[0].detail)
		_, err = s.ReplayDead(ctx, revivals(letters[0]), nil)
		require.NoError(t, err)
		_, err = s.PurgeDead(ctx, store.DeadIDs(letters[1:2]), nil)
		require.NoError(t, err)
		_, err = s.DeadRivals(ctx, store.DeadIDs(letters))
		require.NoError(t, err)
		_, err = s.FindDead(ctx, store.DeadIDs(letters), []string{newID()})
		require.NoError(t, err)
		for _, p := range e.all() {
			require.Empty(t, slices.DeleteFunc(p.scans, func(name string) bool { return name == "weir_dead_counts" }), p.detail)
			require.Less(t, p.removed, 10.0, p.detail)
		}
	})
}

// fill stores jobs of ten throttled tasks, of the highest priority, and a past.
func (b *bundle) fill(t testing.TB, n int, state, leaseUntil string) {
	t.Helper()
	series, uid, args := `generate_series(1, $1) i`, `gen_random_uuid()`, `''`
	if b.db.Dialect == store.SQLite {
		series = `(with recursive s(i) as (select 1 union all select i + 1 from s where i < $1) select i from s)`
		uid, args = `lower(hex(randomblob(16)))`, `x''`
	}
	b.exec(t, `insert into weir_jobs (uid, task, queue, state, rank, first_due, run_at, enqueued_at, lease_until, args)
select `+uid+`, 'throttled' || (i % 10), 'q', `+state+`, -100, i, i, i, `+leaseUntil+`, `+args+` from `+series, n)
	b.exec(t, `insert into weir_history (id, uid, task, queue, state, rank, first_due, run_at, enqueued_at, attempt, given_back, deferrals, args, replays, finished_at)
select 10000000 + i, `+uid+`, 'a', 'q', 3, 0, i, i, i, 1, 0, 0, `+args+`, 0, cast(i * 7919 % 3001 as bigint) * 1000000 from `+series+` where true on conflict do nothing`, 3000)
	b.exec(t, `insert into weir_dead (job_id, kind, task, queue, reason, args, rank, attempt, deferrals, enqueued_at, first_due, dead_at, replays)
select `+uid+`, 'shed', 'a', 'q', '', `+args+`, 0, 0, 0, i, i, i, 0 from `+series, 3000)
}

func (e *explainer) run(t *testing.T, db storetest.Database) []plan {
	t.Helper()
	watch := &watcher{}
	s := db.Open(t, store.Options{Wrap: watch.wrap})
	b := &bundle{Store: s, db: db, beside: db.SQL(t)}
	ctx := t.Context()
	limits := []store.Declared{declared(t, "l1", "9/s"), declared(t, "l2", "9/s")}
	require.NoError(t, s.Register(ctx, nil, limits))
	jobs := newJobs("mail", 100)
	jobs[99].UniqueKey = newID()
	for i := range jobs[90:99] {
		jobs[90+i].Delay = 3600 * second
	}
	b.insert(t, jobs...)
	claim := time.Now().UnixNano() / 2 * 2
	started := b.grant(t, claim, "mail", 40)
	require.Len(t, started, 40)
	b.exec(t, `update weir_jobs set run_at = 1, first_due = 1 where state = 2`)
	for _, j := range started[30:] {
		b.exec(t, `update weir_jobs set lease_until = 1 where id = $1`, j.ID)
	}
	var results []store.Result
	for i, j := range started[:30] {
		results = append(results, end(j, []store.Outcome{store.Done, store.Done, store.Done, store.Dead, store.Retry, store.GiveBack}[i%6]))
	}

	watch.intercept(e.before)
	out := b.turn(t, store.TurnRequest{
		Results: results, Sweep: true, Limits: limits, Gates: []string{"queue:q", "task:mail"}, Claim: claim + 1,
		Admit: &admission{asks: []store.Ask{ask("mail", 30), ask("none", 9)}, decide: func(read [][]store.Candidate) store.Plan {
			c := ids(read[0])
			p := store.Plan{Start: c[:10], Defer: c[10:20], Save: []store.Limit{{Name: "l1"}, {Name: "l2"}}}
			for _, id := range c[20:] {
				p.Shed = append(p.Shed, store.Shed{ID: id, Reason: "r"})
			}
			return p
		}},
	})
	require.Equal(t, []int{9, 10}, []int{out.Swept.Promoted, out.Swept.Lost})
	require.Len(t, out.Started, 10)
	held := make([]store.Held, 10)
	for i, j := range out.Started {
		held[i] = store.Held{ID: j.ID, Claim: claim + 1}
	}
	kept, err := s.Renew(ctx, held, 3600*second)
	require.NoError(t, err)
	require.Len(t, kept, 10)
	_, err = s.Claimed(ctx, claim+1)
	require.NoError(t, err)
	late := []store.Result{results[0], {ID: 1, Claim: 5, UID: newID()}}
	require.Len(t, b.turn(t, store.TurnRequest{Results: late}).Refused, 1)
	_, err = s.Survey(ctx, []string{"mail", "throttled1", "none"}, []string{"l1"})
	require.NoError(t, err)
	repeat := jobs[98]
	repeat.Repeat = true
	_, err = s.Insert(ctx, []store.NewJob{repeat, uniqueJob("mail", jobs[99].UniqueKey), newJob("mail")})
	require.NoError(t, err)
	_, err = s.Cancel(ctx, jobs[98].UID)
	require.NoError(t, err)
	b.stored(t, jobs[98].UID)
	b.dead(t, results[3].UID)
	_, err = s.PurgeHistory(ctx, time.Duration(time.Now().UnixMicro()-5*second)*time.Microsecond) // some of them
	require.NoError(t, err)
	watch.intercept(nil)
	return e.all()
}
