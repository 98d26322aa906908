package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/internal/store"
)

// plan prepares a look: the lines that may have something to do, the limits
// that cover them, the gates they pass, and what breakers learn of the results.
// It is nil where there is nothing to ask. An error came of reading limits, before
// anything was spent; again tells that there may be more to do at once.
func (s *Scheduler) plan(ctx context.Context, now time.Time, starting bool) (k *look, again bool, err error) {
	k = &look{slots: s.config.concurrency - s.running, ahead: s.aheadRoom(now)}
	k.waiting = s.ahead.places(k.slots)
	gates := s.outcomes(k)
	var lines []*line
	var limits []*limit
	if starting {
		if lines, again, err = s.toAsk(ctx, now, k); err != nil {
			return nil, false, err
		}
		limits = s.toLock(lines)
	}
	for _, l := range lines {
		gates = append(gates, l.gates...)
	}
	if len(lines) == 0 && len(gates) == 0 && len(limits) == 0 {
		return nil, again, nil
	}
	slices.SortFunc(gates, byGateName)
	gates = slices.Compact(gates)
	k.outcomes = append(k.outcomes, s.unjudged...)
	for _, l := range limits {
		k.limits = append(k.limits, &lookLimit{declared: l.Declared.Limit, mode: l.mode, limit: l})
	}
	for _, g := range gates {
		k.gates = append(k.gates, &lookGate{gate: g})
	}
	for _, l := range lines {
		k.lines = append(k.lines, &lookLine{
			Line: l.Line, drop: l.task.excess == Drop, free: l.free(), retries: l.task.maxRetries, share: l.share, line: l,
			limits: places(limits, l.limits, byName), gates: places(gates, l.gates, byGateName),
		})
	}
	return k, again, nil
}

// toAsk lists the lines of a look.
func (s *Scheduler) toAsk(ctx context.Context, now time.Time, k *look) (lines []*line, again bool, err error) {
	if k.slots+k.ahead <= 0 {
		return nil, false, nil
	}
	for _, l := range s.lines {
		if l.askable(now) && (k.slots > 0 || l.free() && !l.wants) {
			lines = append(lines, l)
		}
	}
	lines = s.besideFlood(lines)
	if s.lane == nil {
		return lines, false, nil
	}
	return s.enter(ctx, lines)
}

// toLock lists the limits of a look by name: those of its lines, and those that
// an operator changed. Windows are not locked.
func (s *Scheduler) toLock(lines []*line) (limits []*limit) {
	if s.lane != nil {
		return nil
	}
	for _, l := range lines {
		limits = append(limits, l.limits...)
	}
	for _, l := range s.limits {
		if l.changed {
			limits = append(limits, l)
		}
	}
	slices.SortFunc(limits, byName)
	return slices.Compact(limits)
}

// places tells where some are in a sorted list, of those that are in it.
func places[T any](all, some []T, compare func(a, b T) int) (at []int) {
	for _, x := range some {
		if i, there := slices.BinarySearchFunc(all, x, compare); there {
			at = append(at, i)
		}
	}
	return at
}

// outcomes tells a look of the attempts whose results are to be written, as far
// as a breaker asks, and returns those breakers.
func (s *Scheduler) outcomes(k *look) (gates []*gate) {
	if !s.breakers {
		return nil
	}
	for _, r := range s.results {
		for _, g := range s.gates {
			if g.breaker.Failures > 0 && g.task == r.Line.Task && (r.Failed || r.Outcome == store.Done) {
				k.outcomes = append(k.outcomes, outcome{id: r.ID, claim: r.Claim, task: g.task, startedAt: r.StartedAt, failed: r.Failed})
				gates = append(gates, g)
			}
		}
	}
	return gates
}
