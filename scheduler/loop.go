package scheduler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
)

const (
	// surveyEvery is how often a process looks for what others wrote.
	surveyEvery = 500 * time.Millisecond
	// surveyShare is how much longer than a look the time to the next one is, where
	// looking has become slow.
	surveyShare = 10
	// sweepAgain is when a sweep that could take nothing is tried again.
	sweepAgain = 100 * time.Millisecond
	// company is how long a result waits for the next one, to be written with it,
	// and crowd for how long it waits at most while they come.
	company = 100 * time.Microsecond
	crowd   = time.Millisecond
)

// loop looks, whenever there is something to do, and sleeps until there may
// be. It ends when ctx has ended and everything is written.
func (s *Scheduler) loop(ctx context.Context) error {
	// What is begun is finished: the end of ctx stops starting, not writing.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		fired, release := clock.System{}.Timer(s.patience) // real time: a database takes it
		defer release()
		select {
		case <-fired:
			cancel()
		case <-work.Done():
		}
	})()
	for ctx.Err() == nil {
		busy := s.step(work, true)
		if !busy {
			s.sleep(ctx, s.wakeAt())
		}
	}
	s.log.Info("stopping", "cause", context.Cause(ctx), "running", s.running, "grace", s.config.grace)
	return s.stop(context.WithoutCancel(ctx), true)
}

// drain looks until nothing may start without time passing.
func (s *Scheduler) drain(ctx context.Context) error {
	work := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		switch busy := s.step(work, true); {
		case s.trouble.err != nil:
			return s.giveUp()
		case busy:
		case s.running > 0 || s.writing != nil:
			s.sleep(ctx, time.Time{})
		default:
			return s.ticks.giveUp()
		}
	}
	return errors.Join(ctx.Err(), s.stop(work, false))
}

