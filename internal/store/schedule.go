package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Schedule is a schedule's row: what it says, and how far it is.
type Schedule struct {
	Name     string `db:"name"      json:"name"`
	Cron     string `db:"cron"      json:"cron"` // "": the row was just added
	Timezone string `db:"timezone"  json:"timezone"`
	Missed   string `db:"missed"    json:"missed"`
	Job      string `db:"job"       json:"job"`    // as SetJob writes it
	Anchor   int64  `db:"anchor"    json:"anchor"` // an interval counts from here
	NextTick int64  `db:"next_tick" json:"next_tick"`
	LastTick int64  `db:"last_tick" json:"last_tick"` // the last that was fired; 0: none
	SeenAt   int64  `db:"seen_at"   json:"seen_at"`   // when a process that declares it last looked after it
	Paused   bool   `db:"paused"    json:"paused"`
}

// SetJob says what is enqueued at a tick: a job without an id.
func (r *Schedule) SetJob(job NewJob) {
	doc, _ := json.Marshal(job) //nolint:errchkjson // texts, numbers and bytes always encode
	r.Job = string(doc)
}

// NewJob is what is enqueued, without an id. Its metadata names the schedule.
func (r *Schedule) NewJob() (NewJob, error) {
	var job NewJob
	if err := json.Unmarshal([]byte(r.Job), &job); err != nil {
		return job, fmt.Errorf("schedule %q: its job cannot be read: %w", r.Name, err)
	}
	return job, describe(&job, "schedule", r.Name)
}

// TickJob is what is enqueued for a tick. The id is the tick's own: however
// often it is tried, a tick has one job.
func (r *Schedule) TickJob(tick int64) (NewJob, error) {
	job, err := r.NewJob()
	if err == nil {
		err = describe(&job, "tick", time.UnixMicro(tick).UTC().Format(time.RFC3339Nano))
	}
	// A UUIDv7 whose time is the tick, and whose chance is what names it.
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", r.Name, r.Anchor, tick))
	id := uuid.UUID(sum[:16])
	binary.BigEndian.PutUint64(id[:], uint64(tick/1000)<<16|uint64(sum[6])<<8|uint64(sum[7])) //nolint:gosec // ticks are after 1970
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	job.UID, job.Repeat = id.String(), true
	return job, err
}

// describe adds to a job's metadata what it does not say itself.
func describe(job *NewJob, key, value string) error {
	metadata := map[string]json.RawMessage{}
	if job.Metadata != "" {
		if err := json.Unmarshal([]byte(job.Metadata), &metadata); err != nil {
			return fmt.Errorf("metadata of task %q: %w", job.Task, err)
		}
	}
	if _, said := metadata[key]; said {
		return nil
	}
	metadata[key], _ = json.Marshal(value) //nolint:errchkjson // a text always encodes
	doc, err := json.Marshal(metadata)
	job.Metadata = string(doc)
	return err
}

// lookAfterEvery is how long a schedule may go without being looked after: more,
// in either direction, and it is due for that alone.
const lookAfterEvery = time.Minute

const scheduleColumns = `name, cron, timezone, missed, job, anchor, next_tick, last_tick, seen_at, paused`

var addSchedulesSQL = &statement{
	postgres: `insert into weir_schedules (name) select value from json_array_elements_text($1::json) order by 1 on conflict do nothing`,
	sqlite:   `insert into weir_schedules (name) select value from json_each($1) where true order by 1 on conflict do nothing`,
}

var lockSchedulesSQL = &statement{
	postgres: `
with s as materialized (
    select ` + scheduleColumns + ` from weir_schedules
    where name = any(array(select value from json_array_elements_text($1::json))) order by name for update
)
select s.*, coalesce($2::bigint, ` + pgNow + `) as now from s`,
	sqlite: `select ` + scheduleColumns + `, $2 as now from weir_schedules where name in (select value from json_each($1)) order by name`,
}

