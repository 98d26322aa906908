package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirq/weir/internal/cron"
	"github.com/weirq/weir/internal/store"
)

const (
	// fireAgain is when schedules are looked after again that somebody else is
	// just looking after.
	fireAgain = 50 * time.Millisecond
	// retryFire is how long after a failure ticks are tried again.
	retryFire = time.Second
)

// ticks is what the loop knows of the schedules of this process.
type ticks struct {
	names   []string  // sorted
	at      time.Time // when one is due, to fire or to be looked after; the zero time: not known
	retryAt time.Time // not before, after a failure
	err     error     // of the latest try
	alone   bool      // it failed: one that cannot be fired must not keep the others
	told    rarely    // that they failed
}

// dueAt is when the loop has to fire although nobody rings.
func (t *ticks) dueAt() time.Time {
	if !t.at.IsZero() && t.at.Before(t.retryAt) {
		return t.retryAt
	}
	return t.at
}

// declareSchedules stores what this process says of its schedules: of one that is
// new or has another spec the ticks are planned from now.
func (s *Scheduler) declareSchedules(ctx context.Context) error {
	if len(s.ticks.names) == 0 {
		return nil
	}
	var changed []store.Schedule
	err := s.store.DeclareSchedules(ctx, s.ticks.names, func(now int64, rows []*store.Schedule) []store.NewJob {
		changed = nil
		for _, row := range rows {
			c := s.schedules[row.Name]
			if c.differs(row) {
				if row.Cron != "" {
					changed = append(changed, *row)
				}
				c.declare(row, now)
			}
			row.Missed = string(c.missed)
			row.SetJob(c.job)
		}
		return nil
	})
	for i := range changed {
		s.tellSpec(&changed[i], specOf(&changed[i]), s.schedules[changed[i].Name].spec.String())
	}
	return err
}

// declare writes the schedule into a row and plans it from now.
func (c *schedule) declare(row *store.Schedule, now int64) {
	row.Cron, row.Timezone, row.Missed = c.spec.Cron(), c.spec.Zone(), string(c.missed)
	row.SetJob(c.job)
	replan(row, c.spec, now)
}

func (c *schedule) differs(row *store.Schedule) bool {
	return row.Cron != c.spec.Cron() || row.Timezone != c.spec.Zone()
}

func specOf(row *store.Schedule) string {
	if row.Timezone == "" {
		return row.Cron
	}
	return row.Cron + " " + row.Timezone
}

// surveyTicks asks when a schedule is due next. A row that is gone is declared
// anew.
func (s *Scheduler) surveyTicks(ctx context.Context) error {
	t := &s.ticks
	if len(t.names) == 0 {
		return nil
	}
	next, err := s.store.NextTick(ctx, t.names)
	if err == nil && next.Known < len(t.names) {
		if err = s.declareSchedules(ctx); err == nil {
			next, err = s.store.NextTick(ctx, t.names)
		}
	}
	if err != nil {
		return err
	}
	t.at = time.Time{}
	if next.At.Valid {
		t.at = local(next.At.Int64, next.Now, s.clock.Now())
	}
	return nil
}

// fire enqueues the jobs of the ticks that are due, and tells whether there were
// any. A failure holds up nothing else.
func (s *Scheduler) fire(ctx context.Context) bool {
	t := &s.ticks
	if !due(t.dueAt(), s.clock.Now()) {
		return false
	}
	groups := [][]string{t.names}
	if t.alone {
		groups = slices.Collect(slices.Chunk(t.names, 1))
	}
	t.err = nil
	fired := false
	for _, names := range groups {
		some, err := s.fireAll(ctx, names)
		fired = fired || some
		t.err = errors.Join(t.err, err)
	}
	if t.err == nil {
		t.err = s.surveyTicks(ctx)
	}
	if t.alone = t.err != nil; t.alone {
		t.retryAt = s.clock.Now().Add(retryFire)
		if t.told.due(s.clock.Now(), tellRenewals) {
			s.log.Error("schedules_failed", "error", t.err, "next_try_in", retryFire)
		}
		return fired
	}
	if now := s.clock.Now(); !fired && due(t.at, now) {
		t.at = now.Add(fireAgain)
	}
	return fired
}

