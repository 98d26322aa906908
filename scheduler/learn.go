package scheduler

import (
	"time"

	"github.com/weirq/weir/internal/store"
)

// learn takes over what a look found out about lines and limits.
func (s *Scheduler) learn(k *look, out store.TurnResult) {
	s.unjudged = k.unjudged
	for _, g := range k.gates {
		g.openUntil = time.Time{}
		if g.row.OpenUntil > out.Now {
			g.openUntil = local(g.row.OpenUntil, out.Now, out.At)
		}
		if g.opened {
			s.log.Warn("breaker_opened", "task", g.task, "until", time.UnixMicro(g.row.OpenUntil).UTC())
		}
		if g.closed {
			s.log.Info("breaker_closed", "task", g.task)
		}
	}
	for _, seen := range k.lines {
		seen.line.learn(seen, k.slots+k.ahead)
	}
	s.counters.deferred.Add(int64(k.deferred))
	for _, l := range k.limits {
		if l.limit.changed && l.row.Busy {
			l.limit.over = "" // the next survey asks again: no look could do more now
		}
		l.limit.changed = false
		l.limit.heldUntil = time.Time{}
		if l.row.HeldUntil > out.Now {
			l.limit.heldUntil = local(l.row.HeldUntil, out.Now, out.At)
		}
		s.counters.shed.Add(l.shed)
		s.shedLog.add(l.row.Name, l.shed)
		s.tell(l)
	}
	s.shedLog.flush(s.log, s.clock.Now(), false)
}

// tell logs what is odd about a limit, once.
func (s *Scheduler) tell(l *lookLimit) {
	if l.repaired {
		s.log.Warn("limit_repaired", "limit", l.row.Name, "level", l.bucket.Level)
	}
	s.tellIgnored(l.limit, l.ignored)
	if l.steppedBack {
		s.log.Warn("clock_stepped_back", "limit", l.row.Name)
	}
	if old := l.switched; !old.Rate.IsZero() {
		if _, told := l.limit.switched[old.String()]; !told {
			if l.limit.switched == nil {
				l.limit.switched = map[string]struct{}{}
			}
			l.limit.switched[old.String()] = struct{}{}
			s.log.Info("limit_rate_changed", "limit", l.row.Name, "from", old.String(), "to", l.bucket.Limit.String())
		}
	}
}

// tellIgnored logs once that an override is no rate; "": it is one.
func (s *Scheduler) tellIgnored(l *limit, override string) {
	if override == l.ignored {
		return
	}
	if l.ignored = override; override != "" {
		s.log.Warn("limit_override_ignored", "limit", l.Name, "rate", override)
	}
}
