package scheduler

import (
	"context"
	"time"
)

// keepEvery is how often finished jobs are looked through.
const keepEvery = time.Minute

// keepHistory removes finished jobs that are older than the retention, batch by
// batch, so that no batch holds the writer for long.
func (s *Scheduler) keepHistory(ctx context.Context) {
	if s.config.retention == 0 {
		return
	}
	for {
		removed, err := s.store.PurgeHistory(ctx, s.config.retention)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("retention_failed", "error", err)
		case removed > 0:
			s.log.Info("jobs_removed", "count", removed, "older_than", s.config.retention)
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
