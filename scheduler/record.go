package scheduler

import (
	"context"
	"errors"

	"github.com/weirq/weir/internal/store"
)

// Where the database lets two transactions write at once, completed jobs are
// written beside the loop, which claims meanwhile what comes next. Only results
// go that way in which nobody has a say and for which nobody waits; what cannot be
// written so comes back to the loop, and goes the way of all others.

// recordLeast is how many results are worth a transaction of their own.
const recordLeast = 50

// record is results that are written beside the loop.
type record struct {
	results []store.Result
	refused []store.Result
	err     error
}

// recordBeside has completed jobs written beside the loop, where that is worth it.
func (s *Scheduler) recordBeside(ctx context.Context) {
	if len(s.results) < s.recordLeast || s.recording != nil || s.trouble.err != nil || s.goesRound() || !s.store.WritesAtOnce() {
		return
	}
	rec := &record{results: make([]store.Result, 0, len(s.results))}
	var others []store.Result
	for _, r := range s.results {
		if s.awaited(r) {
			others = append(others, r)
		} else {
			rec.results = append(rec.results, r)
		}
	}
	if len(rec.results) < s.recordLeast {
		return
	}
	s.results = others
	writing, cancel := context.WithTimeout(ctx, s.config.lease)
	s.recording = cancel
	s.work.Go(func() {
		out, err := s.store.Turn(writing, store.TurnRequest{Results: rec.results})
		rec.refused, rec.err = out.Refused, err
		s.mail.recorded(rec)
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

// recorded takes back what was written beside the loop, or could not be.
func (s *Scheduler) recorded(rec *record) {
	s.recording()
	s.recording = nil
	if rec.err == nil {
		s.wrote(rec.results, rec.refused)
		return
	}
	if errors.Is(rec.err, store.ErrOutcomeUnknown) {
		repeat(rec.results)
	}
	for _, r := range rec.results {
		s.toWrite(r)
	}
	s.fail("record", rec.err)
}

// stopRecording waits for what is written beside the loop, and for no database.
func (s *Scheduler) stopRecording() {
	for s.recording != nil {
		s.recording()
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
