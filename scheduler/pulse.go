package scheduler

import "time"

// pulse compares the clock that leases are measured by with one that never
// steps. After a step forward, or a sleep of the machine, all leases look as if
// they had run out. Whoever lives renews them in a moment, so until then none
// is taken back.
type pulse struct {
	now        int64         // the store's time at the last survey, microseconds
	before     time.Duration // on the clock that never steps, when that survey was asked
	keepLeases time.Time
}

// keepLeasesFor is how long at least leases are kept after a step: the time of
// some renewals.
const keepLeasesFor = 4 * renewAtLeast

// leaseEnd puts the end of a lease off to when leases are taken back again.
func (s *Scheduler) leaseEnd(at time.Time) time.Time {
	if at.IsZero() || !at.Before(s.pulse.keepLeases) {
		return at
	}
	return s.pulse.keepLeases
}

// watchClock takes the readings of a survey: the store's time, and what the clock
// that never steps said before it was asked and after it had answered. It was read
// somewhere between, so only what lies outside of both is a step.
func (s *Scheduler) watchClock(now int64, before, after time.Duration) {
	p := &s.pulse
	step := time.Duration(now-p.now)*time.Microsecond - (after - p.before)
	if p.now != 0 && step > time.Second {
		p.keepLeases = s.clock.Now().Add(max(keepLeasesFor, s.config.lease))
		s.log.Warn("clock_stepped_forward", "by", step)
	}
	p.now, p.before = now, before
}
