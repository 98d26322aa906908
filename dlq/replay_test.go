package dlq_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

func TestAReplayIsANewJobWithAllThatTheOldOneHad(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		zero := 0
		old := b.enqueue(t, queue.NewJob{
			Task: "a", Args: []byte("\x00\xff"), Priority: -7, UniqueKey: "k", MaxRetries: &zero, Timeout: time.Minute,
			Metadata: json.RawMessage(`{"source":"import"}`),
		})[0]
		b.fail(t, "a", "gone")
		b.clock.Advance(time.Hour)

		replayed, err := b.Replay(t.Context(), old)
		require.NoError(t, err)
		require.Len(t, replayed, 1)
		require.Equal(t, old, replayed[0].JobID)
		require.Greater(t, replayed[0].NewID, old, "a later id")
		info, err := b.client.Get(t.Context(), replayed[0].NewID)
		require.NoError(t, err)
		now := start.Add(time.Hour)
		require.Equal(t, &queue.JobInfo{
			ID: replayed[0].NewID, Task: "a", Queue: "default", State: queue.StateWaiting, Priority: -7, RawArgs: []byte("\x00\xff"), ArgsSize: 2,
			Metadata: json.RawMessage(`{"source":"import"}`), MaxRetries: &zero, Timeout: time.Minute, UniqueKey: "k", ReplayOf: old,
			EnqueuedAt: now, RunAt: now, FirstDueAt: now,
		}, info)
		require.Empty(t, b.all(t, dlq.Filter{}))
		_, err = b.client.Get(t.Context(), old)
		require.ErrorIs(t, err, queue.ErrNotFound)

		b.fail(t, "a", "again")
		again := b.all(t, dlq.Filter{})
		require.Len(t, again, 1)
		require.Equal(t, 1, again[0].Replays)
		require.Equal(t, 1, again[0].Attempts)
	})
}

func TestReplaysByIDAnswerInTheirOrderAndNameWhatIsNotThere(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		jobs := b.dead(t, dlq.Shed, "a", 3)
		entries := b.all(t, dlq.Filter{}) // the latest first
		missing := uuid.NewString()
		replayed, err := b.Replay(t.Context(), entries[0].ID, missing, jobs[0], "999999", "x", entries[0].ID)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.EqualError(t, err, "dead letter \"x\": use the number of an entry or the id of its job\n"+
			"dead letter "+missing+": not found: it never was, or it was replayed or purged\n"+
			"dead letter 999999: not found: it never was, or it was replayed or purged")
		require.Len(t, replayed, 2)
		require.Equal(t, entries[0].ID, replayed[0].ID)
		require.Equal(t, jobs[0], replayed[1].JobID)
		require.Equal(t, []string{jobs[1]}, jobsOf(b.all(t, dlq.Filter{})))

		replayed, err = b.Replay(t.Context())
		require.NoError(t, err)
		require.Equal(t, []dlq.Replayed{}, replayed)
	})
}

func TestWhereALiveJobHoldsTheKeyTheEntryStays(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		old := b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k"})[0]
		b.fail(t, "a", "gone")
		live := b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k"})[0]
		entry := b.all(t, dlq.Filter{})[0].ID

		replayed, err := b.Replay(t.Context(), entry)
		require.NoError(t, err)
		want := []dlq.Replayed{{ID: entry, JobID: old, Skipped: "duplicate of " + live}}
		require.Equal(t, want, replayed)
		text, err := json.Marshal(replayed)
		require.NoError(t, err)
		require.Equal(t, `[{"id":"`+entry+`","job_id":"`+old+`","new_id":null,"skipped":"duplicate of `+live+`"}]`, string(text))
		result, err := b.ReplayWhere(t.Context(), dlq.Filter{Task: "a"})
		require.NoError(t, err)
		require.Equal(t, dlq.ReplayResult{Skipped: 1, FirstSkipped: want}, result)
		require.Len(t, b.all(t, dlq.Filter{}), 1)
		require.Len(t, b.pending(t), 1)

		require.NoError(t, b.client.Cancel(t.Context(), live))
		result, err = b.ReplayWhere(t.Context(), dlq.Filter{Task: "a"})
		require.NoError(t, err)
		require.Equal(t, dlq.ReplayResult{Replayed: 1, FirstSkipped: []dlq.Replayed{}}, result)
	})
}

