package queue_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

func TestAListIsFilteredByTaskQueueAndState(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ids := b.inEveryState(t)
		list := func(f queue.Filter) []string {
			var found []string
			for _, item := range b.all(t, f) {
				for name, id := range ids {
					if id == item.ID {
						found = append(found, name)
					}
				}
			}
			return found
		}
		require.Equal(t, []string{"scheduled", "waiting", "running", "cancelled", "completed"}, list(queue.Filter{}), "the latest first")
		for _, state := range []queue.State{queue.StateScheduled, queue.StateWaiting, queue.StateRunning, queue.StateCompleted, queue.StateCancelled} {
			require.Equal(t, []string{string(state)}, list(queue.Filter{States: []queue.State{state}}))
		}
		require.Equal(t, []string{"scheduled", "waiting"}, list(queue.Filter{States: []queue.State{queue.StatePending}}))
		require.Equal(t, []string{"waiting", "completed"}, list(queue.Filter{States: []queue.State{queue.StateCompleted, queue.StateWaiting}}))
		require.Equal(t, []string{"waiting"}, list(queue.Filter{Task: "t-waiting"}))
		require.Empty(t, list(queue.Filter{Task: "t-waiting", Queue: "other"}))
		require.Empty(t, list(queue.Filter{Task: "T-WAITING"}))
		require.Len(t, list(queue.Filter{Queue: "q"}), 5)
	})
}

// inEveryState stores a job in every state and one that is dead, and returns
// their ids.
func (b *bundle) inEveryState(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	enqueue := func(name string, job queue.NewJob) {
		job.Task, job.Queue, job.Args = "t-"+name, "q", []byte(`{"n":1}`)
		receipt, err := b.Enqueue(t.Context(), job)
		require.NoError(t, err)
		ids[name] = receipt.ID
	}
	enqueue("completed", queue.NewJob{})
	b.finish(t, b.start(t, "t-completed", "q"), store.Done, "")
	enqueue("cancelled", queue.NewJob{})
	require.NoError(t, b.Cancel(t.Context(), ids["cancelled"]))
	enqueue("running", queue.NewJob{})
	require.Len(t, b.start(t, "t-running", "q"), 1)
	enqueue("dead", queue.NewJob{})
	b.finish(t, b.start(t, "t-dead", "q"), store.Dead, "gone")
	enqueue("waiting", queue.NewJob{})
	enqueue("scheduled", queue.NewJob{Delay: 1})
	return ids
}

func TestAFilterThatCannotBeMeantIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		for want, f := range map[string]queue.Filter{
			`list jobs: limit -1: use 1 to 10000`:    {Limit: -1},
			`list jobs: limit 10001: use 1 to 10000`: {Limit: 10_001},
			`list jobs: state "ended": use pending (scheduled and waiting), scheduled, waiting, running, completed or cancelled`: {States: []queue.State{"ended"}},
			`list jobs: task "\x00": it has the control character U+0000 at byte 0: leave it out`:                                {Task: "\x00"},
			`list jobs: queue "\xff": it is not UTF-8: encode it so`:                                                             {Queue: "\xff"},
			`list jobs: cursor "1": not a cursor of this list: pass "next" of the page before as it is`:                          {Cursor: "1"},
			`list jobs: cursor "ZAE": not a cursor of this list: pass "next" of the page before as it is`:                        {Cursor: "ZAE"}, // of dead letters
		} {
			_, err := b.List(t.Context(), f)
			require.EqualError(t, err, want)
			require.ErrorIs(t, err, queue.ErrInvalid)
		}
	})
}

func TestAPageIsAHundredJobsUnlessAskedOtherwise(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.EnqueueMany(t.Context(), slices.Repeat([]queue.NewJob{{Task: "a"}}, 101))
		require.NoError(t, err)
		page, err := b.List(t.Context(), queue.Filter{})
		require.NoError(t, err)
		require.Len(t, page.Items, 100)
		require.NotEmpty(t, page.Next)
		page, err = b.List(t.Context(), queue.Filter{Cursor: page.Next})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Empty(t, page.Next)
		page, err = b.List(t.Context(), queue.Filter{Limit: 101})
		require.NoError(t, err)
		require.Len(t, page.Items, 101)
		require.Empty(t, page.Next, "nothing follows")
	})
}

// While the list is read, jobs start, end, die and arrive: those that were
// there from the first page to the last come once, in order.
func TestPagesShowEveryJobOnceWhateverHappensMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			task := fmt.Sprint("t", round)
			receipts, err := b.EnqueueMany(t.Context(), slices.Repeat([]queue.NewJob{{Task: task}}, rapid.IntRange(0, 30).Draw(rt, "jobs")))
			require.NoError(t, err)
			f := queue.Filter{Task: task, Limit: rapid.IntRange(1, 12).Draw(rt, "limit")}
			seen := map[string]int{}
			last := ""
			var died []string
			for {
				page, err := b.List(t.Context(), f)
				require.NoError(rt, err)
				for _, item := range page.Items {
					if last != "" {
						require.Less(rt, item.ID, last)
					}
					last = item.ID
					seen[item.ID]++
				}
				if f.Cursor = page.Next; page.Next == "" {
					break
				}
				switch rapid.SampledFrom([]string{"arrive", "complete", "cancel", "die", "nothing"}).Draw(rt, "meanwhile") {
				case "arrive":
					_, err = b.Enqueue(t.Context(), queue.NewJob{Task: task})
				case "complete":
					b.finish(t, b.start(t, task, "default"), store.Done, "")
				case "cancel":
					if err = b.Cancel(t.Context(), receipts[len(receipts)/2].ID); !errorIs(err, queue.ErrNotFound) {
						err = nil // it may have ended otherwise
					}
				case "die":
					started := b.start(t, task, "default")
					for _, j := range started {
						died = append(died, j.UID)
					}
					b.finish(t, started, store.Dead, "gone")
				}
				require.NoError(rt, err)
			}
			for _, r := range receipts {
				if !slices.Contains(died, r.ID) {
					require.Equal(rt, 1, seen[r.ID])
				}
			}
		})
	})
}

func TestAPageIsJSONWithItsItemsAndTheNextCursor(t *testing.T) {
	t.Parallel()
	for want, page := range map[string]queue.Page[queue.AttemptError]{
		`{"items":[],"next":null}`: {},
		`{"items":[{"attempt":1,"at":"2030-01-02T03:04:05.000000Z","error":"\u003ctimeout\u003e"}],"next":"agE"}`: {
			Items: []queue.AttemptError{{Attempt: 1, At: start, Error: "<timeout>"}}, Next: "agE",
		},
	} {
		b, err := json.Marshal(page)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
}