// A row that is locked is being looked after by somebody else.
var lockDueSchedulesSQL = &statement{
	postgres: `
with c as materialized (select coalesce($2::bigint, ` + pgNow + `) as now),
s as materialized (
    select ` + scheduleColumns + ` from weir_schedules w, c
    where name = any(array(select value from json_array_elements_text($1::json)))
      and (not paused and next_tick <= c.now or abs(seen_at - c.now) > $3)
    order by name for update of w skip locked
)
select s.*, c.now from s, c`,
	sqlite: `
select ` + scheduleColumns + `, $2 as now from weir_schedules
where name in (select value from json_each($1)) and (not paused and next_tick <= $2 or abs(seen_at - $2) > $3) order by name`,
}

var saveSchedulesSQL = &statement{
	postgres: `
update weir_schedules s set cron = r.cron, timezone = r.timezone, missed = r.missed, job = r.job, anchor = r.anchor,
       next_tick = r.next_tick, last_tick = r.last_tick, seen_at = r.seen_at, paused = r.paused
from json_to_recordset($1::json) as r(name text, cron text, timezone text, missed text, job text, anchor bigint,
       next_tick bigint, last_tick bigint, seen_at bigint, paused boolean)
where s.name = r.name`,
	sqlite: `
update weir_schedules set cron = r.value ->> 'cron', timezone = r.value ->> 'timezone', missed = r.value ->> 'missed',
       job = r.value ->> 'job', anchor = r.value ->> 'anchor', next_tick = r.value ->> 'next_tick',
       last_tick = r.value ->> 'last_tick', seen_at = r.value ->> 'seen_at', paused = r.value ->> 'paused'
from json_each($1) r where weir_schedules.name = r.value ->> 'name'`,
}

// SchedulePlan changes locked rows and says which jobs to insert, in the same
// transaction. It may be called again when that is retried.
type SchedulePlan func(now int64, rows []*Schedule) []NewJob

// DeclareSchedules locks the rows of all names, those that are new among them,
// and writes what plan makes of them.
func (s *Store) DeclareSchedules(ctx context.Context, names []string, plan SchedulePlan) error {
	err := s.write(ctx, func(t *tx) error {
		if _, err := s.exec(ctx, t, addSchedulesSQL, document(names)); err != nil {
			return err
		}
		_, _, err := s.planSchedules(ctx, t, lockSchedulesSQL, plan, document(names), s.given())
		return err
	})
	if err != nil {
		return fmt.Errorf("declare %d schedules: %w", len(names), err)
	}
	return nil
}

// ChangeSchedule lets plan change one row, as an act of an operator's, and tells
// whether there is such a schedule.
func (s *Store) ChangeSchedule(ctx context.Context, name string, act Act, plan func(now int64, row *Schedule)) (found bool, err error) {
	err = s.write(ctx, func(t *tx) error {
		found = false
		_, _, err := s.planSchedules(ctx, t, lockSchedulesSQL, func(now int64, rows []*Schedule) []NewJob {
			found = true
			plan(now, rows[0])
			return nil
		}, document([]string{name}), s.given())
		if err != nil || !found {
			return err
		}
		return s.record(ctx, t, &act, 1)
	})
	if err != nil {
		return false, fmt.Errorf("change schedule %q: %w", name, err)
	}
	s.Wake(ctx, Wake{Look: true})
	return found, nil
}

// RunSchedule inserts the job of one schedule under an id, as an act of an
// operator's, and tells whether there is such a schedule. It is no tick.
func (s *Store) RunSchedule(ctx context.Context, name, uid string, again bool) (out Inserted, found bool, err error) {
	var wake Wake
	err = s.write(ctx, func(t *tx) error {
		var broken error
		found = false
		rows, woken, err := s.planSchedules(ctx, t, lockSchedulesSQL, func(_ int64, rows []*Schedule) []NewJob {
			found = true
			job, err := rows[0].NewJob()
			if broken = err; err != nil {
				return nil
			}
			job.UID, job.Repeat = uid, again
			return []NewJob{job}
		}, document([]string{name}), s.given())
		if err = errors.Join(err, broken); err != nil || !found {
			return err
		}
		out, wake = rows[0], woken
		if out.Duplicate || out.Existed {
			return nil
		}
		return s.record(ctx, t, &Act{Action: "schedules run", Subject: name}, 1)
	})
	if err != nil {
		return out, false, fmt.Errorf("run schedule %q: %w", name, err)
	}
	s.Wake(ctx, wake)
	return out, found, nil
}