func TestTwoLettersOfOneKeyBecomeOneJob(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for range 2 {
			b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k"})
			b.fail(t, "a", "gone")
		}
		result, err := b.ReplayWhere(t.Context(), dlq.Filter{Kind: dlq.Failed})
		require.NoError(t, err)
		require.EqualValues(t, 1, result.Replayed)
		require.EqualValues(t, 1, result.Skipped)
		require.Equal(t, "duplicate of "+b.pending(t)[0].ID, result.FirstSkipped[0].Skipped)
	})
}

func TestAFilterReplayMustNameAKindOrATaskAndLeavesShedsAloneUnlessAskedForThem(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		shed, failed := b.dead(t, dlq.Shed, "a", 2), b.dead(t, dlq.Failed, "a", 3)
		b.dead(t, dlq.Failed, "b", 1)
		for _, f := range []dlq.Filter{{}, {Queue: "default"}} {
			_, err := b.ReplayWhere(t.Context(), f)
			require.ErrorIs(t, err, dlq.ErrFilterRequired)
			require.EqualError(t, err, "replay: filter required: name a kind (shed, failed, expired) or a task")
		}
		for _, f := range []dlq.Filter{{Task: "a", Limit: 1}, {Task: "a", Cursor: "ZAE"}, {Kind: "lost"}} {
			_, err := b.ReplayWhere(t.Context(), f)
			require.ErrorIs(t, err, dlq.ErrInvalid)
		}
		replay := func(f dlq.Filter) int64 {
			result, err := b.ReplayWhere(t.Context(), f)
			require.NoError(t, err)
			return result.Replayed
		}
		require.Zero(t, replay(dlq.Filter{Task: "a", Queue: "other"}))
		require.Zero(t, replay(dlq.Filter{Kind: dlq.Expired}))
		require.EqualValues(t, 3, replay(dlq.Filter{Task: "a"}))
		var order []string
		for _, j := range slices.Backward(b.pending(t)) {
			order = append(order, j.ReplayOf)
		}
		require.Equal(t, failed, order, "the first that died is the first again")
		require.Zero(t, replay(dlq.Filter{Task: "a"}))
		require.EqualValues(t, 2, replay(dlq.Filter{Kind: dlq.Shed}))
		require.EqualValues(t, 1, replay(dlq.Filter{Kind: dlq.Failed}))
		require.Empty(t, b.all(t, dlq.Filter{}))
		require.Len(t, b.pending(t), len(shed)+len(failed))
	})
}

// What is replayed may die at once, again and again; what is skipped stays.
// Neither keeps the replay from its end.
func TestAReplayByFilterEnds(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n = 1_203 // three transactions
		jobs := make([]queue.NewJob, n)
		for i := range jobs {
			jobs[i] = queue.NewJob{Task: "a", UniqueKey: fmt.Sprint(i)}
		}
		b.enqueue(t, jobs...)
		b.fail(t, "a", "gone")
		held := make([]queue.NewJob, 0, n/2)
		for i := 0; i < n; i += 3 {
			held = append(held, queue.NewJob{Task: "a", UniqueKey: fmt.Sprint(i), Delay: time.Hour})
		}
		b.enqueue(t, held...)

		stop := make(chan struct{})
		var dying sync.WaitGroup
		dying.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					b.fail(t, "a", "at once")
				}
			}
		})
		result, err := b.ReplayWhere(t.Context(), dlq.Filter{Task: "a"})
		close(stop)
		dying.Wait()
		require.NoError(t, err)
		require.EqualValues(t, n-len(held), result.Replayed)
		require.EqualValues(t, len(held), result.Skipped)
		require.Len(t, result.FirstSkipped, 100)
		require.Len(t, b.all(t, dlq.Filter{Limit: dlq.LargestLimit}), n-len(b.pending(t))+len(held))
	})
}

func TestAnEntryIsReplayedOnceHoweverManyPeopleDoSo(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n, people = 1_100, 6
		old := b.dead(t, dlq.Failed, "a", n)
		some := old[:20]
		var total, byID int64
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range people {
			wg.Go(func() {
				if i%2 == 0 {
					result, err := b.ReplayWhere(t.Context(), dlq.Filter{Kind: dlq.Failed})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					total += result.Replayed
					mu.Unlock()
					return
				}
				replayed, _ := b.Replay(t.Context(), some...) // many are gone by now
				mu.Lock()
				byID += int64(len(replayed))
				mu.Unlock()
			})
		}
		wg.Wait()
		require.EqualValues(t, n, total+byID)
		require.Empty(t, b.all(t, dlq.Filter{}))
		var origins []string
		for _, j := range b.pending(t) {
			origins = append(origins, j.ReplayOf)
		}
		require.ElementsMatch(t, old, origins)
	})
}
