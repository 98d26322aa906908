package scheduler

import (
	"slices"

	"github.com/weirq/weir/internal/store"
)

// A flood that is shed takes look after look. Work that has no limit and no cap
// in common with it does not wait behind them: every other look leaves the
// flood out, if there is anything else to look for, and is over soon.

// besideFlood is what a look asks of these lines.
func (s *Scheduler) besideFlood(lines []*line) []*line {
	if s.aside || !slices.ContainsFunc(lines, func(l *line) bool { return l.flooded }) {
		s.aside = false
		return lines
	}
	rest := slices.DeleteFunc(slices.Clone(lines), func(l *line) bool { return slices.ContainsFunc(lines, l.withFlood) })
	if s.aside = len(rest) > 0; !s.aside {
		return lines
	}
	return rest
}

// withFlood tells whether a line is a flood that has something in common with
// this one, or is this one.
func (l *line) withFlood(flood *line) bool {
	return flood.flooded && (l == flood ||
		slices.ContainsFunc(l.limits, func(x *limit) bool { return slices.Contains(flood.limits, x) }) ||
		slices.ContainsFunc(l.gates, func(x *gate) bool { return slices.Contains(flood.gates, x) }))
}

// A floodLook is a look that may shed much. It begins when the database lets it:
// if by then work has come that does not share anything with the flood, it
// leaves the flood out, so that the next look, which starts that work, comes at
// once. It does so once in a row.
type floodLook struct {
	*look

	s *Scheduler
}

// mindful is a look, as a floodLook where there is a flood in it.
func (s *Scheduler) mindful(k *look) store.Admission {
	if slices.ContainsFunc(k.lines, func(l *lookLine) bool { return l.line.flooded }) {
		return floodLook{k, s}
	}
	return k
}

// Ask implements store.Admission.
func (f floodLook) Ask(now int64, locked store.Locked) []store.Ask {
	if f.s.gaveWay = !f.s.gaveWay && f.s.mail.tells(f.outside); f.s.gaveWay {
		f.lines = slices.DeleteFunc(f.lines, func(l *lookLine) bool { return l.line.flooded })
	}
	return f.look.Ask(now, locked)
}

// outside tells whether a line has nothing in common with a flood of this look.
func (f floodLook) outside(key store.Line) bool {
	t, served := f.s.tasks[key.Task]
	if !served {
		return false
	}
	l, known := f.s.lines[key]
	if !known {
		l = &line{Line: key, task: t, limits: f.s.covering(key), gates: f.s.passing(key)}
	}
	return !slices.ContainsFunc(f.lines, func(seen *lookLine) bool { return l.withFlood(seen.line) })
}
