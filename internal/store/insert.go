package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// One statement carries at most this many jobs, and this many bytes of arguments
// and metadata (unless one job alone has more).
const (
	insertRows  = 1000
	insertBytes = 4 << 20
)

// Insert stores jobs in one transaction, all or none, and answers in their
// order.
func (s *Store) Insert(ctx context.Context, jobs []NewJob) ([]Inserted, error) {
	var out []Inserted
	var wake Wake
	err := s.writeFor(ctx, inserting, func(t *tx) (err error) {
		out, wake, err = s.insert(ctx, t, jobs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("insert %d jobs: %w", len(jobs), err)
	}
	s.Wake(ctx, wake)
	return out, nil
}

// beginWritingSQL writes nothing, and makes a transaction of SQLite's one that
// writes: what has read before cannot wait for the writer any more.
var beginWritingSQL = &statement{sqlite: `delete from weir_tasks where false`}

// InsertTx stores jobs in the caller's transaction. Schedulers find them by
// looking; on PostgreSQL, with notify, the caller's commit tells them.
func (s *Store) InsertTx(ctx context.Context, h Handle, jobs []NewJob, notify bool) ([]Inserted, error) {
	var out []Inserted
	var wake Wake
	err := s.checkSnapshot(ctx, h, jobs)
	if err == nil && s.target.dialect == SQLite {
		_, err = s.exec(ctx, h, beginWritingSQL)
	}
	if err == nil {
		out, wake, err = s.insert(ctx, h, jobs)
	}
	if err == nil && notify && s.target.dialect == Postgres && !wake.empty() {
		err = s.notify(ctx, h, noticeOf("", wake))
	}
	if err != nil {
		return nil, fmt.Errorf("insert %d jobs in the caller's transaction: %w", len(jobs), err)
	}
	return out, nil
}

// insert cuts the jobs where an id comes again: what became of the first one
// decides about the second.
func (s *Store) insert(ctx context.Context, h Handle, jobs []NewJob) ([]Inserted, Wake, error) {
	var wake Wake
	out := make([]Inserted, 0, len(jobs))
	seen := map[string]struct{}{}
	from := 0
	flush := func(to int) error {
		part, w, err := s.insertDistinct(ctx, h, jobs[from:to])
		out, from = append(out, part...), to
		wake.Lines = append(wake.Lines, w.Lines...)
		if wake.Due == 0 || w.Due != 0 && w.Due < wake.Due {
			wake.Due = w.Due
		}
		return err
	}
	for i := range jobs {
		if !jobs[i].Repeat { // made by the client: never the same
			continue
		}
		if _, again := seen[jobs[i].UID]; again {
			if err := flush(i); err != nil {
				return nil, Wake{}, err
			}
			clear(seen)
		}
		seen[jobs[i].UID] = struct{}{}
	}
	if err := flush(len(jobs)); err != nil {
		return nil, Wake{}, err
	}
	return out, wake, nil
}

func (s *Store) insertDistinct(ctx context.Context, h Handle, jobs []NewJob) ([]Inserted, Wake, error) {
	out := make([]Inserted, len(jobs))
	todo := make([]int, 0, len(jobs)) // indexes into jobs
	for i := range jobs {
		todo = append(todo, i)
	}
	var news arrivals
	if s.trusting(h) && !slices.ContainsFunc(jobs, collides) { // their ids were just made
		for i := range jobs {
			out[i] = Inserted{UID: jobs[i].UID}
		}
		err := s.insertChunks(ctx, h, jobs, todo, true, news.add)
		return out, news.wake(), err
	}
	todo, err := s.settleRepeats(ctx, h, jobs, out, todo)
	if err != nil {
		return nil, Wake{}, err
	}
	// A job that was not stored, or was taken back, lost to one with its id, or
	// to a live one with its unique key. If that one has ended in between, the
	// insert is simply due again.
	for range 5 {
		if len(todo) == 0 {
			break
		}
		stored := map[string]storedRow{}
		if err := s.insertChunks(ctx, h, jobs, todo, false, func(r storedRow) { stored[r.UID] = r }); err != nil {
			return nil, Wake{}, err
		}
		if err := s.takeBack(ctx, h, jobs, todo, stored); err != nil {
			return nil, Wake{}, err
		}
		var lost []int
		for _, i := range todo {
			r, ok := stored[jobs[i].UID]
			if !ok {
				lost = append(lost, i)
				continue
			}
			out[i] = Inserted{UID: r.UID}
			news.add(r)
		}
		if todo, err = s.settleLost(ctx, h, jobs, out, lost); err != nil {
			return nil, Wake{}, err
		}
	}
	if len(todo) > 0 {
		return nil, Wake{}, fmt.Errorf("job %s of task %q: the holder of its unique key keeps changing", jobs[todo[0]].UID, jobs[todo[0]].Task)
	}
	return out, news.wake(), nil
}

// trusting tells whether jobs go without a conflict clause, which costs PostgreSQL a
// third: a row that is in the way against all expectation ends the transaction.
// Ours is tried again, warily. A caller's on SQLite would lose some of the jobs
// alone, unlike one on PostgreSQL, which the server ends.
func (s *Store) trusting(h Handle) bool {
	t, ours := h.(*tx)
	return ours && !t.wary || !ours && s.target.dialect == Postgres
}

// collides tells whether something can be in the way of a job.
func collides(j NewJob) bool { return j.Repeat || j.UniqueKey != "" }

// insertChunks tells of the rows of each statement.
func (s *Store) insertChunks(ctx context.Context, h Handle, jobs []NewJob, todo []int, fresh bool, tell func(storedRow)) error {
	for chunk := range chunks(jobs, todo) {
		rows, err := s.insertChunk(ctx, h, jobs, chunk, fresh)
		if err != nil {
			return err
		}
		for _, r := range rows {
			tell(r)
		}
	}
	return nil
}

// arrivals are what schedulers are told of jobs that were stored.
type arrivals struct {
	lines map[Line]struct{}
	due   int64
}

func (a *arrivals) add(r storedRow) {
	if r.State != Waiting {
		if a.due == 0 || r.RunAt < a.due {
			a.due = r.RunAt
		}
		return
	}
	if a.lines == nil {
		a.lines = map[Line]struct{}{}
	}
	a.lines[r.Line] = struct{}{}
}

func (a *arrivals) wake() Wake {
	w := Wake{Due: a.due}
	for line := range a.lines {
		w.Lines = append(w.Lines, line)
	}
	return w
}

// chunks cuts the jobs named by todo into statements' worth.
func chunks(jobs []NewJob, todo []int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		for from := 0; from < len(todo); {
			to, bytes := from, 0
			for ; to < len(todo) && to-from < insertRows; to++ {
				j := &jobs[todo[to]]
				if bytes += len(j.Args) + len(j.Metadata); bytes > insertBytes && to > from {
					break
				}
			}
			if !yield(todo[from:to]) {
				return
			}
			from = to
		}
	}
}

const (
	pgUIDs     = ` = any(array(select value::uuid from json_array_elements_text($1::json)))`
	sqliteUIDs = ` in (select value from json_each($1))`
)

var (
	endedSQL = &statement{
		postgres: `select uid from weir_history where uid` + pgUIDs + ` union all select job_id from weir_dead where job_id` + pgUIDs,
		sqlite:   `select uid from weir_history where uid` + sqliteUIDs + ` union all select job_id from weir_dead where job_id` + sqliteUIDs,
	}
	knownSQL = &statement{
		postgres: `select uid from weir_jobs where uid` + pgUIDs + ` union all ` + endedSQL.postgres,
		sqlite:   `select uid from weir_jobs where uid` + sqliteUIDs + ` union all ` + endedSQL.sqlite,
	}
	takeBackSQL = &statement{
		postgres: `delete from weir_jobs where uid` + pgUIDs,
		sqlite:   `delete from weir_jobs where uid` + sqliteUIDs,
	}
)

// settleRepeats answers the jobs whose insert may be a repeat and is, as far as
// can be seen before, and returns the others.
func (s *Store) settleRepeats(ctx context.Context, h Handle, jobs []NewJob, out []Inserted, todo []int) ([]int, error) {
	var ids []string
	for _, i := range todo {
		if jobs[i].Repeat {
			ids = append(ids, jobs[i].UID)
		}
	}
	if len(ids) == 0 {
		return todo, nil
	}
	found, err := s.lookUp(ctx, h, knownSQL, ids)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(todo, func(i int) bool {
		if _, known := found[jobs[i].UID]; !known || !jobs[i].Repeat {
			return false
		}
		out[i] = Inserted{UID: jobs[i].UID, Existed: true}
		return true
	}), nil
}

// takeBack deletes those of the rows just stored whose jobs have ended, so that
// they do not run again: the first try may have been committed, and its job
// ended, after the look before the insert. From then on nobody else can store
// that id, so what has ended by now is seen by this statement at the latest.
func (s *Store) takeBack(ctx context.Context, h Handle, jobs []NewJob, todo []int, stored map[string]storedRow) error {
	var ids []string
	for _, i := range todo {
		if _, ok := stored[jobs[i].UID]; ok && jobs[i].Repeat {
			ids = append(ids, jobs[i].UID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	ended, err := s.lookUp(ctx, h, endedSQL, ids)
	if err != nil || len(ended) == 0 {
		return err
	}
	for uid := range ended {
		delete(stored, uid)
	}
	_, err = s.exec(ctx, h, takeBackSQL, document(slices.Collect(maps.Keys(ended))))
	return err
}

// ErrSnapshot is returned where jobs whose ids may have been inserted before
// come in a transaction of the caller's that sees the database as it was when
// it began: whether such a job has ended since does not show there.
var ErrSnapshot = errors.New("in a transaction of isolation level repeatable read or serializable nobody can see whether a job of that id has run")

var isolationSQL = &statement{postgres: `select current_setting('transaction_isolation') as level`}

// checkSnapshot refuses jobs that could run again unseen.
func (s *Store) checkSnapshot(ctx context.Context, h Handle, jobs []NewJob) error {
	if s.target.dialect == SQLite || !slices.ContainsFunc(jobs, func(j NewJob) bool { return j.Repeat }) {
		return nil // a snapshot of SQLite's that is not the latest cannot write
	}
	isolation, err := selectRow[struct {
		Level string `db:"level"`
	}](ctx, h, s.text(isolationSQL))
	if err == nil && (isolation.Level == "repeatable read" || isolation.Level == "serializable") {
		err = ErrSnapshot
	}
	return err
}

// The unique key's holder, by (task, key). The nested select keeps the index
// in use whatever the statistics say.
var holdersSQL = &statement{
	postgres: `
select j.uid, j.task, j.unique_key as key
from json_to_recordset($1::json) as r(task text, key text),
lateral (select uid, task, unique_key from weir_jobs where task = r.task and unique_key = r.key limit 1) j`,
	sqlite: `
select j.uid, j.task, j.unique_key as key
from json_each($1) r
join weir_jobs j on j.task = r.value ->> 'task' and j.unique_key = r.value ->> 'key'`,
}

type uniqueName struct {
	Task string `db:"task" json:"task"`
	Key  string `db:"key"  json:"key"`
}

type holder struct {
	uniqueName

	UID string `db:"uid"`
}

// settleLost answers jobs that were not stored because one that was live then
// has their id or their unique key, and returns those whose rival is gone. A
// rival with their id may have ended since: it stands for them all the same.
func (s *Store) settleLost(ctx context.Context, h Handle, jobs []NewJob, out []Inserted, lost []int) ([]int, error) {
	if len(lost) == 0 {
		return nil, nil
	}
	ids := make([]string, 0, len(lost))
	var names []uniqueName
	for _, i := range lost {
		ids = append(ids, jobs[i].UID)
		if jobs[i].UniqueKey != "" {
			names = append(names, uniqueName{jobs[i].Task, jobs[i].UniqueKey})
		}
	}
	known, err := s.lookUp(ctx, h, knownSQL, ids)
	if err != nil {
		return nil, err
	}
	byName := map[uniqueName]string{}
	if len(names) > 0 {
		holders, err := selectJSON[holder](ctx, s, h, holdersSQL, names)
		if err != nil {
			return nil, err
		}
		for _, r := range holders {
			byName[r.uniqueName] = r.UID
		}
	}
	var again []int
	for _, i := range lost {
		j := &jobs[i]
		if _, ok := known[j.UID]; ok {
			out[i] = Inserted{UID: j.UID, Existed: true}
		} else if uid := byName[uniqueName{j.Task, j.UniqueKey}]; j.UniqueKey != "" && uid != "" {
			out[i] = Inserted{UID: uid, Duplicate: true}
		} else {
			again = append(again, i)
		}
	}
	return again, nil
}

// KnownJobs are the ids among these of jobs that live, have ended, or are dead.
func (s *Store) KnownJobs(ctx context.Context, ids []string) (known map[string]struct{}, err error) {
	err = s.guarded(ctx, func(h Handle) error {
		known, err = s.lookUp(ctx, h, knownSQL, ids)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for %d jobs: %w", len(ids), err)
	}
	return known, nil
}

// lookUp are those of the ids that a statement finds.
func (s *Store) lookUp(ctx context.Context, h Handle, st *statement, ids []string) (map[string]struct{}, error) {
	return selectUIDs(ctx, h, s.text(st), document(ids))
}

// selectUIDs are the ids in the one column that a statement answers with.
func selectUIDs(ctx context.Context, h Handle, text string, args ...any) (map[string]struct{}, error) {
	rows, err := selectRows[struct {
		UID string `db:"uid"`
	}](ctx, h, text, args...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]struct{}, len(rows))
	for _, r := range rows {
		found[r.UID] = struct{}{}
	}
	return found, nil
}
