package store

import (
	"context"
	"fmt"
)

// JobFilter selects jobs; zero values select all.
type JobFilter struct {
	Task, Queue string
	States      []State
	Before      int64 // a cursor: ids before this one; 0: from the newest
	Limit       int
}

// Lists show arguments up to this size; longer ones are left to Get.
const listedArgs = 4096

var (
	jobColumns = `id, uid, task, queue, state, rank, first_due, run_at, enqueued_at, started_at, %s as finished_at, expires_at,
       %s as lease_until, claim, attempt, given_back, max_retries, timeout, deferrals, unique_key, %s as args, length(args) as args_size,
       metadata, errors, replay_of, replays`
	jobsFrom = func(args string) string {
		return `select ` + fmt.Sprintf(jobColumns, `cast(null as bigint)`, `lease_until`, args) + ` from weir_jobs`
	}
	historyJobsFrom = func(args string) string {
		return `select ` + fmt.Sprintf(jobColumns, `finished_at`, `cast(null as bigint)`, args) + ` from weir_history`
	}
)

var getSQL = &statement{postgres: jobsFrom(`args`) + ` where uid = $1 union all ` + historyJobsFrom(`args`) + ` where uid = $1`}

// Get returns the live or finished job of that id, if there is one.
func (s *Store) Get(ctx context.Context, uid string) (Job, bool, error) {
	jobs, err := selectRows[Job](ctx, s.read, s.text(getSQL), uid)
	if err != nil {
		return Job{}, false, fmt.Errorf("get job %s: %w", uid, err)
	}
	if len(jobs) == 0 {
		return Job{}, false, nil
	}
	return jobs[0], true, nil
}

var listSQL = func() *statement {
	short := fmt.Sprintf(`case when length(args) <= %d then args end`, listedArgs)
	list := func(states string) string {
		where := ` where id < $1 and ` + states + ` and ($3 = '' or task = $3) and ($4 = '' or queue = $4) order by id desc limit $5`
		return `select * from (` + jobsFrom(short) + where + `) j union all select * from (` + historyJobsFrom(short) + where + `) h
order by id desc limit $5`
	}
	return &statement{
		postgres: list(`state = any(array(select value::smallint from json_array_elements_text($2::json)))`),
		sqlite:   list(`state in (select value from json_each($2))`),
	}
}()

