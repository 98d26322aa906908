package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
)

// abandonAfter is how long a stop waits for handlers whose contexts it has
// cancelled, and each time for a database that does not answer.
const abandonAfter = 8 * time.Second

// What is locked when a stop gives up, as by a renewal of its own, is tried again so
// often, in real time.
const (
	lockedTries = 20
	lockedPause = 50 * time.Millisecond
)

// giveUp ends a Drain whose database does not answer. What handlers report is
// not written: their leases run out.
func (s *Scheduler) giveUp() error {
	s.recall(all)
	s.held.cancelAll(errStopped)
	err := s.trouble.err
	s.stopWriting()
	s.work.Wait()
	s.trouble = trouble{}
	return err
}

// stop starts nothing more, and waits for handlers: within the grace, then
// with their contexts cancelled. A patient one tries again what the database does
// not do; that of a Drain gives up, whose clock may stand still.
func (s *Scheduler) stop(ctx context.Context, patient bool) error {
	// A database that does not answer cannot hold up a stop for longer.
	ctx, cancel := context.WithTimeout(ctx, s.config.grace+2*abandonAfter)
	defer cancel()
	cancelAt := s.clock.Now().Add(s.config.grace)
	cancelled, idle := false, false
	s.recall(all)
	for {
		if busy := s.lastStep(ctx); busy {
			continue
		}
		if s.trouble.err != nil && !patient {
			return s.giveUp()
		}
		if s.running == 0 && len(s.results)+len(s.blocked.results) == 0 && s.writing == nil && s.doubtful.claim == 0 {
			s.work.Wait()
			s.shedLog.flush(s.log, s.clock.Now(), true)
			return nil
		}
		now := s.clock.Now()
		if s.running == 0 && !idle { // only results are left, and they cannot be written
			idle, cancelled, cancelAt = true, true, now.Add(abandonAfter)
		}
		switch {
		case now.Before(cancelAt):
		case !cancelled:
			cancelled = true
			s.held.cancelAll(errStopped)
			cancelAt = now.Add(abandonAfter)
			s.log.Info("handlers_cancelled", "running", s.running)
		default:
			return s.abandon(ctx)
		}
		wake := cancelAt
		for _, at := range []time.Time{s.trouble.until, s.blocked.retryAt} {
			if at.After(now) && at.Before(wake) {
				wake = at
			}
		}
		s.sleep(context.WithoutCancel(ctx), wake)
	}
}

// lastStep is a step of a stop: a database that does not answer keeps it from
// its handlers no longer than that.
func (s *Scheduler) lastStep(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return s.step(ctx, false)
}

// abandon gives back the jobs of handlers that do not return.
func (s *Scheduler) abandon(ctx context.Context) error {
	s.collect()
	s.stopWriting()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.patience)
	defer cancel()
	var doubt error
	if s.doubtful.claim != 0 {
		if doubt = s.resolve(ctx); doubt == nil {
			s.recall(all)
		} else {
			doubt = fmt.Errorf("stop: the reply to a claim was lost, and what it started is not known: the leases run out: %w", doubt)
		}
	}
	left := slices.DeleteFunc(s.held.all(), func(j *heldJob) bool { return j.reported.Load() })
	unwritten := len(s.results) + len(s.blocked.results)
	results := slices.Concat(s.results, s.blocked.results)
	for _, h := range left {
		results = append(results, s.interrupted(h.row, errors.New("the handler did not return")))
	}
	if len(results) == 0 {
		return doubt
	}
	out, err := s.store.Turn(ctx, store.TurnRequest{Results: results, SkipLocked: true})
	for n := 0; n < lockedTries && err == nil && len(out.Postponed) > 0; n++ {
		clock.Pause(ctx, lockedPause)
		out, err = s.store.Turn(ctx, store.TurnRequest{Results: out.Postponed, SkipLocked: true})
	}
	if err == nil && len(out.Postponed) > 0 {
		err = fmt.Errorf("%d of them: %w", len(out.Postponed), store.ErrLocked)
	}
	if err != nil {
		return errors.Join(doubt, fmt.Errorf("stop: results not written: %d, jobs not given back: %d; their leases run out: %w", unwritten, len(left), err))
	}
	if len(left) == 0 {
		return doubt
	}
	return errors.Join(doubt, fmt.Errorf("stop: handlers that did not return after their contexts were cancelled: %d; their jobs are given back", len(left)))
}