// giveUp ends a Drain: the next one tries again at once.
func (t *ticks) giveUp() error {
	err := t.err
	t.err, t.retryAt = nil, time.Time{}
	return err
}

// tick is one that was fired: the index of its job among those enqueued.
type tick struct {
	at  int64
	job int
}

// fireAll fires those of the named schedules that are due, in one transaction,
// and then tells what it did.
func (s *Scheduler) fireAll(ctx context.Context, names []string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.lease)
	defer cancel()
	var done []lookedAfter
	jobs, err := s.store.FireSchedules(ctx, names, func(now int64, rows []*store.Schedule) (jobs []store.NewJob) {
		done = nil // of a try before
		for _, row := range rows {
			l := s.lookAfter(row, now)
			for _, at := range l.fire {
				job, err := row.TickJob(at)
				if err != nil { // the row was just read, or mended
					continue
				}
				l.ticks = append(l.ticks, tick{at, len(jobs)})
				jobs = append(jobs, job)
			}
			done = append(done, l)
		}
		return jobs
	})
	if err != nil {
		return false, err
	}
	for i := range done {
		s.tellTicks(&done[i], jobs)
	}
	return len(jobs) > 0, nil
}

// lookedAfter is a row that was looked after, and what came of it.
type lookedAfter struct {
	planned
	row    *store.Schedule
	ticks  []tick
	mended error // why the row was declared anew
}

// lookAfter brings a row up to now. What the row says holds, whatever this
// process has declared: another one declared it later. One that cannot be read is
// declared anew.
func (s *Scheduler) lookAfter(row *store.Schedule, now int64) lookedAfter {
	l := lookedAfter{row: row}
	c := s.schedules[row.Name]
	spec := c.spec
	if c.differs(row) {
		spec, l.mended = cron.Parse(row.Cron, row.Timezone)
	}
	if l.mended == nil {
		_, l.mended = row.NewJob()
	}
	if l.mended != nil {
		spec = c.spec
		c.declare(row, now)
	}
	l.planned = planTicks(row, spec, now)
	return l
}

// tellTicks logs what became of a schedule.
func (s *Scheduler) tellTicks(l *lookedAfter, jobs []store.Inserted) {
	name := l.row.Name
	if l.mended != nil {
		s.log.Warn("schedule_repaired", "schedule", name, "error", l.mended)
	}
	if l.replanned {
		s.log.Warn("schedule_replanned", "schedule", name, "next", time.UnixMicro(l.row.NextTick).UTC())
	}
	if own := s.schedules[name]; own.differs(l.row) {
		s.tellSpec(l.row, own.spec.String(), specOf(l.row))
	}
	if l.missed != 0 {
		s.log.Warn("schedule_missed", "schedule", name, "from", time.UnixMicro(l.missed).UTC(), "until", time.UnixMicro(l.missedUntil).UTC(), "fired", len(l.ticks))
	}
	for _, t := range l.ticks {
		job := jobs[t.job]
		s.log.Debug("schedule_fired", "schedule", name, "tick", time.UnixMicro(t.at).UTC(), "job_id", job.UID, "duplicate", job.Duplicate || job.Existed)
	}
}

// tellSpec logs that a schedule has another spec, each once.
func (s *Scheduler) tellSpec(row *store.Schedule, from, to string) {
	c := s.schedules[row.Name]
	if _, told := c.told[specOf(row)]; told {
		return
	}
	if c.told == nil {
		c.told = map[string]struct{}{}
	}
	c.told[specOf(row)] = struct{}{}
	s.log.Info("schedule_changed", "schedule", row.Name, "from", from, "to", to)
}
