package cron

import (
	"math/bits"
	"sort"
	"time"
)

const (
	minute = 60 // seconds
	day    = 24 * 60 * minute
	// farthest is how far off the rarest date can be: 29 February, over a
	// century's end without one.
	farthest = 10 * 366 * day
)

// From returns the spec counted from an anchor. It matters for an interval
// alone.
func (s Spec) From(anchor time.Time) Spec {
	if s.every > 0 {
		s.anchor = anchor.UnixMicro()
	}
	return s
}

// In returns t on the clock of the spec's zone; UTC where it has none.
func (s Spec) In(t time.Time) time.Time {
	if s.zone == nil {
		return t.UTC()
	}
	return t.In(s.zone)
}

// Next is the first tick after t: strictly later.
func (s Spec) Next(t time.Time) time.Time {
	if s.every > 0 {
		step := s.every.Microseconds()
		return s.In(time.UnixMicro(s.anchor + (floorDiv(t.UnixMicro()-s.anchor, step)+1)*step))
	}
	at := t.Unix() + 1
	for last := at + farthest; at < last; {
		p := s.period(at, last)
		if found, ok := s.within(p, at); ok {
			return s.In(time.Unix(found, 0))
		}
		at = p.end
	}
	return time.Time{} // Parse lets no such spec pass
}

// Latest is the last tick at or before until, given that from is a tick.
func (s Spec) Latest(from, until time.Time) time.Time {
	after := func(n int) time.Time { return from.Add(time.Duration(n) * time.Second) }
	n := sort.Search(int(until.Unix()-from.Unix()), func(n int) bool { return s.Next(after(n)).After(until) })
	return s.In(after(n))
}

// period is a time in which the clock of a zone is not changed: from start to
// end, in seconds since 1970. clock is its reading then, as seconds that UTC
// would show it at.
type period struct {
	start, end    int64
	offset        int64
	before, after int64 // the clock at start, before and after it was changed
}

func (s Spec) period(at, last int64) period {
	t := time.Unix(at, 0).In(s.zone)
	start, end := t.ZoneBounds()
	_, offset := t.Zone()
	p := period{start: at - day, end: last, offset: int64(offset)}
	if !end.IsZero() {
		// On the last day of a leap year the time package can answer with an end
		// that has passed: then the day's is taken.
		if p.end = end.Unix(); p.end <= at {
			p.end = (floorDiv(at, day) + 1) * day
		}
		p.end = min(p.end, last)
	}
	if !start.IsZero() {
		p.start = start.Unix()
		_, before := start.Add(-1).Zone()
		p.before, p.after = p.start+int64(before), p.start+p.offset
	}
	return p
}

// within is the first tick of a period that is not before at.
func (s Spec) within(p period, at int64) (int64, bool) {
	from := at + p.offset
	switch {
	case p.before < p.after && at == p.start && !s.hourly():
		if _, leftOut := s.reading(p.before, p.after); leftOut {
			return at, true
		}
	case p.before > p.after && !s.hourly() && !s.severalAnHour():
		from = max(from, p.before) // what comes again has been
	}
	found, ok := s.reading(from, p.end+p.offset)
	return found - p.offset, ok
}

// reading is the first reading of the clock from one to before another that
// the fields name.
func (s Spec) reading(from, until int64) (int64, bool) {
	from = -floorDiv(-from, minute) * minute
	for midnight := floorDiv(from, day) * day; midnight < until; midnight += day {
		if !s.named(time.Unix(midnight, 0).UTC()) {
			continue
		}
		if found, ok := s.timeOfDay(max(from-midnight, 0) / minute); ok {
			return midnight + found*minute, midnight+found*minute < until
		}
	}
	return 0, false
}

// named tells whether the fields name a date. Where both the day and the
// weekday are given, either will do.
func (s Spec) named(date time.Time) bool {
	if !has(s.months, int(date.Month())) {
		return false
	}
	byDay, byWeekday := has(s.days, date.Day()), has(s.weekdays, int(date.Weekday()))
	if s.days&star != 0 || s.weekdays&star != 0 {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}

// timeOfDay is the first time that the fields name, from a minute of the day
// on.
func (s Spec) timeOfDay(from int64) (int64, bool) {
	minutes := s.minutes &^ star
	for hour, past := from/60, from%60; hour < 24; hour, past = hour+1, 0 {
		if rest := minutes >> past; has(s.hours, int(hour)) && rest != 0 {
			return hour*60 + past + int64(bits.TrailingZeros64(rest)), true
		}
	}
	return 0, false
}

func (s Spec) hourly() bool { return bits.OnesCount64(s.hours&^star) == 24 }

func (s Spec) severalAnHour() bool { return bits.OnesCount64(s.minutes&^star) > 1 }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
