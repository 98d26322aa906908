package scheduler

import (
	"context"
	"time"
)

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
