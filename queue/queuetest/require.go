package queuetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirq/weir/queue"
)

// An Enqueued is a pending job, with its arguments in their type.
type Enqueued[Args any] struct {
	queue.JobInfo
	Args Args
}

// RequireEnqueued returns the pending jobs of a task for which every match
// holds, in the order in which they were enqueued. If there is none the test
// ends, and shows what is pending instead.
func RequireEnqueued[Args any](t testing.TB, c *queue.Client, task queue.Task[Args], match ...func(Enqueued[Args]) bool) []Enqueued[Args] {
	t.Helper()
	found, others := pending(t, c, task, match)
	if len(found) == 0 {
		t.Fatalf("queuetest: no pending job of task %q%s; pending: %s", string(task), thatMatches(match), others)
	}
	return found
}

// RequireNotEnqueued ends the test if a job of the task is pending for which
// every match holds.
func RequireNotEnqueued[Args any](t testing.TB, c *queue.Client, task queue.Task[Args], match ...func(Enqueued[Args]) bool) {
	t.Helper()
	if found, all := pending(t, c, task, match); len(found) > 0 {
		t.Fatalf("queuetest: %d pending jobs of task %q%s; pending: %s", len(found), string(task), thatMatches(match), all)
	}
}

func thatMatches[Args any](match []func(Enqueued[Args]) bool) string {
	if len(match) == 0 {
		return ""
	}
	return " that matches"
}

// pending returns the jobs that match, and a text about all.
func pending[Args any](t testing.TB, c *queue.Client, task queue.Task[Args], match []func(Enqueued[Args]) bool) (found []Enqueued[Args], all string) {
	t.Helper()
	ctx := context.Background()
	var shown []string
	filter := queue.Filter{States: []queue.State{queue.StatePending}, Limit: queue.LargestLimit}
	for {
		page, err := c.List(ctx, filter)
		if err != nil {
			t.Fatalf("queuetest: %v", err)
		}
		for _, info := range page.Items {
			shown = append(shown, fmt.Sprintf("\n  %s %s %s in %s", info.Task, info.Args, info.State, info.Queue))
			if info.Task != string(task) {
				continue
			}
			job := enqueued[Args](t, c, info.ID)
			if !slices.ContainsFunc(match, func(holds func(Enqueued[Args]) bool) bool { return !holds(job) }) {
				found = append(found, job)
			}
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	slices.Reverse(found)
	slices.Reverse(shown)
	const most = 20
	if n := len(shown); n == 0 {
		shown = []string{"nothing"}
	} else if n > most {
		shown = append(shown[:most], fmt.Sprintf("\n  and %d more", n-most))
	}
	return found, strings.Join(shown, "")
}

func enqueued[Args any](t testing.TB, c *queue.Client, id string) Enqueued[Args] {
	t.Helper()
	info, err := c.Get(context.Background(), id)
	if err != nil {
		t.Fatalf("queuetest: %v", err)
	}
	args, err := queue.Decode[Args](info.RawArgs)
	if err != nil {
		t.Fatalf("queuetest: task %q: job %s: %v", info.Task, info.ID, err)
	}
	return Enqueued[Args]{JobInfo: *info, Args: args}
}
