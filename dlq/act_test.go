package dlq_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

func TestADryRunTellsWhatWouldBeDoneAndDoesNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Shed, "a", 3)
		b.dead(t, dlq.Failed, "a", 4)
		old := b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k"})[0]
		b.fail(t, "a", "gone")
		live := b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k"})[0]
		before := b.all(t, dlq.Filter{})

		result, err := b.ReplayWhere(t.Context(), dlq.Filter{Task: "a"}, dlq.DryRun())
		require.NoError(t, err)
		require.Equal(t, dlq.ReplayResult{Replayed: 4, Skipped: 1, FirstSkipped: []dlq.Replayed{{ID: before[0].ID, JobID: old, Skipped: "duplicate of " + live}}}, result)
		n, err := b.PurgeWhere(t.Context(), dlq.Filter{Task: "a"}, dlq.DryRun())
		require.NoError(t, err)
		require.EqualValues(t, 8, n)
		replayed, err := b.WouldReplay(t.Context(), old, before[1].ID, "x")
		require.ErrorIs(t, err, dlq.ErrInvalid)
		require.Equal(t, []dlq.Replayed{{ID: before[0].ID, JobID: old, Skipped: "duplicate of " + live}, {ID: before[1].ID, JobID: before[1].JobID}}, replayed)
		n, err = b.WouldPurge(t.Context(), old, before[1].ID)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)

		require.Equal(t, before, b.all(t, dlq.Filter{}))
		require.Len(t, b.pending(t), 1)
		page, err := b.client.Audit(t.Context(), queue.AuditFilter{})
		require.NoError(t, err)
		require.Empty(t, page.Items)
	})
}

// Nothing is spared by going slowly where nothing is done. The clock stands.
func TestADryRunDoesNotWaitForItsPace(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Failed, "a", 25)
		result, err := b.ReplayWhere(t.Context(), dlq.Filter{Kind: dlq.Failed}, dlq.Pace("1/h"), dlq.DryRun())
		require.NoError(t, err)
		require.EqualValues(t, 25, result.Replayed)
		require.Equal(t, start, b.clock.Now().UTC())
	})
}

// The clock moves only when the replay waits for it.
func TestAPacedReplayGoesAtItsRate(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Failed, "a", 25)
		ctx, done := context.WithCancel(t.Context())
		var moving sync.WaitGroup
		moving.Go(func() {
			for ctx.Err() == nil {
				b.clock.Advance(time.Millisecond)
			}
		})
		result, err := b.ReplayWhere(ctx, dlq.Filter{Kind: dlq.Failed}, dlq.Pace("20/s"))
		done()
		moving.Wait()
		require.NoError(t, err)
		require.EqualValues(t, 25, result.Replayed)
		var enqueued []time.Time
		for _, j := range b.pending(t) { // the latest first
			enqueued = append(enqueued, j.EnqueuedAt)
		}
		require.Len(t, enqueued, 25)
		// Two may come at once; what is counted is the time since the beginning.
		for i, at := range enqueued {
			n := len(enqueued) - i
			require.GreaterOrEqual(t, at.Sub(start), time.Duration(n-2)*50*time.Millisecond, "the %dth", n)
		}

		_, err = b.ReplayWhere(t.Context(), dlq.Filter{Kind: dlq.Failed}, dlq.Pace("20"))
		require.EqualError(t, err, `replay: rate "20": no "/": write a count and a period, as in "100/m"`)
	})
}

func TestAPaceThatIsWaitedForEndsWithItsContext(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Failed, "a", 3)
		ctx, stop := context.WithCancel(t.Context())
		result, err := b.ReplayWhere(ctx, dlq.Filter{Kind: dlq.Failed}, dlq.Pace("1/h"), dlq.Progress(func(int64) { stop() }))
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 1, result.Replayed)
		require.Len(t, b.all(t, dlq.Filter{}), 2)
	})
}

