package scheduler

import "slices"

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
