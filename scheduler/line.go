package scheduler

import (
	"slices"
	"time"

	"github.com/weirq/weir/internal/store"
)

// line is a line that this process serves, as far as it knows it.
type line struct {
	store.Line
	task   *task
	limits []*limit
	gates  []*gate
	// ready: it has, or may have, waiting jobs.
	ready bool
	// blocked: a cap or a breaker lets none start until a job behind it ends, or the
	// next survey.
	blocked      bool
	blockedUntil time.Time // the zero time: nobody knows
	// paused: its queue is.
	paused bool
	// quiet: under a hold, it had nothing to shed.
	quiet bool
	// flooded: the last look shed all that it read, and there may be more.
	flooded bool
	share   int // how many jobs of it a look started last, or may have
	// wants: its next job cannot be claimed ahead and waits for a slot.
	wants bool
}

// free tells whether no limit, cap or breaker has a say in the line.
func (l *line) free() bool { return len(l.limits) == 0 && len(l.gates) == 0 }

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
	if !l.ready || l.paused || l.blocked && !due(l.blockedUntil, now) {
		return false
	}
	return !l.held().After(now) || (l.task.excess == Drop && !l.quiet)
}

// learn takes what a look found.
func (l *line) learn(seen *lookLine, slots int) {
	l.wants = seen.wants
	l.blocked, l.blockedUntil = seen.blocked, time.Time{}
	for _, g := range l.gates {
		if g.openUntil.After(l.blockedUntil) {
			l.blockedUntil = g.openUntil
		}
	}
	if seen.max == 0 {
		// On hold, it waits for the end. Paused, for the next survey.
		l.ready = !seen.paused
		return
	}
	l.quiet = !seen.more() && !seen.left()
	l.flooded = seen.shed > 0 && seen.more()
	if seen.fresh {
		return // jobs that were granted before wait for the end of the hold
	}
	l.ready = seen.more() || seen.left() || seen.blocked
	switch {
	case seen.started == seen.ask:
		l.share = min(2*seen.started, slots)
	case seen.started < l.share/3:
		l.share /= 2
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
			l = &line{Line: key, task: t, limits: s.covering(key), gates: s.passing(key)}
			s.lines[key] = l
		}
		l.ready, l.quiet = true, false
		_, l.paused = s.paused[l.Queue]
	}
}

// counts tells whether the jobs of a line count behind the gate.
func (g *gate) counts(l store.Line) bool {
	return g.task != "" && g.task == l.Task || g.queue != "" && g.queue == l.Queue
}

// passing lists the gates that a line passes, by name.
func (s *Scheduler) passing(key store.Line) []*gate {
	var out []*gate
	for _, g := range s.gates {
		if g.counts(key) {
			out = append(out, g)
		}
	}
	return out
}

// unblock lets lines ask again behind whose gates a job ended: there may be room.
func (s *Scheduler) unblock(ended []store.Result) {
	for _, g := range s.gates {
		if !slices.ContainsFunc(ended, func(r store.Result) bool { return g.counts(r.Line) }) {
			continue
		}
		for _, l := range s.lines {
			if slices.Contains(l.gates, g) {
				l.blocked = false
			}
		}
	}
}
