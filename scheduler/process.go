package scheduler

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/weirq/weir/internal/store"
)

// For how long a process counts as live that has said so, and how often it does.
// While one is live the strategy of the database stays.
const (
	liveFor   = 30 * time.Second
	liveEvery = liveFor / 4
	// forgetEvery is how often it forgets others that ended without a word.
	forgetEvery = time.Minute
)

func newProcess() store.Process {
	host, _ := os.Hostname() // "" tells less, and does no harm
	return store.Process{ID: uuid.NewString(), Host: host, PID: int64(os.Getpid())}
}

// join says that this process runs jobs, under its strategy, and how it does,
// unless it has just done so.
func (s *Scheduler) join(ctx context.Context) error {
	now := s.clock.Now()
	if now.Before(s.joinAt) {
		return nil
	}
	p := s.process
	p.Slots, p.Running = int64(s.config.concurrency), s.counters.running.Load()
	if spell := s.spell.Load(); spell != nil {
		p.Spell = *spell
	}
	stayed := false
	if !s.joinAt.IsZero() {
		var err error
		if stayed, err = s.store.Stay(ctx, p, liveFor); err != nil {
			return err
		}
	}
	if !stayed {
		if err := s.store.Join(ctx, p, string(s.config.strategy), liveFor); err != nil {
			return err
		}
	}
	s.joinAt = now.Add(liveEvery)
	if !now.Before(s.forgetAt) {
		s.forgetAt = now.Add(forgetEvery)
		_ = s.store.ForgetGone(ctx) // whoever joins does it, too
	}
	return nil
}

// stayJoined says so again and again until ctx ends, and at once when trouble with
// the database is over that the log told of. Where the strategy was
// switched, because this process was suspended for longer than it counted as live,
// it stops.
func (s *Scheduler) stayJoined(ctx context.Context) {
	for {
		fired, release := s.clock.Timer(s.joinAt.Sub(s.clock.Now()))
		select {
		case <-ctx.Done():
			release()
			return
		case <-fired:
		case <-s.sayNow:
			release()
			s.joinAt = s.clock.Now()
		}
		err := s.join(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrStrategy):
			s.quit(err)
			return
		default:
			s.log.Error("process_not_seen", "error", err)
			s.joinAt = s.clock.Now().Add(liveEvery)
		}
	}
}

// leave says that this process runs no jobs any more. If it cannot, it counts as
// live a little longer.
func (s *Scheduler) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonAfter)
	defer cancel()
	if err := s.store.Leave(ctx, s.process.ID); err != nil {
		s.log.Error("process_not_seen", "error", err)
	}
}
