package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// extra is something that only some jobs have. An insert names the columns that
// one of its jobs needs and leaves the others to their defaults: what it costs
// PostgreSQL to plan it, and both databases to take its parameters, grows with
// each of them, and most jobs need none.
type extra uint8

const (
	homeless extra = 1 << iota // it names no queue, and goes to its task's
	timed                      // it is not due at once
	expiring
	annotated
	unique
	retried // it has a max_retries of its own
	bounded // it has a timeout of its own
)

func (j *NewJob) extras() (x extra) {
	mark := func(has bool, e extra) {
		if has {
			x |= e
		}
	}
	mark(j.Queue == "", homeless)
	mark(j.Delay != 0 || j.RunAt != 0, timed)
	mark(j.ExpiresIn != 0 || j.ExpiresAt != 0, expiring)
	mark(j.Metadata != "", annotated)
	mark(j.UniqueKey != "", unique)
	mark(j.MaxRetries != nil, retried)
	mark(j.Timeout != 0, bounded)
	return x
}

// extrasOf are those of the jobs named by chunk.
func extrasOf(jobs []NewJob, chunk []int) extra {
	var x extra
	for _, i := range chunk {
		x |= jobs[i].extras()
	}
	return x
}

// newColumn is a column of weir_jobs that an insert of jobs with such an extra
// names.
type newColumn struct {
	of   extra
	name string
	// sent are the arrays that PostgreSQL gets, and value is what it makes of them.
	sent  []sentArray
	value string
	// given is what SQLite gets, where the time is known to the process.
	given func(j *NewJob, now int64) any
}

type sentArray struct {
	name, kind string
	of         func(jobs []NewJob, chunk []int) any
}

// sent makes an array of one value of each job.
func sent[T any](name, kind string, array func([]T) array[T], value func(*NewJob) T) sentArray {
	return sentArray{name, kind, func(jobs []NewJob, chunk []int) any {
		values := make([]T, len(chunk))
		for k, i := range chunk {
			values[k] = value(&jobs[i])
		}
		return array(values)
	}}
}

// newAlways are the arrays of every insert.
var newAlways = []sentArray{
	sent("uid", "uuid", uuids, func(j *NewJob) string { return j.UID }),
	sent("task", "text", texts, func(j *NewJob) string { return j.Task }),
	sent("queue", "text", texts, func(j *NewJob) string { return j.Queue }),
	sent("rank", "int", integers, func(j *NewJob) int32 { return int32(-j.Priority) }),
	sent("args", "bytea", byteas, (*NewJob).args),
}

// args are never NULL, as a nil slice would be.
func (j *NewJob) args() []byte {
	if j.Args == nil {
		return []byte{}
	}
	return j.Args
}

// newTimed are for jobs that are not due at once.
var newTimed = []sentArray{
	sent("delay", "bigint", bigints, func(j *NewJob) int64 { return j.Delay }),
	sent("at", "bigint", bigints, func(j *NewJob) int64 { return j.RunAt }),
}

// newText is a column of a text that not every job has.
func newText(of extra, name string, value func(*NewJob) string) newColumn {
	return newColumn{
		of: of, name: name,
		sent:  []sentArray{sent(name, "text", texts, value)},
		value: "nullif(r." + name + ", '')",
		given: func(j *NewJob, _ int64) any { return unset(value(j)) },
	}
}

var newColumns = []newColumn{
	{
		of: expiring, name: "expires_at",
		sent: []sentArray{
			sent("expires_in", "bigint", bigints, func(j *NewJob) int64 { return j.ExpiresIn }),
			sent("expires_at", "bigint", bigints, func(j *NewJob) int64 { return j.ExpiresAt }),
		},
		value: "case when r.expires_at <> 0 then r.expires_at when r.expires_in <> 0 then c.now + r.expires_in end",
		given: func(j *NewJob, now int64) any {
			if j.ExpiresAt == 0 && j.ExpiresIn != 0 {
				return now + j.ExpiresIn
			}
			return unset(j.ExpiresAt)
		},
	},
	newText(annotated, "metadata", func(j *NewJob) string { return j.Metadata }),
	newText(unique, "unique_key", func(j *NewJob) string { return j.UniqueKey }),
	{
		of: retried, name: "max_retries",
		sent: []sentArray{sent("max_retries", "int", integers, func(j *NewJob) int32 {
			if j.MaxRetries == nil {
				return -1
			}
			return int32(*j.MaxRetries)
		})},
		value: "nullif(r.max_retries, -1)",
		given: func(j *NewJob, _ int64) any {
			if j.MaxRetries == nil {
				return nil
			}
			return *j.MaxRetries
		},
	},
	{
		of: bounded, name: "timeout",
		sent:  []sentArray{sent("timeout", "bigint", bigints, func(j *NewJob) int64 { return j.Timeout })},
		value: "nullif(r.timeout, 0)",
		given: func(j *NewJob, _ int64) any { return unset(j.Timeout) },
	},
}

