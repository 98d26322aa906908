package scheduler

import (
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/internal/store"
)

// Handlers that are quicker than the database would wait for it: a look can
// start no more jobs than there are free slots, and by the time of its commit
// they are all free again. So jobs that no limit covers are claimed ahead, as
// many as this process just finished in a moment, and wait here, in their order,
// for slots. A job that may not wait so is never claimed ahead: one that a limit,
// a cap or a breaker has a say in, one that may expire, one that was granted
// before, and one on its last start, which would die with this process without
// having run.

const (
	// aheadFor is the moment: what is claimed ahead is started about so soon.
	aheadFor = 50 * time.Millisecond
	// aheadMost bounds a turn.
	aheadMost = 2000
	// aheadLongest is how long a job may wait here: its slots are held by handlers
	// that have become slow, while what is more urgent waits behind it and other
	// processes may have slots.
	aheadLongest = 500 * time.Millisecond
)

// ahead are jobs that were claimed ahead. Handlers that end take the next by
// themselves, unless the loop wants to decide who has the slot.
type ahead struct {
	mu    sync.Mutex
	jobs  []*heldJob      // in their order
	yield bool            // slots that become free are the loop's
	over  <-chan struct{} // closed where nothing more is to be started
}

func (a *ahead) begin(over <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = over
}

// next takes the next job for a slot that becomes free.
func (a *ahead) next() *heldJob {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.yield || len(a.jobs) == 0 {
		return nil
	}
	select {
	case <-a.over:
		return nil
	default:
	}
	j := a.jobs[0]
	a.jobs = a.jobs[1:]
	return j
}

// take takes the first n jobs.
func (a *ahead) take(n int) []*heldJob {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = min(n, len(a.jobs))
	taken := a.jobs[:n:n]
	a.jobs = a.jobs[n:]
	return taken
}

// recall takes the jobs that must not wait here any longer.
func (a *ahead) recall(which func(*heldJob) bool) (out []*heldJob) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var left []*heldJob
	for _, j := range a.jobs {
		if which(j) {
			out = append(out, j)
		} else {
			left = append(left, j)
		}
	}
	a.jobs = left
	return out
}

func (a *ahead) add(jobs []*heldJob) {
	if len(jobs) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.jobs = slices.Concat(a.jobs, jobs)
	slices.SortStableFunc(a.jobs, func(a, b *heldJob) int { return byPlace(placeOf(a.row), placeOf(b.row)) })
}

// setYield tells whether the loop wants the slots that become free.
func (a *ahead) setYield(yield bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.yield = yield
}

// places are those of the first n jobs.
func (a *ahead) places(n int) []store.Candidate {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]store.Candidate, min(n, len(a.jobs)))
	for i := range out {
		out[i] = placeOf(a.jobs[i].row)
	}
	return out
}

func (a *ahead) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.jobs)
}

func placeOf(row store.Job) store.Candidate {
	return store.Candidate{ID: row.ID, Rank: row.Rank, FirstDue: row.FirstDue}
}

// recently counts what ended within the last moment.
type recently struct {
	ends []ends
	sum  int
}

// ends are jobs that ended at one time.
type ends struct {
	at time.Time
	n  int
}

func (r *recently) add(at time.Time, n int) {
	if n > 0 {
		r.ends = append(r.ends, ends{at, n})
		r.sum += n
	}
}

func (r *recently) count(now time.Time) int {
	gone := 0
	for _, e := range r.ends {
		if age := now.Sub(e.at); age >= 0 && age < aheadFor {
			break
		}
		r.sum -= e.n
		gone++
	}
	r.ends = r.ends[gone:]
	return r.sum
}

// aheadRoom is how many more jobs may be claimed ahead now.
func (s *Scheduler) aheadRoom(now time.Time) int {
	return max(min(s.finished.count(now), aheadMost)-s.ahead.len(), 0)
}

// mayWait tells whether a job may be claimed ahead.
func (l *lookLine) mayWait(c store.Candidate) bool {
	if !l.free || c.Granted || c.Expires {
		return false
	}
	return c.MaxRetries > 0 || c.MaxRetries < 0 && l.retries > 0
}

// leave leaves slots to the jobs claimed ahead that come before another one.
func leave(slots int, waiting []store.Candidate, to store.Candidate) (int, []store.Candidate) {
	for slots > 0 && len(waiting) > 0 && byPlace(waiting[0], to) < 0 {
		slots, waiting = slots-1, waiting[1:]
	}
	return slots, waiting
}

// joins tells whether a job for which there is no slot is claimed ahead. What
// comes after one that is not, in its line, does not overtake it.
func (l *lookLine) joins(c store.Candidate) bool {
	if l.wants = l.wants || !l.mayWait(c); l.wants {
		return false
	}
	l.started++
	return true
}

// share gives free slots to jobs that were claimed ahead. Where a line has jobs
// that only a look can start, the look says who is first.
func (s *Scheduler) share(now time.Time) {
	wanted := s.ahead.len() > 0 && s.wanted(now)
	s.ahead.setYield(wanted)
	if !wanted {
		s.handOut(0)
	}
}

func (s *Scheduler) wanted(now time.Time) bool {
	for _, l := range s.lines {
		if (!l.free() || l.wants) && l.askable(now) {
			return true
		}
	}
	return false
}

func (s *Scheduler) handOut(kept int) {
	for _, j := range s.ahead.take(max(s.config.concurrency-s.running-kept, 0)) {
		s.hand(j)
	}
}

// recall gives jobs that were claimed ahead back to their lines, with their
// attempts.
func (s *Scheduler) recall(which func(*heldJob) bool) {
	for _, j := range s.ahead.recall(which) {
		j.reported.Store(true)
		s.results = append(s.results, givenBack(j.row))
	}
}

func all(*heldJob) bool { return true }

// overstays tells which jobs may not wait here any longer at now.
func (s *Scheduler) overstays(now time.Time) func(*heldJob) bool {
	return func(j *heldJob) bool {
		_, paused := s.paused[j.row.Queue]
		return paused || now.Sub(j.since) >= aheadLongest
	}
}
