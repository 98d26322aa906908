package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/internal/store"
)

// heldJob is a job that this process was granted and has not reported.
type heldJob struct {
	row        store.Job
	cancel     context.CancelCauseFunc
	run        func()       // the attempt, in a slot
	next       *heldJob     // what has the slot after it
	since      time.Time    // when it was granted
	leaseUntil atomic.Int64 // on this process's clock; microseconds since 1970
	lost       atomic.Bool
	reported   atomic.Bool // its handler has ended; the result may not be written yet
}

func (j *heldJob) key() store.Held { return store.Held{ID: j.row.ID, Claim: j.row.Claim.Int64} }

// heldJobs are the jobs whose leases this process renews: those it really has,
// until their results are written.
type heldJobs struct {
	mu   sync.Mutex
	jobs map[store.Held]*heldJob
}

func (h *heldJobs) add(j *heldJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs[j.key()] = j
}

func (h *heldJobs) remove(key store.Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.jobs, key)
}

func (h *heldJobs) all() []*heldJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*heldJob, 0, len(h.jobs))
	for _, j := range h.jobs {
		out = append(out, j)
	}
	return out
}

// lapsed tells whether a job's lease ran out: in a process that was suspended
// between the grant and the hand-over.
func (j *heldJob) lapsed(now time.Time) bool { return past(time.UnixMicro(j.leaseUntil.Load()), now) }

// past tells whether a lease is over at now: without the monotonic reading,
// which stands still while a machine sleeps.
func past(until, now time.Time) bool { return !now.Round(0).Before(until.Round(0)) }

func (h *heldJobs) cancelAll(cause error) {
	for _, j := range h.all() {
		j.cancel(cause)
	}
}

// renewAtLeast is how often the leases are looked at however long they are:
// whose job was cancelled hears of it then at the latest.
const renewAtLeast = 5 * time.Second

// renewLeases renews until ctx ends, often enough to survive two ticks that
// fail.
func (s *Scheduler) renewLeases(ctx context.Context) {
	every := min(s.config.lease/4, renewAtLeast)
	wait := every
	for {
		fired, release := s.clock.Timer(wait)
		select {
		case <-ctx.Done():
			release()
			return
		case <-fired:
		case <-s.renewNow:
			release()
		}
		if wait = every; !s.renew(ctx) {
			wait = every / 4
		}
	}
}

// renew extends the leases of the jobs held, and cancels the handlers of those
// that are no longer this process's. It tells whether the database answered.
func (s *Scheduler) renew(ctx context.Context) bool {
	jobs := s.held.all()
	if len(jobs) == 0 {
		return true
	}
	held := make([]store.Held, len(jobs))
	for i, j := range jobs {
		held[i] = j.key()
	}
	asked := s.clock.Now()
	asking, cancel := context.WithTimeout(ctx, s.config.lease/4)
	defer cancel()
	kept, err := s.store.Renew(asking, held, s.config.lease.Microseconds())
	if err != nil && ctx.Err() == nil && s.renewals.due(s.clock.Now(), tellRenewals) {
		s.log.Error("lease_renewal_failed", "jobs", len(jobs), "error", err)
	}
	again := false
	for _, j := range jobs {
		left, ours := kept[j.key()]
		switch {
		case ours:
			j.leaseUntil.Store(asked.UnixMicro() + left)
			again = again || j.lapsed(s.clock.Now()) // it was long under way
		case err == nil || j.lapsed(s.clock.Now()):
			s.loseLease(j)
		}
	}
	return err == nil && !again
}

// loseLease cancels a handler whose job is no longer this process's. One that
// has reported in the meantime was not lost.
func (s *Scheduler) loseLease(j *heldJob) {
	if !j.reported.Load() && j.lost.CompareAndSwap(false, true) {
		s.log.Warn("lease_lost", "job_id", j.row.UID, "task", j.row.Task, "attempt", j.row.Attempt)
		j.cancel(ErrLeaseLost)
	}
}