// List returns live and finished jobs, the newest first, without arguments
// that are longer than 4 KiB.
func (s *Store) List(ctx context.Context, f JobFilter) ([]Job, error) {
	states := f.States
	if len(states) == 0 {
		states = []State{Waiting, Running, Scheduled, Completed, Cancelled}
	}
	before := f.Before
	if before == 0 {
		before = 1<<63 - 1
	}
	jobs, err := selectRows[Job](ctx, s.read, s.text(listSQL), before, document(states), f.Task, f.Queue, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return jobs, nil
}

// The claim goes with it, so that a result of the attempt that was running is
// late.
var cancelSQL = &statement{
	postgres: `
with j as (delete from weir_jobs where uid = $1 returning *)
insert into weir_history (` + historyColumns + `)
` + cancelledFrom(`coalesce($2::bigint, `+pgNow+`)`) + ` from j on conflict do nothing`,
	sqlite: `
insert into weir_history (` + historyColumns + `)
` + cancelledFrom(`$2`) + ` from weir_jobs j where j.uid = $1 on conflict do nothing`,
}

var cancelDeleteSQL = &statement{sqlite: `delete from weir_jobs where uid = $1`}

func cancelledFrom(now string) string {
	return fmt.Sprintf(historyFrom, `4`, `null`, now)
}

// Cancel ends a job that has not ended and tells whether there was one.
func (s *Store) Cancel(ctx context.Context, uid string) (bool, error) {
	var n int64
	err := s.write(ctx, func(t *tx) (err error) {
		if n, err = s.exec(ctx, t, cancelSQL, uid, s.given()); err == nil && s.target.dialect == SQLite {
			_, err = s.exec(ctx, t, cancelDeleteSQL, uid)
		}
		if err != nil {
			return err
		}
		return s.record(ctx, t, byOperator(ctx, Act{Action: "jobs cancel", Subject: uid}), n)
	})
	if err != nil {
		return false, fmt.Errorf("cancel job %s: %w", uid, err)
	}
	if n > 0 {
		s.Wake(ctx, Wake{Cancelled: true})
	}
	return n > 0, nil
}

// CountBound is how far a count walks before it gives up being exact.
const CountBound = 10_000

// walkLines finds the lines with waiting jobs by skipping through their index,
// a probe each, and counts each of those meant up to $1.
func walkLines(meant string) string {
	return `
with recursive tasks(task) as (
    select min(j.task) from weir_jobs j where j.state = 0
    union all
    select (select min(j.task) from weir_jobs j where j.state = 0 and j.task > t.task) from tasks t where t.task is not null
), pairs(task, queue) as (
    select t.task, (select min(j.queue) from weir_jobs j where j.state = 0 and j.task = t.task) from tasks t where t.task is not null
    union all
    select p.task, (select min(j.queue) from weir_jobs j where j.state = 0 and j.task = p.task and j.queue > p.queue)
    from pairs p where p.queue is not null
), lines as (
    select p.task, p.queue,
           (select count(*) from (
               select 1 from weir_jobs j where j.state = 0 and j.task = p.task and j.queue = p.queue limit $1) w) as waiting,
           (select min(w.first_due) from (
               select j.first_due from weir_jobs j where j.state = 0 and j.task = p.task and j.queue = p.queue limit $1) w) as oldest
    from pairs p where p.queue is not null ` + meant + `
)`
}

// LineStats is a line with waiting jobs. The count stops at CountBound + 1.
type LineStats struct {
	Line
	Waiting int64 `db:"waiting"`
}

var (
	linesSQL   = &statement{postgres: walkLines("") + countedLines}
	coveredSQL = &statement{
		postgres: walkLines(`and (p.task = any(array(select value from json_array_elements_text($2::json)))
                             or p.queue = any(array(select value from json_array_elements_text($3::json))))`) + countedLines,
		sqlite: walkLines(`and (p.task in (select value from json_each($2)) or p.queue in (select value from json_each($3)))`) + countedLines,
	}
)

const countedLines = ` select task, queue, waiting from lines order by task, queue`

// Lines lists the lines with waiting jobs.
func (s *Store) Lines(ctx context.Context) ([]LineStats, error) {
	return s.countLines(ctx, linesSQL, CountBound+1)
}

// LinesOf lists those of what a limit covers.
func (s *Store) LinesOf(ctx context.Context, c Covers) ([]LineStats, error) {
	return s.countLines(ctx, coveredSQL, CountBound+1, document(c.Tasks), document(c.Queues))
}

// The walk is quick and looks expensive: without the guards PostgreSQL compiles it
// first, for a second.
func (s *Store) countLines(ctx context.Context, st *statement, args ...any) (rows []LineStats, err error) {
	err = s.guarded(ctx, func(h Handle) error {
		rows, err = selectRows[LineStats](ctx, h, s.text(st), args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count waiting jobs: %w", err)
	}
	return rows, nil
}

// QueueStats is a queue as an operator sees it. Counts over CountBound are not
// exact.
type QueueStats struct {
	Queue     string `db:"queue"`
	Waiting   int64  `db:"waiting"`
	Scheduled int64  `db:"scheduled"`
	Running   int64  `db:"running"`
	Oldest    *int64 `db:"oldest"` // first due of the longest waiting job seen
	Paused    bool   `db:"paused"`
}

var queuesSQL = &statement{postgres: walkLines("") + `, live as (
    select * from (select queue, state from weir_jobs where state = 2 limit $1) d
    union all select * from (select queue, 1 from weir_jobs where lease_until is not null limit $1) r
), names as (
    select queue from lines union select queue from live union select queue from weir_tasks union select name from weir_queues
)
select n.queue,
       (select cast(coalesce(sum(l.waiting), 0) as bigint) from lines l where l.queue = n.queue) as waiting,
       (select count(*) from live l where l.queue = n.queue and l.state = 2) as scheduled,
       (select count(*) from live l where l.queue = n.queue and l.state = 1) as running,
       (select min(l.oldest) from lines l where l.queue = n.queue) as oldest,
       exists (select 1 from weir_queues q where q.name = n.queue and q.paused) as paused
from names n order by n.queue`}

// Queues lists the queues that tasks or live jobs name, or that are paused.
// Where more than CountBound jobs are scheduled or running in all, those counts are of the
// first of them.
func (s *Store) Queues(ctx context.Context) (rows []QueueStats, err error) {
	err = s.guarded(ctx, func(h Handle) error { // as above
		rows, err = selectRows[QueueStats](ctx, h, s.text(queuesSQL), CountBound+1)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return rows, nil
}
