package scheduler

import (
	"time"

	"github.com/weirq/weir/internal/cron"
	"github.com/weirq/weir/internal/store"
)

const (
	// grace is by how much a tick may be late and still be fired as if it were
	// on time.
	grace = time.Minute
	// remembered is for how long a tick that was fired keeps others from coming
	// again where the clock steps back. What lies further ahead was fired by a
	// clock that was wrong, and would silence the schedule until then.
	remembered = 24 * time.Hour
)

// planned is what became of a schedule's row.
type planned struct {
	fire []int64 // ticks, in order
	// The first and the last tick that were missed; zero: none.
	missed, missedUntil int64
	replanned           bool // the plan lay beyond what the clock allows
}

// planTicks brings a row up to now: it says which ticks are fired and moves the
// row to the next. It works on values alone.
func planTicks(row *store.Schedule, spec cron.Spec, now int64) (out planned) {
	row.SeenAt = now
	spec = spec.From(time.UnixMicro(row.Anchor))
	out.replanned = steppedBack(row, spec, now)
	if out.replanned || row.Paused || row.NextTick > now {
		return out
	}
	first := row.NextTick
	row.NextTick = next(spec, now)
	if late := now - first; late < grace.Microseconds() {
		for tick := first; tick <= now; tick = next(spec, tick) {
			out.fire = append(out.fire, tick)
		}
	} else {
		latest := spec.Latest(time.UnixMicro(first), time.UnixMicro(now)).UnixMicro()
		out.missed, out.missedUntil = first, latest
		if now-latest < grace.Microseconds() || MissedTicks(row.Missed) == Once {
			out.fire = []int64{latest}
		}
	}
	if n := len(out.fire); n > 0 {
		row.LastTick = out.fire[n-1]
	}
	return out
}

// steppedBack plans a row anew whose next tick is too far off, because the
// clock has stepped back since it was planned. Ticks that were fired do not come
// again; an interval counts from now.
func steppedBack(row *store.Schedule, spec cron.Spec, now int64) bool {
	ahead := remembered
	if spec.Every() > 0 {
		ahead = grace
	}
	if row.LastTick > now+ahead.Microseconds() {
		row.LastTick = 0
		replan(row, spec, now)
		return true
	}
	if soonest := next(spec, max(now, row.LastTick)); row.NextTick > soonest {
		row.NextTick = soonest
		return true
	}
	return false
}

// replan plans a row from now on.
func replan(row *store.Schedule, spec cron.Spec, now int64) {
	row.Anchor = 0
	if spec.Every() > 0 {
		row.Anchor = now
	}
	row.NextTick = next(spec.From(time.UnixMicro(row.Anchor)), max(now, row.LastTick))
}

func next(spec cron.Spec, after int64) int64 { return spec.Next(time.UnixMicro(after)).UnixMicro() }
