package queue

import (
	"strings"

	"github.com/weirq/weir/internal/store"
)

// A State is where a job stands. Jobs that died are not among the jobs any
// more: see package dlq.
type State string

// The states of a job.
const (
	StateScheduled State = "scheduled" // waits for its time
	StateWaiting   State = "waiting"   // waits in line: it may start
	StateRunning   State = "running"   // in a handler's hands
	StateCompleted State = "completed"
	StateCancelled State = "cancelled"

	// StatePending is scheduled or waiting, in a [Filter].
	StatePending State = "pending"
)

var states = map[store.State]State{
	store.Scheduled: StateScheduled,
	store.Waiting:   StateWaiting,
	store.Running:   StateRunning,
	store.Completed: StateCompleted,
	store.Cancelled: StateCancelled,
}

var storedStates = map[State][]store.State{
	StatePending:   {store.Scheduled, store.Waiting},
	StateScheduled: {store.Scheduled},
	StateWaiting:   {store.Waiting},
	StateRunning:   {store.Running},
	StateCompleted: {store.Completed},
	StateCancelled: {store.Cancelled},
}

// ParseState reads a state as a person writes it, "pending" included.
func ParseState(s string) (State, error) {
	state := State(strings.TrimSpace(s))
	if state == "dead" {
		return "", &InvalidError{Field: "state", Value: quote(s), Problem: "dead jobs are no jobs any more but dead letters: see `weir dlq list`"}
	}
	if _, ok := storedStates[state]; !ok {
		return "", &InvalidError{
			Field: "state", Value: quote(s),
			Problem: "use pending (scheduled and waiting), scheduled, waiting, running, completed or cancelled",
		}
	}
	return state, nil
}