// columnsOf are the columns of some extras.
func columnsOf(x extra) []newColumn {
	var columns []newColumn
	for _, c := range newColumns {
		if x&c.of != 0 {
			columns = append(columns, c)
		}
	}
	return columns
}

// sentFor are the arrays of an insert of jobs with such extras. In PostgreSQL
// they are $2 and those after it; $1 is the time, where it is not the server's.
func sentFor(x extra) []sentArray {
	arrays := slices.Clone(newAlways)
	if x&timed != 0 {
		arrays = append(arrays, newTimed...)
	}
	for _, c := range columnsOf(x) {
		arrays = append(arrays, c.sent...)
	}
	return arrays
}

// insertPostgres inserts jobs with such extras, in their order.
func insertPostgres(x extra) string {
	arrays := sentFor(x)
	params, names := make([]string, len(arrays)), make([]string, len(arrays))
	for i, a := range arrays {
		params[i], names[i] = fmt.Sprintf("$%d::%s[]", i+2, a.kind), a.name
	}
	place := `r.queue`
	if x&homeless != 0 {
		place = `coalesce(nullif(r.queue, ''), (select t.queue from weir_tasks t where t.name = r.task), 'default')`
	}
	state, first, due := `0`, `c.now`, `c.now`
	if x&timed != 0 {
		due = `case when r.at <> 0 then r.at else c.now + r.delay end`
		state = `case when ` + due + ` > c.now then 2 else 0 end`
		first = `greatest(` + due + `, c.now)`
	}
	var columns, values strings.Builder
	for _, c := range columnsOf(x) {
		columns.WriteString(`, ` + c.name)
		values.WriteString(`, ` + c.value)
	}
	return `insert into weir_jobs (uid, task, queue, state, rank, first_due, run_at, enqueued_at, args` + columns.String() + `)
select r.uid, r.task, ` + place + `, ` + state + `, r.rank, ` + first + `, ` + due + `, c.now, r.args` + values.String() + `
from (select coalesce($1::bigint, ` + pgNow + `) as now offset 0) c,
unnest(` + strings.Join(params, `, `) + `)
with ordinality as r(` + strings.Join(names, `, `) + `, ord)
order by r.ord`
}

// insertSQLite inserts so many jobs. ?1 is the time.
func insertSQLite(x extra, rows int) string {
	columns, times := columnsOf(x), `, 0, ?1, ?1`
	if x&timed != 0 {
		times = `, ?, ?, ?`
	}
	var more strings.Builder
	for _, c := range columns {
		more.WriteString(`, ` + c.name)
	}
	row := `(?1, ?, ?, ?, ?, ?` + times + strings.Repeat(`, ?`, len(columns)) + `)`
	return `insert into weir_jobs (enqueued_at, uid, task, queue, rank, args, state, first_due, run_at` + more.String() + `)
values ` + row + strings.Repeat(`, `+row, rows-1)
}

// appendNew appends what insertSQLite binds for a job that goes where r says.
func appendNew(args []any, x extra, columns []newColumn, j *NewJob, r storedRow, now int64) []any {
	args = append(args, j.UID, j.Task, r.Queue, -j.Priority, j.args())
	if x&timed != 0 {
		args = append(args, int64(r.State), max(r.RunAt, now), r.RunAt)
	}
	for _, c := range columns {
		args = append(args, c.given(j, now))
	}
	return args
}

// storedRow is what an insert says of a row it made.
type storedRow struct {
	Line

	UID   string `db:"uid"`
	State State  `db:"state"`
	RunAt int64  `db:"run_at"`
}

