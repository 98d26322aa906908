package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/internal/store"
)

// lane is how this process claims under the fixed-window strategy: it reads the
// limits, opens windows that are over, claims at most one job that limits cover
// together with any number that none covers, counts that one, and runs it. One
// after the other: so at most one start of a process is not counted yet.
type lane struct {
	interval time.Duration
	readAt   time.Time // when the limits were last read, by this process's clock
	spent    bool      // a job that limits cover was claimed since
}

// ErrLimitGone is returned by Run and Drain where the row of a limit is gone that
// was there when the process began.
var ErrLimitGone = errors.New("the limit's row is gone from the database")

// enter leaves out the lines that a limit keeps from starting. It tells whether
// there may be more to do at once.
func (s *Scheduler) enter(ctx context.Context, lines []*line) (open []*line, again bool, err error) {
	if !slices.ContainsFunc(lines, (*line).covered) {
		return lines, false, nil
	}
	if again, err = s.readLimits(ctx, lines); err != nil {
		return nil, false, err
	}
	return slices.DeleteFunc(lines, s.throttled), again, nil
}

func (l *line) covered() bool { return len(l.limits) > 0 }

// readLimits reads the limits unless what was read last still holds for a start,
// and opens windows that are over.
func (s *Scheduler) readLimits(ctx context.Context, lines []*line) (again bool, err error) {
	now := s.clock.Now()
	stale := func(l *line) bool {
		room := l.covered()
		for _, l := range l.limits {
			if l.window.outlived(now) {
				return true
			}
			room = room && l.window.room()
		}
		return room && s.lane.spent
	}
	if !now.Before(s.lane.readAt.Add(s.lane.interval)) || slices.ContainsFunc(lines, stale) {
		if err := s.refresh(ctx); err != nil {
			return false, err
		}
	}
	var over []*limit
	for _, line := range lines {
		if slices.ContainsFunc(line.limits, func(l *limit) bool { return !l.window.room() }) {
			continue // nothing of it starts: none of its windows is to begin
		}
		for _, l := range line.limits {
			if l.window.over && !l.window.exact {
				over = append(over, l)
			}
		}
	}
	slices.SortFunc(over, byName)
	return s.roll(ctx, slices.Compact(over))
}

// throttled tells whether a limit keeps a line from starting, and holds such a
// limit until that may be over.
func (s *Scheduler) throttled(line *line) bool {
	shut := false
	for _, l := range line.limits {
		if l.window.room() {
			continue
		}
		shut, l.heldUntil = true, l.window.ends
		if l.window.stopped() {
			l.heldUntil = s.surveyAt // by then an operator may have another word, or the row be free
		}
	}
	return shut
}

// refresh reads the windows of all limits, in one statement, and tries whether
// those that are closed can be written again.
func (s *Scheduler) refresh(ctx context.Context) error {
	asked := s.clock.Now()
	rows, err := s.store.Windows(ctx, names(s.limits))
	if err != nil {
		return err
	}
	at := s.clock.Now()
	byName := make(map[string]store.Window, len(rows))
	for _, r := range rows {
		byName[r.Name] = r
	}
	for _, l := range s.limits {
		row, there := byName[l.Name]
		if !there {
			return fmt.Errorf("limit %q: %w: it is made again when a process that declares it starts", l.Name, ErrLimitGone)
		}
		l.window.read(row, at)
		s.tellIgnored(l, l.window.odd)
	}
	s.counters.refreshes.Add(1)
	s.lane.readAt, s.lane.spent = asked, false
	for _, l := range s.limits {
		if l.window.losses.closed {
			s.probe(ctx, l)
		}
	}
	return nil
}

// failLimits ends a pass before its claim. A limit whose row is gone is no limit:
// this process does not go on without it.
func (s *Scheduler) failLimits(err error) {
	if errors.Is(err, ErrLimitGone) {
		s.quit(err)
		return
	}
	s.fail("limits", err)
}

// roll opens the windows after those that were read. Of several processes one
// does; the others keep what they read. It tells whether some were others'.
func (s *Scheduler) roll(ctx context.Context, limits []*limit) (others bool, err error) {
	if len(limits) == 0 {
		return false, nil
	}
	skip := s.goesRound()
	rolled, err := s.store.RollWindows(ctx, ids(limits), skip)
	if err != nil {
		return false, err
	}
	s.counters.rolls.Add(int64(len(rolled)))
	at := s.clock.Now()
	for _, l := range limits {
		i := slices.IndexFunc(rolled, func(r store.RolledWindow) bool { return r.Name == l.Name })
		if i >= 0 {
			l.window.rolled(rolled[i].From, at)
			continue
		}
		l.window.lose(skip)
		others = others || !l.window.stuck
	}
	return others, nil
}

// ids name the generations that were read.
func ids(limits []*limit) []store.WindowID {
	out := make([]store.WindowID, len(limits))
	for i, l := range limits {
		out[i] = l.window.id(l.Name)
	}
	return out
}

