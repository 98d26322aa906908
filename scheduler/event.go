package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// EventKind says what happened to a job.
type EventKind string

// The events. A job that is shed has none: it never ran.
const (
	JobCompleted EventKind = "completed"
	JobFailed    EventKind = "failed"    // an attempt failed; the job will be tried again
	JobDead      EventKind = "dead"      // it became a dead letter, in this process's hands
	JobCancelled EventKind = "cancelled" // while this process ran it
)

// Event is what became of a job that this process ran. It is sent after the
// commit that made it so.
type Event struct {
	Kind  EventKind
	JobID string
	Task  string
	Queue string
	Error string // of a failed or dead job
	At    time.Time
}

// eventBuffer is how many events wait for a subscriber.
const eventBuffer = 1000

// subscribers are who asked for events.
type subscribers struct {
	mu   sync.Mutex
	next int
	by   map[int]subscriber
}

type subscriber struct {
	events chan Event
	kinds  []EventKind
}

// Subscribe returns a channel of events of these kinds, all if none is named,
// and a function that ends it and closes the channel. Nobody waits for a
// subscriber: of more than 1,000 events that it has not taken the newest are
// dropped, and counted in Stats.
func (s *Scheduler) Subscribe(kinds ...EventKind) (<-chan Event, func()) {
	b := &s.subscribers
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = map[int]subscriber{}
	}
	id, events := b.next, make(chan Event, eventBuffer)
	b.next++
	b.by[id] = subscriber{events, kinds}
	return events, sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.by, id)
		close(events)
	})
}

func (s *Scheduler) publish(kind EventKind, r store.Result) {
	b := &s.subscribers
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.by) == 0 {
		return
	}
	e := Event{Kind: kind, JobID: r.UID, Task: r.Line.Task, Queue: r.Line.Queue, At: s.clock.Now()}
	if kind == JobFailed || kind == JobDead {
		e.Error = r.Text
	}
	for _, sub := range b.by {
		if len(sub.kinds) > 0 && !slices.Contains(sub.kinds, kind) {
			continue
		}
		select {
		case sub.events <- e:
		default:
			s.counters.unseen.Add(1)
		}
	}
}

// Handler runs an attempt, as middleware sees it: the arguments are in the
// envelope as they are stored.
type Handler func(ctx context.Context, job *queue.Envelope) error

// Middleware wraps the handlers of all tasks, the first one outermost. A shed
// or expired job passes none: it never runs.
func Middleware(wrap ...func(next Handler) Handler) Option {
	return optionFunc(func(c *config) error {
		if slices.ContainsFunc(wrap, func(w func(Handler) Handler) bool { return w == nil }) {
			return errors.New("middleware is nil: leave it out")
		}
		c.middleware = append(c.middleware, wrap...)
		return nil
	})
}