func TestWhatIsDoneIsRecordedOnceHoweverManyTransactionsItTakes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Failed, "a", 1_203)
		ids := b.dead(t, dlq.Failed, "b", 30)
		ada := dlq.WithActor(t.Context(), "ada@host")
		_, err := b.ReplayWhere(ada, dlq.Filter{Kind: dlq.Failed, Task: "a", Reason: "no such", OlderThan: 0}, dlq.Pace("1000000/s"))
		require.NoError(t, err)
		_, err = b.Purge(ada, ids...)
		require.NoError(t, err)
		_, err = b.PurgeWhere(t.Context(), dlq.Filter{Task: "nothing's"})
		require.NoError(t, err)
		page, err := b.client.Audit(t.Context(), queue.AuditFilter{})
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		replay, purge := page.Items[1], page.Items[0]
		require.Equal(t, queue.Act{
			ID: replay.ID, At: start, Actor: "ada@host", Action: "dlq replay", Subject: `kind=failed task=a reason="no such"`, Detail: "rate 1000000/s", Count: 1_203,
		}, replay)
		require.EqualValues(t, 30, purge.Count)
		require.Contains(t, purge.Subject, ids[19]+" and 10 more")
	})
}

// A batch is bounded by the bytes that it moves, and none of them comes here.
func TestLargeArgumentsAreReplayedFewAtATime(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		jobs := make([]queue.NewJob, 9)
		for i := range jobs {
			jobs[i] = queue.NewJob{Task: "a", Args: make([]byte, 1<<20)}
			jobs[i].Args[i] = 0xff
		}
		b.enqueue(t, jobs...)
		b.fail(t, "a", "gone")
		var progress []int64
		_, err := b.ReplayWhere(t.Context(), dlq.Filter{Task: "a"}, dlq.Progress(func(done int64) { progress = append(progress, done) }))
		require.NoError(t, err)
		require.Equal(t, []int64{4, 8, 9}, progress)
		for i, j := range b.turn(t, "a", "") { // in the order in which they died, which is that of their enqueue
			require.True(t, bytes.Equal(jobs[i].Args, j.Args), "job %d", i)
		}
	})
}

func TestAPreviewSaysWhatAReplayWouldDo(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		two := 2
		b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k", MaxRetries: &two})
		b.fail(t, "a", "gone")
		entry := b.all(t, dlq.Filter{})[0]
		preview := func() dlq.Preview {
			p, err := b.Preview(t.Context(), &entry)
			require.NoError(t, err)
			return p
		}
		require.Equal(t, dlq.Preview{Starts: 3}, preview())
		live := b.enqueue(t, queue.NewJob{Task: "a", UniqueKey: "k"})[0]
		require.Equal(t, live, preview().DuplicateOf)

		b.register(t, "a", `{"dlq_retry":{"after":3600000000000,"max":2}}`)
		p := preview()
		require.True(t, p.Registered)
		require.Equal(t, []string{"queue:default 5/s", "task:a 1/m"}, p.Limits)
		require.Equal(t, entry.DeadAt.Add(time.Hour), p.RetryAt)
		require.Equal(t, 2, p.Retries)
		entry.Replays = 2
		require.True(t, preview().RetryAt.IsZero(), "it has had them")
		require.NoError(t, b.client.PauseLimit(t.Context(), "task:a"))
		require.NoError(t, b.client.SetLimit(t.Context(), "queue:default", queue.Override{Rate: "9/s"}))
		require.Equal(t, []string{"queue:default 9/s (override)", "task:a 1/m (paused)"}, preview().Limits)
	})
}

func TestAFilterInWordsQuotesWhatNeedsIt(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]dlq.Filter{
		``:                        {},
		`kind=failed task=a`:      {Kind: dlq.Failed, Task: "a"},
		`task="a b" queue="\x1b"`: {Task: "a b", Queue: "\x1b"},
		`reason="say \"x\"" text=é older_than=24h0m0s newer_than=48h0m0s`: {
			Reason: `say "x"`, Text: "é", OlderThan: 24 * time.Hour, NewerThan: 48 * time.Hour,
		},
	} {
		require.Equal(t, want, f.String())
	}
}
