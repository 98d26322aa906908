package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/weirq/weir/internal/store"
)

// Where the database lets two transactions write at once, completed jobs are
// written beside the loop, which claims meanwhile what comes next. Only results
// go that way in which nobody has a say and for which nobody waits; what cannot be
// written so comes back to the loop, and goes the way of all others.

const (
	// besideLeast is how many results are worth a transaction of their own.
	besideLeast = 50
	// besideWithin is how long that may take.
	besideWithin = 10 * time.Second
	// besideAgain is when it is tried again after it has failed. Whether the
	// database is well, the loop finds out.
	besideAgain = 30 * time.Second
)

// beside is results that are written beside the loop, and what came of them.
type beside struct {
	results []store.Result
	refused []store.Result
	err     error
}

// writeBeside has completed jobs written beside the loop, where that is worth it.
func (s *Scheduler) writeBeside(ctx context.Context) {
	if s.writing != nil || !s.store.WritesAtOnce() || s.clock.Now().Before(s.besideAt) || s.goesRound() {
		return
	}
	n := 0
	for _, r := range s.results {
		if !s.awaited(r) {
			n++
		}
	}
	if n < s.besideLeast {
		return
	}
	b, others := &beside{results: make([]store.Result, 0, n)}, make([]store.Result, 0, len(s.results)-n)
	for _, r := range s.results {
		if s.awaited(r) {
			others = append(others, r)
		} else {
			b.results = append(b.results, r)
		}
	}
	s.results = others
	writing, cancel := context.WithTimeout(ctx, min(s.config.lease, besideWithin))
	s.writing = cancel
	s.work.Go(func() {
		out, err := s.store.Turn(writing, store.TurnRequest{Results: b.results})
		b.refused, b.err = out.Refused, err
		s.mail.written(b)
	})
}

// awaited tells whether a result is for the loop to write: caps and breakers look
// at what has ended, and what is not completed may go back in line.
func (s *Scheduler) awaited(r store.Result) bool {
	if r.Outcome != store.Done || r.Repeated {
		return true
	}
	l, known := s.lines[r.Line]
	return len(s.gates) > 0 && (!known || len(l.gates) > 0)
}

// returned takes back what was written beside the loop, or could not be.
func (s *Scheduler) returned(b *beside) {
	s.writing()
	s.writing = nil
	if b.err == nil {
		s.wrote(b.results, b.refused)
		return
	}
	s.besideAt = s.clock.Now().Add(besideAgain)
	s.log.Info("results_returned", "count", len(b.results), "error", b.err)
	switch {
	case errors.Is(b.err, store.ErrOutcomeUnknown):
		repeat(b.results)
	case errors.Is(b.err, store.ErrLocked):
		s.goRound()
	}
	for _, r := range b.results {
		s.toWrite(r)
	}
}

// stopWriting waits for what is written beside the loop, and for no database.
func (s *Scheduler) stopWriting() {
	for s.writing != nil {
		s.writing()
		<-s.mail.bell
		s.collect()
	}
}

// wrote notes that results are written, but for those that came too late.
func (s *Scheduler) wrote(results, refused []store.Result) {
	s.count(results, refused)
	for _, r := range results {
		s.forget(r)
	}
}

// repeat marks results of which nobody knows whether they were written.
func repeat(results []store.Result) {
	for i := range results {
		results[i].Repeated = true
	}
}
