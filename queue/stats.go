package queue

import (
	"context"
	"slices"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// Stats is how a database's jobs stand, at the database's time. Numbers beyond
// [CountBound] that would have to be counted are capped: there are more.
type Stats struct {
	At       time.Time `json:"at"`
	Strategy string    `json:"strategy" wire:"null"` // "": no process has run jobs yet

	Waiting       int64 `json:"waiting"`
	WaitingCapped bool  `json:"waiting_capped,omitzero"`
	// Throttled and Paused are among those that wait. Throttled: a limit of theirs
	// has no token, or its window is full. Paused: their queue or a limit of theirs.
	Throttled       int64 `json:"throttled"`
	ThrottledCapped bool  `json:"throttled_capped,omitzero"`
	Paused          int64 `json:"paused"`
	PausedCapped    bool  `json:"paused_capped,omitzero"`
	Scheduled       int64 `json:"scheduled"`
	ScheduledCapped bool  `json:"scheduled_capped,omitzero"`
	Running         int64 `json:"running"`
	RunningCapped   bool  `json:"running_capped,omitzero"`
	// Completed and Cancelled are those that retention has left. Where there are
	// more than CountBound of both, they are counted among the latest.
	Completed       int64 `json:"completed"`
	CompletedCapped bool  `json:"completed_capped,omitzero"`
	Cancelled       int64 `json:"cancelled"`
	CancelledCapped bool  `json:"cancelled_capped,omitzero"`
	Dead            Dead  `json:"dead"`

	Queues    []QueueInfo   `json:"queues"`
	Processes []ProcessInfo `json:"processes"` // that run jobs, by host and pid
}

// MarshalJSON writes the stats with stable names.
func (s Stats) MarshalJSON() ([]byte, error) { return wire.Object(s) }

// Dead is how many dead letters there are, by kind.
type Dead struct {
	Failed  int64 `json:"failed"`
	Expired int64 `json:"expired"`
	Shed    int64 `json:"shed"`
}

// ProcessInfo is a process that runs jobs, as it last said of itself: it does so
// every few seconds, and counts as live for half a minute.
type ProcessInfo struct {
	Host      string    `json:"host"`
	PID       int64     `json:"pid"`
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Slots     int64     `json:"slots"` // how many handlers it runs at once
	Running   int64     `json:"running"`
	// Error is what the database answered the last time it failed this process,
	// from ErrorFrom to ErrorUntil by the process's clock; empty: it never did. A
	// zero ErrorUntil: it still does, in part, or the process could not have said so.
	Error      string    `json:"error" wire:"null"`
	ErrorFrom  time.Time `json:"error_from"`
	ErrorUntil time.Time `json:"error_until"`
}

// MarshalJSON writes the process with stable names.
func (p ProcessInfo) MarshalJSON() ([]byte, error) { return wire.Object(p) }

// Stats counts jobs and dead letters and shows who runs them. It takes no longer
// the more there are.
func (c *Client) Stats(ctx context.Context) (*Stats, error) {
	if err := c.store.InPlace(); err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := &Stats{At: wire.Time(now), Processes: []ProcessInfo{}}
	if out.Strategy, err = c.store.Strategy(ctx); err != nil {
		return nil, err
	}
	if out.Queues, err = c.Queues(ctx); err != nil {
		return nil, err
	}
	var scheduled, running int64
	for _, q := range out.Queues {
		scheduled += q.Scheduled
		running += q.Running
	}
	out.Scheduled, out.ScheduledCapped = capped(scheduled)
	out.Running, out.RunningCapped = capped(running)
	if err := c.countLines(ctx, out); err != nil {
		return nil, err
	}
	ended, err := c.store.CountEnded(ctx)
	if err != nil {
		return nil, err
	}
	more := ended.Completed+ended.Cancelled > CountBound
	out.Completed, out.CompletedCapped = min(ended.Completed, CountBound), more
	out.Cancelled, out.CancelledCapped = min(ended.Cancelled, CountBound), more
	if out.Dead.Failed, out.Dead.Expired, out.Dead.Shed, err = c.store.DeadByKind(ctx); err != nil {
		return nil, err
	}
	processes, err := c.store.Processes(ctx)
	if err != nil {
		return nil, err
	}
	for i := range processes {
		out.Processes = append(out.Processes, newProcessInfo(&processes[i]))
	}
	return out, nil
}

// countLines counts the jobs that wait, and tells those apart that something
// holds up.
func (c *Client) countLines(ctx context.Context, out *Stats) error {
	limits, err := c.limits(ctx)
	if err != nil {
		return err
	}
	lines, err := c.store.Lines(ctx)
	if err != nil {
		return err
	}
	pausedQueue := map[string]bool{}
	for _, q := range out.Queues {
		pausedQueue[q.Name] = q.Paused
	}
	var waiting, throttled, paused int64
	for _, line := range lines {
		waiting += line.Waiting
		isPaused, isThrottled := pausedQueue[line.Queue], false
		for i := range limits {
			if l := &limits[i]; covers(l, line.Line) {
				isPaused = isPaused || l.Paused
				isThrottled = isThrottled || !l.HeldUntil.IsZero() || l.Level < 1
			}
		}
		switch {
		case isPaused:
			paused += line.Waiting
		case isThrottled:
			throttled += line.Waiting
		}
	}
	out.Waiting, out.WaitingCapped = capped(waiting)
	out.Throttled, out.ThrottledCapped = capped(throttled)
	out.Paused, out.PausedCapped = capped(paused)
	return nil
}

func covers(l *LimitInfo, line store.Line) bool {
	return slices.Contains(l.Tasks, line.Task) || slices.Contains(l.Queues, line.Queue)
}

func newProcessInfo(p *store.Process) ProcessInfo {
	info := ProcessInfo{
		Host: p.Host, PID: p.PID, StartedAt: wire.Time(p.StartedAt), SeenAt: wire.Time(p.SeenAt), Slots: p.Slots, Running: p.Running, Error: p.Error,
	}
	if p.From != 0 {
		info.ErrorFrom = wire.Time(p.From)
	}
	if p.Until != 0 {
		info.ErrorUntil = wire.Time(p.Until)
	}
	return info
}
