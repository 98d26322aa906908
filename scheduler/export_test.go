package scheduler

import "time"

// WakeAt is when there may be something to do, between two calls of Drain.
func (s *Scheduler) WakeAt() time.Time { return s.wakeAt() }

// Delivered is how many results handlers have delivered that the loop has not
// taken yet.
func (s *Scheduler) Delivered() int { return s.mail.waitingForTest() }

func (m *mail) waitingForTest() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.results)
}

// SetLease sets a lease shorter than the option allows.
func (s *Scheduler) SetLease(d time.Duration) { s.config.lease = d }

// SetPatience sets for how long a stop waits for a database that does not answer.
func (s *Scheduler) SetPatience(d time.Duration) { s.patience = d }

// WriteAllBeside has every result that may be written beside the loop written so,
// however few there are.
func (s *Scheduler) WriteAllBeside() { s.besideLeast = 1 }

// Yields tells whether the loop decides who has the next free slot.
func (s *Scheduler) Yields() bool {
	s.ahead.mu.Lock()
	defer s.ahead.mu.Unlock()
	return s.ahead.yield
}

// Looks is how many turns there were.
func (s *Scheduler) Looks() int64 { return s.counters.looks.Load() }

// Reported is how many of the jobs held have a result.
func (s *Scheduler) Reported() (n int) {
	for _, j := range s.held.all() {
		if j.reported.Load() {
			n++
		}
	}
	return n
}

// Lost is how many of the jobs held are no longer this process's.
func (s *Scheduler) Lost() (n int) {
	for _, j := range s.held.all() {
		if j.lost.Load() {
			n++
		}
	}
	return n
}
