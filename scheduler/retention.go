package scheduler

import (
	"context"
	"time"
)

// keepEvery is how often finished jobs are looked through.
const keepEvery = time.Minute

// tellWAL is how often the log says that a reader keeps SQLite's WAL large.
const tellWAL = time.Minute

// keepWAL keeps SQLite's WAL small, and says who cannot.
func (s *Scheduler) keepWAL(ctx context.Context) {
	var lines rarely
	s.store.KeepWAL(ctx, func(size int64, held bool) {
		switch {
		case !held:
			s.log.Info("wal_freed", "size", size)
		case lines.due(s.clock.Now(), tellWAL):
			s.log.Warn("wal_held", "size", size)
		}
	})
}

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