// insertChunk stores jobs by one statement on PostgreSQL, and by a few on SQLite,
// and returns the rows that were stored: all of them, where they are fresh and
// nothing is expected to be in their way.
func (s *Store) insertChunk(ctx context.Context, h Handle, jobs []NewJob, chunk []int, fresh bool) ([]storedRow, error) {
	x := extrasOf(jobs, chunk)
	if s.target.dialect == SQLite {
		return s.insertParts(ctx, h, x, jobs, chunk, fresh)
	}
	args := []any{s.given()}
	for _, a := range sentFor(x) {
		args = append(args, a.of(jobs, chunk))
	}
	return selectRows[storedRow](ctx, h, s.insertText(x, fresh), args...)
}

// insertText is insertPostgres with what it answers.
func (s *Store) insertText(x extra, fresh bool) string {
	type key struct {
		extra
		fresh bool
	}
	if cached, ok := s.texts.Load(key{x, fresh}); ok {
		return cached.(string) //nolint:forcetypeassert // only strings are stored
	}
	text := insertPostgres(x)
	if !fresh {
		text += onConflict
	}
	text += ` returning uid, task, queue, state, run_at`
	text = s.qualify(text)
	s.lasting.Store(text, nil)
	s.texts.Store(key{x, fresh}, text)
	return text
}

// sqliteRows is how many rows one SQLite statement carries at most: well under the
// bound of 32,766 variables. The rest of a chunk goes by powers of two, so that
// there are few texts to prepare, which are kept.
const sqliteRows = 64

// parts cuts a chunk into such.
func parts(chunk []int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		for rows := sqliteRows; len(chunk) > 0; {
			if len(chunk) < rows {
				rows /= 2
				continue
			}
			if !yield(chunk[:rows]) {
				return
			}
			chunk = chunk[rows:]
		}
	}
}

func (s *Store) insertParts(ctx context.Context, h Handle, x extra, jobs []NewJob, chunk []int, fresh bool) ([]storedRow, error) {
	homes, err := s.homes(ctx, h, jobs, chunk)
	if err != nil {
		return nil, err
	}
	now, columns := s.clock.Now().UnixMicro(), columnsOf(x)
	rows := make([]storedRow, 0, len(chunk))
	for part := range parts(chunk) {
		from, args := len(rows), append(make([]any, 0, 1+len(part)*(8+len(columns))), now)
		for _, i := range part {
			r := placed(&jobs[i], homes, now)
			rows, args = append(rows, r), appendNew(args, x, columns, &jobs[i], r, now)
		}
		text := insertSQLite(x, len(part))
		if fresh {
			if _, err := h.ExecContext(ctx, text, args...); err != nil {
				return nil, err
			}
			continue
		}
		stored, err := selectUIDs(ctx, h, text+onConflict+` returning uid`, args...)
		if err != nil {
			return nil, err
		}
		rows = append(rows[:from], slices.DeleteFunc(rows[from:], func(r storedRow) bool {
			_, there := stored[r.UID]
			return !there
		})...)
	}
	return rows, nil
}

// placed is where a job goes on SQLite, whose clock is the process's.
func placed(j *NewJob, homes map[string]string, now int64) storedRow {
	r := storedRow{
		Line: Line{Task: j.Task, Queue: cmp.Or(j.Queue, homes[j.Task], "default")},
		UID:  j.UID, State: Waiting, RunAt: cmp.Or(j.RunAt, now+j.Delay),
	}
	if r.RunAt > now {
		r.State = Scheduled
	}
	return r
}

var homesSQL = &statement{sqlite: `select name, queue from weir_tasks where name in (select value from json_each($1))`}

// homes are the queues of the tasks whose jobs name none.
func (s *Store) homes(ctx context.Context, h Handle, jobs []NewJob, chunk []int) (map[string]string, error) {
	homes := map[string]string{}
	for _, i := range chunk {
		if j := &jobs[i]; j.Queue == "" {
			homes[j.Task] = ""
		}
	}
	if len(homes) == 0 {
		return homes, nil
	}
	rows, err := selectRows[struct {
		Name  string `db:"name"`
		Queue string `db:"queue"`
	}](ctx, h, s.text(homesSQL), document(slices.Sorted(maps.Keys(homes))))
	for _, r := range rows {
		homes[r.Name] = r.Queue
	}
	return homes, err
}

// unset turns a zero value into NULL.
func unset[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
