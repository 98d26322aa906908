package scheduler

import (
	"time"

	"github.com/weirq/weir/internal/store"
)

// A line is asked for at least so many jobs at a time.
const minShare = 8

// line is a line that this process serves, as far as it knows it.
type line struct {
	store.Line
	task   *task
	limits []*limit
	// ready: it has, or may have, waiting jobs.
	ready bool
	// quiet: under a hold, it had nothing to shed.
	quiet bool
	share int
}

// held tells until when no ordinary job of the line may start.
func (l *line) held() time.Time {
	var until time.Time
	for _, lim := range l.limits {
		if lim.heldUntil.After(until) {
			until = lim.heldUntil
		}
	}
	return until
}

// askable tells whether a look at now has anything to do for the line.
func (l *line) askable(now time.Time) bool {
	if !l.ready {
		return false
	}
	return !l.held().After(now) || (l.task.excess == Drop && !l.quiet)
}

// learn takes what a look found.
func (l *line) learn(seen *lookLine, slots int) {
	if seen.max == 0 {
		// On hold, it waits for the end. Paused, for the next survey.
		l.ready = !seen.paused
		return
	}
	l.quiet = !seen.more() && !seen.left()
	if seen.fresh {
		return // jobs that were granted before wait for the end of the hold
	}
	l.ready = seen.more() || seen.left()
	if !seen.shared {
		return
	}
	switch {
	case seen.started == l.share:
		l.share = min(2*l.share, max(slots, minShare))
	case seen.started < l.share/3:
		l.share = max(l.share/2, minShare)
	}
}

// arrive marks lines that have new jobs.
func (s *Scheduler) arrive(lines []store.Line) {
	for _, key := range lines {
		t, served := s.tasks[key.Task]
		if !served {
			continue
		}
		l, known := s.lines[key]
		if !known {
			l = &line{Line: key, task: t, limits: s.covering(key), share: s.config.concurrency}
			s.lines[key] = l
		}
		l.ready, l.quiet = true, false
	}
}
