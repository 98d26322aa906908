package scheduler

// Delivered is how many results handlers have delivered that the loop has not
// taken yet.
func (s *Scheduler) Delivered() int { return s.mail.waitingForTest() }

func (m *mail) waitingForTest() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.results)
}
