package queue

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// CountBound is how far jobs are counted: a count that is capped is not exact.
const CountBound = store.CountBound

// QueueInfo is a queue as an operator sees it. Where more than [CountBound] jobs
// are scheduled in all queues together, the numbers of scheduled ones are those
// found among the first of them, and are capped; running ones alike.
//
//nolint:revive // JobInfo, TaskInfo and LimitInfo are its siblings
type QueueInfo struct {
	Name            string    `json:"name"`
	Waiting         int64     `json:"waiting"`
	WaitingCapped   bool      `json:"waiting_capped,omitzero"`
	Scheduled       int64     `json:"scheduled"`
	ScheduledCapped bool      `json:"scheduled_capped,omitzero"`
	Running         int64     `json:"running"`
	RunningCapped   bool      `json:"running_capped,omitzero"`
	OldestWaitingAt time.Time `json:"oldest_waiting_at"` // first due of the longest waiting job
	Paused          bool      `json:"paused"`
}

// MarshalJSON writes the queue with stable names.
func (q QueueInfo) MarshalJSON() ([]byte, error) { return wire.Object(q) }

// Queues lists the queues that tasks or live jobs name, or that are paused, by
// name.
func (c *Client) Queues(ctx context.Context) ([]QueueInfo, error) {
	rows, err := c.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var scheduled, running int64
	for _, r := range rows {
		scheduled += r.Scheduled
		running += r.Running
	}
	out := make([]QueueInfo, len(rows))
	for i, r := range rows {
		q := QueueInfo{Name: r.Queue, Scheduled: r.Scheduled, Running: r.Running, Paused: r.Paused}
		q.Waiting, q.WaitingCapped = capped(r.Waiting)
		q.ScheduledCapped, q.RunningCapped = scheduled > CountBound, running > CountBound
		if r.Oldest != nil {
			q.OldestWaitingAt = wire.Time(*r.Oldest)
		}
		out[i] = q
	}
	return out, nil
}

func capped(n int64) (shown int64, isCapped bool) {
	return min(n, CountBound), n > CountBound
}

// TaskInfo is a task as it was last registered in this database, or one that
// nobody has registered and that jobs wait for.
type TaskInfo struct {
	Name          string          `json:"name"`
	Queue         string          `json:"queue"`
	MaxRetries    int             `json:"max_retries"`
	Definition    json.RawMessage `json:"definition"` // its options
	Waiting       int64           `json:"waiting"`    // jobs in line, in all queues
	WaitingCapped bool            `json:"waiting_capped,omitzero"`
	// RegisteredAt is zero for a task that no process has ever had a handler
	// for: its jobs wait until one has.
	RegisteredAt time.Time `json:"registered_at"`
}

// MarshalJSON writes the task with stable names.
func (t TaskInfo) MarshalJSON() ([]byte, error) { return wire.Object(t) }

// Tasks lists by name the registered tasks, and those that nobody has
// registered and that jobs wait for.
func (c *Client) Tasks(ctx context.Context) ([]TaskInfo, error) {
	rows, err := c.store.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := c.store.Lines(ctx)
	if err != nil {
		return nil, err
	}
	waiting := map[string]int64{}
	for _, l := range lines {
		waiting[l.Task] += l.Waiting
	}
	out := make([]TaskInfo, 0, len(rows))
	add := func(t TaskInfo) {
		t.Waiting, t.WaitingCapped = capped(waiting[t.Name])
		delete(waiting, t.Name)
		out = append(out, t)
	}
	for _, r := range rows {
		add(TaskInfo{
			Name: r.Name, Queue: r.Queue, MaxRetries: r.MaxRetries,
			Definition: wire.JSON([]byte(r.Definition)), RegisteredAt: wire.Time(r.RegisteredAt),
		})
	}
	for name := range waiting {
		add(TaskInfo{Name: name, Queue: defaultQueue, MaxRetries: store.DefaultMaxRetries})
	}
	slices.SortFunc(out, func(a, b TaskInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// defaultQueue is where the jobs of a task wait that nobody has registered.
const defaultQueue = "default"
