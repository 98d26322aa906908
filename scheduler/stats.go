package scheduler

import "sync/atomic"

// Stats counts what this process did since it began to run, and shows what it
// is doing.
type Stats struct {
	Started   int64 `json:"started"`
	Completed int64 `json:"completed"`
	Retried   int64 `json:"retried"` // failed attempts that will be tried again
	Failed    int64 `json:"failed"`  // jobs that became dead letters here
	Deferred  int64 `json:"deferred"`
	Shed      int64 `json:"shed"`
	Refused   int64 `json:"refused"` // late results that no longer counted
	Unseen    int64 `json:"unseen"`  // events that a slow subscriber missed
	Looks     int64 `json:"looks"`   // turns at the database
	Running   int64 `json:"running"`

	// Under the fixed-window strategy.
	Refreshes  int64 `json:"refreshes"`  // reads of the limits
	Rolls      int64 `json:"rolls"`      // windows opened here
	Admissions int64 `json:"admissions"` // starts that limits cover
	Uncounted  int64 `json:"uncounted"`  // of those, by limit, what a counter did not record
	Closed     int64 `json:"closed"`     // limits closed because of that
	Reopened   int64 `json:"reopened"`

	Free int64 `json:"free"` // handler slots
}

type counters struct {
	started, completed, retried, failed, deferred, shed, refused, unseen, looks, running atomic.Int64
	refreshes, rolls, admissions, uncounted, closed, reopened                            atomic.Int64
}

// Stats may be called at any time.
func (s *Scheduler) Stats() Stats {
	c := &s.counters
	running := c.running.Load()
	return Stats{
		Started: c.started.Load(), Completed: c.completed.Load(), Retried: c.retried.Load(), Failed: c.failed.Load(),
		Deferred: c.deferred.Load(), Shed: c.shed.Load(), Refused: c.refused.Load(), Unseen: c.unseen.Load(), Looks: c.looks.Load(),
		Refreshes: c.refreshes.Load(), Rolls: c.rolls.Load(), Admissions: c.admissions.Load(),
		Uncounted: c.uncounted.Load(), Closed: c.closed.Load(), Reopened: c.reopened.Load(),
		Running: running, Free: int64(s.config.concurrency) - running,
	}
}