// firing waits for nobody's unique key for long: the loop that fires has
// other things to do.
var firing = purpose{begin: beginPostgresTurn + `; set local lock_timeout = '250ms'`, engine: true}

// FireSchedules locks those rows among names that are due and that nobody else
// has locked, and writes what plan makes of them. It answers about the jobs in
// their order.
func (s *Store) FireSchedules(ctx context.Context, names []string, plan SchedulePlan) ([]Inserted, error) {
	var out []Inserted
	var wake Wake
	err := s.writeFor(ctx, firing, func(t *tx) (err error) {
		out, wake, err = s.planSchedules(ctx, t, lockDueSchedulesSQL, plan, document(names), s.given(), lookAfterEvery.Microseconds())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("fire schedules: %w", err)
	}
	s.Wake(ctx, wake)
	return out, nil
}

func (s *Store) planSchedules(ctx context.Context, t *tx, lock *statement, plan SchedulePlan, args ...any) ([]Inserted, Wake, error) {
	locked, err := selectRows[struct {
		Schedule
		Now int64 `db:"now"`
	}](ctx, t, s.text(lock), args...)
	if err != nil || len(locked) == 0 {
		return nil, Wake{}, err
	}
	rows := make([]*Schedule, len(locked))
	var now int64
	for i := range locked {
		rows[i], now = &locked[i].Schedule, max(now, locked[i].Now)
	}
	slices.SortFunc(rows, func(a, b *Schedule) int { return strings.Compare(a.Name, b.Name) })
	jobs := plan(now, rows)
	n, err := s.execJSON(ctx, t, saveSchedulesSQL, rows)
	if err == nil && n != int64(len(rows)) {
		err = fmt.Errorf("save schedules: %d of %d rows were there", n, len(rows))
	}
	if err != nil || len(jobs) == 0 {
		return nil, Wake{}, err
	}
	return s.insert(ctx, t, jobs)
}

// NextTick says when schedules are due next.
type NextTick struct {
	Known int           `db:"known"` // how many of them have a row
	At    sql.NullInt64 `db:"at"`    // null: all are paused
	Now   int64         `db:"now"`
}

var nextTickSQL = &statement{
	postgres: `
with c as materialized (select coalesce($2::bigint, ` + pgNow + `) as now)
select count(s.name) as known, min(case when abs(s.seen_at - c.now) > $3 then c.now when not s.paused then s.next_tick end) as at, c.now
from c left join weir_schedules s on s.name = any(array(select value from json_array_elements_text($1::json)))
group by c.now`,
	sqlite: `
select count(*) as known, min(case when abs(seen_at - $2) > $3 then $2 when not paused then next_tick end) as at, $2 as now
from weir_schedules where name in (select value from json_each($1))`,
}

// NextTick says when the first of these schedules is due next, to fire or to be
// looked after.
func (s *Store) NextTick(ctx context.Context, names []string) (NextTick, error) {
	db := s.read
	if s.engine != nil {
		db = s.engine
	}
	var next NextTick
	err := db.GetContext(ctx, &next, s.text(nextTickSQL), document(names), s.given(), lookAfterEvery.Microseconds())
	if err != nil {
		return NextTick{}, fmt.Errorf("look for the next tick: %w", cancelled(ctx, err))
	}
	return next, nil
}

var schedulesSQL = &statement{postgres: `select ` + scheduleColumns + ` from weir_schedules order by name`}

// Schedules lists the schedules' rows by name.
func (s *Store) Schedules(ctx context.Context) ([]Schedule, error) {
	rows, err := selectRows[Schedule](ctx, s.read, s.text(schedulesSQL))
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return rows, nil
}