// probe reopens a closed limit if a count in its row would land. That is no count: the
// next start that is not counted closes it again.
func (s *Scheduler) probe(ctx context.Context, l *limit) {
	landed, err := s.store.ProbeWindow(ctx, l.window.id(l.Name))
	if err != nil || !landed {
		return // it stays closed, and is tried at the next refresh
	}
	l.window.losses.closed = false
	s.counters.reopened.Add(1)
	s.log.Info("rate_limit_reopened", "limit", l.Name)
}

// admission is what decides in a turn.
func (s *Scheduler) admission(k *look, req *store.TurnRequest) store.Admission {
	if s.lane == nil {
		return s.mindful(k)
	}
	k.windows = newWindows(k.lines)
	for _, l := range k.windows.limits {
		if l.window.exact {
			req.Windows = append(req.Windows, l.Name)
		}
	}
	return k
}

// admitted counts the job of a claim that limits cover, before it runs.
func (s *Scheduler) admitted(ctx context.Context, k *look, jobs []store.Job, at time.Time) {
	if k == nil || k.windows == nil {
		return
	}
	k.windows.learn(at)
	for _, j := range jobs {
		if limits := s.lines[store.Line{Task: j.Task, Queue: j.Queue}].limits; len(limits) > 0 {
			s.lane.spent = true
			s.record(ctx, j, limits)
		}
	}
}

// unresolved notes a claim whose leases are over, and of which nobody knows whether
// it was made: the database does not say, or others may have taken its jobs back.
func (s *Scheduler) unresolved(k *look, found []store.Job, err error) {
	if k == nil || k.windows == nil || k.windows.admitted == nil {
		return
	}
	line := k.windows.admitted
	if slices.ContainsFunc(found, func(j store.Job) bool { return j.Task == line.Task && j.Queue == line.Queue }) {
		return
	}
	if err == nil {
		err = errors.New("its lease ran out")
	}
	for _, l := range line.limits {
		if !l.window.exact {
			s.uncounted(l, store.Job{Task: line.Task}, fmt.Sprintf("nobody knows whether it was claimed: %v", err))
		}
	}
}

// rollsInARow is how often a window may be rolled out from under a count.
const rollsInARow = 5

// record counts a start in the windows that were read, in one statement; where one
// was rolled meanwhile, in the window that is there now. The start has happened, so
// a count that cannot be written is told, and the job runs.
func (s *Scheduler) record(ctx context.Context, job store.Job, limits []*limit) {
	s.counters.admissions.Add(1)
	ctx, cancel := context.WithTimeout(ctx, s.config.lease/4)
	defer cancel()
	left := slices.DeleteFunc(slices.Clone(limits), func(l *limit) bool { return l.window.exact })
	lose := func(reason string, limits ...*limit) {
		for _, l := range limits {
			s.uncounted(l, job, reason)
		}
	}
	for rolls := 1; len(left) > 0; rolls++ {
		landed, err := s.store.CountWindows(ctx, ids(left))
		if err != nil {
			lose(err.Error(), left...)
			return
		}
		left = slices.DeleteFunc(left, func(l *limit) bool {
			there := slices.Contains(landed, l.Name)
			if there {
				l.window.losses.landed()
			}
			return there
		})
		switch {
		case len(left) == 0:
			return
		case rolls == rollsInARow:
			lose(fmt.Sprintf("its window was rolled %d times in a row", rolls), left...)
			return
		}
		if left, err = s.reread(ctx, left, lose); err != nil {
			lose(err.Error(), left...)
			return
		}
	}
}

// reread finds the windows that are there now, for a count, and returns the limits
// that have another one.
func (s *Scheduler) reread(ctx context.Context, limits []*limit, lose func(string, ...*limit)) ([]*limit, error) {
	rows, err := s.store.Windows(ctx, names(limits))
	if err != nil {
		return limits, err
	}
	at := s.clock.Now()
	return slices.DeleteFunc(limits, func(l *limit) bool {
		i := slices.IndexFunc(rows, func(r store.Window) bool { return r.Name == l.Name })
		switch {
		case i < 0:
			lose("its row is gone", l)
			return true
		case rows[i].ID == l.window.row.ID:
			lose("its row is locked, or does not take the count", l)
			return true
		}
		l.window.read(rows[i], at)
		return false
	}), nil
}

// uncounted notes a start that a limit's counter did not record: each is one more
// than the bound of its window.
func (s *Scheduler) uncounted(l *limit, job store.Job, reason string) {
	s.counters.uncounted.Add(1)
	s.log.Warn("rate_limit_uncounted", "limit", l.Name, "task", job.Task, "job_id", job.UID, "reason", reason)
	if l.window.losses.add(l.window.row.ID) {
		s.counters.closed.Add(1)
		s.log.Error("rate_limit_closed", "limit", l.Name, "in_a_row", l.window.losses.run, "in_window", l.window.losses.within)
	}
}