// step does what there is to do now, and tells whether there may be more.
func (s *Scheduler) step(ctx context.Context, starting bool) bool {
	s.collect()
	s.gather()
	now := s.clock.Now()
	if now.Before(s.trouble.until) {
		return false
	}
	if s.doubtful.claim != 0 {
		if err := s.resolve(ctx); err != nil {
			s.fail("claim", err)
			return false
		}
		if starting {
			s.handOut(0)
		} else {
			s.recall(all)
		}
	}
	if due(s.blocked.retryAt, now) {
		for _, r := range s.blocked.results {
			s.toWrite(r)
		}
		s.blocked.results, s.blocked.retryAt = nil, time.Time{}
	}
	// Leases are taken back only by what was just read of the clock.
	if starting && (!now.Before(s.surveyAt) || due(s.leaseAt, now)) {
		if err := s.survey(ctx); err != nil {
			s.fail("survey", err)
			return false
		}
	}
	fired := starting && s.fire(ctx)
	if starting {
		s.writeBeside(ctx)
		s.share(now)
		defer func() { s.share(s.clock.Now()) }()
	}
	sweep := starting && (due(s.dueAt, now) || due(s.leaseAt, now) || due(s.expiryAt, now))
	k, again, err := s.plan(ctx, now, starting)
	if err != nil {
		s.failLimits(err)
		return false
	}
	if len(s.results) == 0 && !sweep && k == nil {
		if starting { // it has looked around since what failed, and there is nothing to do
			s.recover()
		}
		return fired || again
	}
	if err := s.turn(ctx, k, sweep); err != nil {
		s.fail("turn", err)
		return false
	}
	return true
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// collect takes what handlers and producers delivered.
func (s *Scheduler) collect() {
	results, news, written := s.mail.collect()
	s.finished.add(s.clock.Now(), len(results))
	for _, r := range results {
		if !r.Kept {
			s.running--
		}
		s.toWrite(r)
	}
	if written != nil {
		s.returned(written)
	}
	s.counters.running.Store(int64(s.running))
	s.unblock(results)
	s.arrive(news.Lines)
	if news.Due != 0 {
		s.soon(time.UnixMicro(news.Due))
	}
	if news.Look {
		s.surveyAt = time.Time{}
	}
}

// toWrite keeps a result until it is written.
func (s *Scheduler) toWrite(r store.Result) {
	// The database is told of claims as a set: what was started anew here
	// must not be taken for the attempt that ended.
	if j, ok := s.latest[r.ID]; ok && j.row.Claim.Int64 != r.Claim {
		s.forget(r)
		s.refuse(r)
		return
	}
	s.results = append(s.results, r)
}

// forget ends what is known here of an attempt.
func (s *Scheduler) forget(r store.Result) {
	s.held.remove(store.Held{ID: r.ID, Claim: r.Claim})
	if j, ok := s.latest[r.ID]; ok && j.row.Claim.Int64 == r.Claim {
		delete(s.latest, r.ID)
	}
}

// soon notes that a scheduled job is due at a time.
func (s *Scheduler) soon(at time.Time) {
	if s.dueAt.IsZero() || at.Before(s.dueAt) {
		s.dueAt = at
	}
}

// gather gives results that are about to come a moment to come along, where
// the handlers are quicker than the database: until all have ended, or a quarter
// of the slots where jobs that were claimed ahead keep them busy. This wait is real
// time: under an injected clock nobody would end it.
func (s *Scheduler) gather() {
	full := func() bool {
		return s.running == 0 || s.ahead.len() > 0 && len(s.results) >= s.config.concurrency/4
	}
	if len(s.results) == 0 || full() {
		return
	}
	over, release := clock.System{}.Timer(crowd)
	defer release()
	for !full() && s.rings(over) {
		s.collect()
	}
}

// rings waits for the bell for a moment, and not longer than until it is over.
func (s *Scheduler) rings(over <-chan time.Time) bool {
	alone, release := clock.System{}.Timer(company)
	defer release()
	select {
	case <-s.mail.bell:
		return true
	case <-alone:
	case <-over:
	}
	return false
}

// survey looks for what other processes wrote.
func (s *Scheduler) survey(ctx context.Context) error {
	at, before := s.clock.Now(), clock.Elapsed(s.clock)
	ctx, cancel := context.WithTimeout(ctx, s.config.lease)
	defer cancel()
	seen, err := s.store.Survey(ctx, slices.Collect(maps.Keys(s.tasks)), names(s.limits))
	if err != nil {
		return err
	}
	after := clock.Elapsed(s.clock)
	s.paused = seen.Paused
	s.recall(s.overstays(at))
	s.watchClock(seen.Now, before, after)
	s.arrive(seen.Lines)
	s.dueAt, s.leaseAt, s.expiryAt = local(seen.Due, seen.Now, at), s.leaseEnd(local(seen.Lease, seen.Now, at)), local(seen.Expiry, seen.Now, at)
	for key, l := range s.lines {
		_, l.paused = s.paused[l.Queue]
		if l.blocked = false; !l.ready {
			delete(s.lines, key) // a queue may be used once
		}
	}
	for _, l := range s.limits {
		l.heldUntil = time.Time{}
		if l.window != nil {
			continue // a window holds by its end
		}
		if over := seen.Over[l.Name]; over != l.over {
			l.over, l.changed = over, true
		}
		if held := seen.Held[l.Name]; held <= seen.Now+longestHold(l.Declared.Limit) {
			l.heldUntil = local(held, seen.Now, at)
		} // else the row is damaged, or slower than declared: a look decides
	}
	s.surveyAt = at.Add(max(surveyEvery, surveyShare*(clock.Elapsed(s.clock)-before)))
	return s.surveyTicks(ctx)
}

// local turns a stored time into one on this process's clock, which read at
// when the store's read now. The zero time stays.
func local(stored, now int64, at time.Time) time.Time {
	if stored == 0 {
		return time.Time{}
	}
	// What lies further off than a duration can say is only looked at again.
	const far = int64(1000 * 24 * time.Hour / time.Microsecond)
	return at.Add(time.Duration(min(max(stored, now-far), now+far)-now) * time.Microsecond)
}

// turn writes results and runs a look, in one transaction.
func (s *Scheduler) turn(ctx context.Context, k *look, sweep bool) error {
	req := store.TurnRequest{Results: s.results, Sweep: sweep, Lease: s.config.lease}
	req.SkipLocked, req.KeepLeases = s.goesRound(), !due(s.leaseAt, s.clock.Now())
	if k != nil {
		req.Claim = int64(s.config.random() >> 1)
		req.Admit, req.More = s.admission(k, &req), k.more
		for _, l := range k.limits {
			req.Limits = append(req.Limits, l.limit.Declared)
		}
		for _, g := range k.gates {
			req.Gates = append(req.Gates, g.name)
		}
	}
	began := s.clock.Now()
	turning, cancel := context.WithTimeout(ctx, s.config.lease)
	defer cancel()
	out, err := s.store.Turn(turning, req)
	if errors.Is(err, store.ErrOutcomeUnknown) {
		// The results are written again; what was claimed is ours if it is there.
		repeat(s.results)
		if req.Claim == 0 {
			return err
		}
		s.doubtful = doubtful{claim: req.Claim, look: k, began: began}
		err = errors.Join(err, s.resolve(ctx))
		s.handOut(0)
		return err
	}
	if err != nil {
		return err
	}
	s.recover()
	s.counters.looks.Add(1)
	written := s.results
	if len(out.Postponed) > 0 {
		written = slices.DeleteFunc(written, func(r store.Result) bool {
			return slices.ContainsFunc(out.Postponed, func(p store.Result) bool { return p.ID == r.ID })
		})
	}
	s.wrote(written, out.Refused)
	s.results = nil
	s.passedOver(k, out.Postponed)
	s.tellOthers(ctx, written)
	s.admitted(ctx, k, out.Started, out.At)
	s.begun(k, s.hold(out.Started, out.At)) //nolint:contextcheck // as above
	if sweep {
		s.swept(out.Swept)
	}
	if k != nil {
		s.learn(k, out)
	}
	return nil
}

// begun hands on what a look started, and then the slots that it left to jobs
// claimed ahead.
func (s *Scheduler) begun(k *look, jobs []*heldJob) {
	if k == nil {
		return
	}
	direct := min(k.direct, len(jobs))
	for _, j := range jobs[:direct] {
		s.hand(j)
	}
	s.ahead.add(jobs[direct:])
	s.handOut(k.kept)
}

// tellOthers wakes the schedulers that may wait for a place behind a cap.
func (s *Scheduler) tellOthers(ctx context.Context, ended []store.Result) {
	freed := func(r store.Result) bool {
		l, known := s.lines[r.Line]
		return known && len(l.gates) > 0
	}
	if len(s.gates) > 0 && slices.ContainsFunc(ended, freed) {
		s.store.Announce(ctx, store.Wake{Look: true})
	}
}

// swept notes what a sweep brought back.
func (s *Scheduler) swept(w store.Swept) {
	s.arrive(w.Lines)
	if w.Expired > 0 {
		s.log.Info("jobs_expired", "count", w.Expired)
	}
	if w.Lost+len(w.Dead) > 0 {
		s.log.Warn("leases_lost", "back_in_line", w.Lost, "dead", len(w.Dead))
	}
	for _, r := range w.Dead {
		s.tellDead(r)
	}
	s.dueAt, s.leaseAt, s.expiryAt = local(w.Due, w.Now, w.At), s.leaseEnd(local(w.Lease, w.Now, w.At)), local(w.Expiry, w.Now, w.At)
	if w.Promoted+w.Lost+len(w.Dead)+w.Expired == 0 {
		// What is due is locked by another session, such as another process's
		// sweep.
		again := w.At.Add(sweepAgain)
		for _, at := range []*time.Time{&s.dueAt, &s.leaseAt, &s.expiryAt} {
			if !at.IsZero() && at.Before(again) {
				*at = again
			}
		}
	}
}

// wakeAt is when there may be something to do although nobody rings.
func (s *Scheduler) wakeAt() time.Time {
	now := s.clock.Now()
	if now.Before(s.trouble.until) {
		return s.trouble.until
	}
	wake := s.surveyAt
	sooner := func(at time.Time) {
		if !at.IsZero() && at.Before(wake) {
			wake = at
		}
	}
	sooner(s.dueAt)
	sooner(s.leaseAt)
	sooner(s.expiryAt)
	sooner(s.blocked.retryAt)
	sooner(s.ticks.dueAt())
	slots := s.running < s.config.concurrency
	for _, l := range s.lines {
		at := l.held()
		if l.blocked {
			at = l.blockedUntil
		}
		// Without a slot, what is claimed ahead is to leave the next one.
		if l.ready && !l.paused && (slots || s.ahead.len() > 0 && at.After(now)) {
			sooner(at)
		}
	}
	sooner(s.shedLog.flushAt())
	return wake
}

// sleep waits for the bell, a time, or the end of ctx. The zero time never
// comes.
func (s *Scheduler) sleep(ctx context.Context, until time.Time) {
	var fired <-chan time.Time
	if !until.IsZero() {
		var release func()
		fired, release = s.clock.Timer(until.Sub(s.clock.Now()))
		defer release()
	}
	select {
	case <-s.mail.bell:
	case <-fired:
	case <-ctx.Done():
	}
	s.shedLog.flush(s.log, s.clock.Now(), false)
}
