package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirq/weir/dlq"
)

// keepEvery is how often finished jobs and dead letters are looked through.
const keepEvery = time.Minute

// Keep bounds what is kept; zero fields set no bound.
type Keep struct {
	Age   time.Duration // at least a minute
	Count int64         // at least 1
}

// DeadRetention bounds the dead letters of a kind: what died longer ago than an
// age, and the oldest beyond a number, is removed within a minute, whoever made
// it. Default: dead letters are kept until somebody replays or purges them.
func DeadRetention(kind dlq.Kind, keep Keep) Option {
	return optionFunc(func(c *config) error {
		_, err := dlq.ParseKind(string(kind))
		errs := []error{err}
		if keep.Age != 0 && keep.Age < time.Minute {
			errs = append(errs, fmt.Errorf("age %v: use 1m or more, or leave it out", keep.Age))
		}
		if keep.Count < 0 {
			errs = append(errs, fmt.Errorf("count %d: use 1 or more, or leave it out", keep.Count))
		}
		if keep == (Keep{}) {
			errs = append(errs, errors.New("neither an age nor a count: give one of them"))
		}
		if c.deadRetention == nil {
			c.deadRetention = map[dlq.Kind]Keep{}
		}
		if _, twice := c.deadRetention[kind]; twice {
			errs = append(errs, errors.New("given twice: keep one"))
		}
		c.deadRetention[kind] = keep
		return about("retention of dead letters, "+string(kind), errs...)
	})
}

// keep removes what retention says is to go, batch by batch, so that no batch
// holds the writer for long.
func (s *Scheduler) keep(ctx context.Context) {
	if s.config.retention == 0 && len(s.config.deadRetention) == 0 {
		return
	}
	for {
		err := errors.Join(s.keepHistory(ctx), s.keepDead(ctx))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("retention_failed", "error", err)
		}
		fired, release := s.clock.Timer(keepEvery)
		select {
		case <-ctx.Done():
			release()
			return
		case <-fired:
		}
	}
}

// keepHistory removes finished jobs that are older than the retention.
func (s *Scheduler) keepHistory(ctx context.Context) error {
	if s.config.retention == 0 {
		return nil
	}
	removed, err := s.store.PurgeHistory(ctx, s.config.retention)
	if removed > 0 {
		s.log.Info("jobs_removed", "count", removed, "older_than", s.config.retention)
	}
	return err
}

// keepDead removes dead letters that are older, or more, than is to be kept.
func (s *Scheduler) keepDead(ctx context.Context) error {
	errs := make([]error, 0, len(s.config.deadRetention))
	for kind, keep := range s.config.deadRetention {
		removed, err := s.store.KeepDead(ctx, string(kind), keep.Age, keep.Count)
		if removed.ByAge+removed.ByCount > 0 {
			s.log.Info("dead_letters_removed", "kind", string(kind), "by_age", removed.ByAge, "by_count", removed.ByCount)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
