package main

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/scheduler"
)

const (
	progressEvery    = time.Second      // at a terminal
	progressLogEvery = 10 * time.Second // in a log
)

// showProgress tells, while there is work, how far it is: on a line of its own
// at a terminal, else now and then in the log.
func (s *server) showProgress(ctx context.Context) {
	every := progressLogEvery
	if s.errTerminal {
		every = progressEvery
		defer s.console.settle()
	}
	last := s.stats()
	for {
		tick, release := s.clock.Timer(every)
		select {
		case <-ctx.Done():
			release()
			return
		case <-tick:
		}
		now := s.stats()
		if !worked(last, now) {
			continue
		}
		if s.errTerminal {
			s.console.show(fitting(progressLine(last, now, every), s.errWidth()))
		} else {
			s.log.Info("progress", "started", now.Started, "completed", now.Completed, "retried", now.Retried, "failed", now.Failed,
				"deferred", now.Deferred, "shed", now.Shed, "running", now.Running, "free", now.Free)
		}
		last = now
	}
}

// worked tells whether anything happened or is happening.
func worked(last, now scheduler.Stats) bool {
	idle := now
	idle.Looks = last.Looks // looking is no work
	return idle != last || now.Running > 0
}

func progressLine(last, now scheduler.Stats, every time.Duration) string {
	return fmt.Sprintf("running %d  started %d (%.0f/s)  done %d  retried %d  failed %d  deferred %d  shed %d",
		now.Running, now.Started, float64(now.Started-last.Started)/every.Seconds(),
		now.Completed, now.Retried, now.Failed, now.Deferred, now.Shed)
}

// fitting cuts a line to a terminal's width: one that wraps cannot be written
// over.
func fitting(line string, width int) string {
	if width > 0 && len(line) >= width {
		return line[:width-1]
	}
	return line
}
