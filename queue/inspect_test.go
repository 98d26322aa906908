package queue_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestAJobIsShownInEveryStateAndADeadOnePointsToItsLetter(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for state, id := range b.inEveryState(t) {
			info, err := b.Get(t.Context(), strings.ToUpper(id))
			if state == "dead" {
				var dead *queue.DeadError
				require.ErrorAs(t, err, &dead)
				letter, found, err := b.Store().GetDeadByJob(t.Context(), id)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, &queue.DeadError{JobID: id, EntryID: jsonText(t, letter.ID)}, dead)
				require.EqualError(t, dead, "job "+id+" is dead: see its dead letter, `weir dlq show "+dead.EntryID+"`")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, queue.State(state), info.State)
			require.Equal(t, id, info.ID)
			require.Equal(t, state == "completed" || state == "cancelled", !info.FinishedAt.IsZero(), state)
			require.Equal(t, state == "completed" || state == "running", !info.StartedAt.IsZero(), state)
		}
	})
}

func TestAJobThatIsNotThereIsNotFound(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		id := uuid.NewString()
		_, err := b.Get(t.Context(), id)
		require.ErrorIs(t, err, queue.ErrNotFound)
		require.ErrorContains(t, err, "job "+id+": not found: ")
		require.ErrorIs(t, b.Cancel(t.Context(), id), queue.ErrNotFound)

		for _, id := range []string{"", "1", "send_email", "' or 1=1", "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", "")} {
			_, err := b.Get(t.Context(), id)
			require.ErrorIs(t, err, queue.ErrInvalid, id)
			require.ErrorIs(t, b.Cancel(t.Context(), id), queue.ErrInvalid, id)
		}
	})
}

func TestOnlyAJobThatHasNotEndedCanBeCancelled(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for state, id := range b.inEveryState(t) {
			err := b.Cancel(t.Context(), id)
			switch state {
			case "completed":
				require.Equal(t, &queue.NotCancellableError{JobID: id, State: queue.StateCompleted}, err)
				require.EqualError(t, err, "job "+id+" is completed: only a job that has not ended can be cancelled")
			case "dead":
				var dead *queue.DeadError
				require.ErrorAs(t, err, &dead)
			default:
				require.NoError(t, err, state)
				require.Equal(t, queue.StateCancelled, b.get(t, id).State)
				require.NoError(t, b.Cancel(t.Context(), id), "again")
			}
		}
		require.Empty(t, b.all(t, queue.Filter{States: []queue.State{queue.StatePending, queue.StateRunning}}))
	})
}

func TestOnlyAScheduledJobCanBeBroughtIntoLine(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for state, id := range b.inEveryState(t) {
			err := b.RunNow(t.Context(), id)
			switch state {
			case "scheduled":
				require.NoError(t, err)
				require.Equal(t, queue.StateWaiting, b.get(t, id).State)
			case "dead":
				var dead *queue.DeadError
				require.ErrorAs(t, err, &dead)
				require.Equal(t, id, dead.JobID)
			default:
				require.Equal(t, &queue.NotScheduledError{JobID: id, State: queue.State(state)}, err)
				require.EqualError(t, err, "job "+id+" is "+state+": only a scheduled job, or one that waits for its next attempt, can be brought into line")
			}
		}
		require.ErrorIs(t, b.RunNow(t.Context(), uuid.NewString()), queue.ErrNotFound)
		require.ErrorIs(t, b.RunNow(t.Context(), "7"), queue.ErrInvalid)
	})
}

func TestAJobThatIsBroughtIntoLineIsThereFromNowOn(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		later, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Delay: time.Hour})
		require.NoError(t, err)
		failed, err := b.Enqueue(t.Context(), queue.NewJob{Task: "b"})
		require.NoError(t, err)
		running := b.start(t, "b", "default")
		out, err := b.Store().Turn(t.Context(), store.TurnRequest{
			Results: []store.Result{{ID: running[0].ID, UID: failed.ID, Claim: running[0].Claim.Int64, Outcome: store.Retry, Delay: time.Hour.Microseconds()}},
		})
		require.NoError(t, err)
		require.Empty(t, out.Refused)
		b.clock.Advance(time.Minute)
		for _, id := range []string{later.ID, failed.ID} {
			require.Equal(t, queue.StateScheduled, b.get(t, id).State)
			require.NoError(t, b.RunNow(t.Context(), strings.ToUpper(id)))
			info := b.get(t, id)
			require.Equal(t, queue.StateWaiting, info.State)
			require.Equal(t, start.Add(time.Minute), info.FirstDueAt)
			require.Equal(t, start.Add(time.Minute), info.RunAt)
		}
		require.Len(t, b.start(t, "a", "default"), 1)
		require.Len(t, b.start(t, "b", "default"), 1)
	})
}

func TestARunNowWhoseReplyIsLostSucceedsAllTheSame(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		faults := &storetest.Faults{}
		c := queue.From(db.Open(t, store.Options{Wrap: faults.Wrap}))
		receipt, err := c.Enqueue(t.Context(), queue.NewJob{Task: "a", Delay: time.Hour})
		require.NoError(t, err)
		faults.LoseReply(`update \S*weir_jobs set state = 0`, 1)
		require.NoError(t, c.RunNow(t.Context(), receipt.ID))
		job, err := c.Get(t.Context(), receipt.ID)
		require.NoError(t, err)
		require.Equal(t, queue.StateWaiting, job.State)
	})
}

func TestTheResultOfACancelledJobIsNotRecorded(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		running := b.start(t, "a", "default")
		require.NoError(t, b.Cancel(t.Context(), receipt.ID))
		out, err := b.Store().Turn(t.Context(), store.TurnRequest{
			Results: []store.Result{{ID: running[0].ID, UID: receipt.ID, Claim: running[0].Claim.Int64}},
		})
		require.NoError(t, err)
		require.Len(t, out.Refused, 1)
		require.Equal(t, queue.StateCancelled, b.get(t, receipt.ID).State)
	})
}

func TestAJobThatFailedShowsItsErrors(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		b.finish(t, b.start(t, "a", "default"), store.Retry, "first")
		b.clock.Advance(time.Second)
		b.finish(t, b.start(t, "a", "default"), store.Retry, "second")
		info := b.get(t, receipt.ID)
		require.Equal(t, "second", info.LastError)
		require.Equal(t, []queue.AttemptError{{1, start, "first"}, {2, start.Add(time.Second), "second"}}, info.Errors)
		require.Equal(t, 2, info.Attempt)
	})
}

func TestAJobIsJSONWithStableNames(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: []byte(`{"n": 12345678901234567890}`)})
		require.NoError(t, err)
		require.Equal(t, `{"id":"`+receipt.ID+`","task":"a","queue":"default","state":"waiting","priority":0,`+
			`"args":{"n":12345678901234567890},"args_base64":"eyJuIjogMTIzNDU2Nzg5MDEyMzQ1Njc4OTB9","metadata":null,`+
			`"attempt":0,"max_retries":null,"deferrals":0,"run_at":"2030-01-02T03:04:05.000000Z","first_due_at":"2030-01-02T03:04:05.000000Z",`+
			`"enqueued_at":"2030-01-02T03:04:05.000000Z","started_at":null,"finished_at":null,"expires_at":null,`+
			`"unique_key":null,"replay_of":null,"last_error":null}`, jsonText(t, b.get(t, receipt.ID)))

		b.clock.Advance(1500 * time.Microsecond)
		receipt, err = b.Enqueue(t.Context(), queue.NewJob{
			Task: "b", Args: []byte("\xffnot JSON"), MaxRetries: new(0), UniqueKey: "<k>", Metadata: json.RawMessage(`{"a":1}`), Priority: -5,
		})
		require.NoError(t, err)
		b.finish(t, b.start(t, "b", "default"), store.Done, "")
		page, err := b.List(t.Context(), queue.Filter{Task: "b"})
		require.NoError(t, err)
		require.Equal(t, `{"items":[{"id":"`+receipt.ID+`","task":"b","queue":"default","state":"completed","priority":-5,`+
			`"args":null,"args_size":9,"metadata":{"a":1},"attempt":1,"max_retries":0,"deferrals":0,`+
			`"run_at":"2030-01-02T03:04:05.001500Z","first_due_at":"2030-01-02T03:04:05.001500Z","enqueued_at":"2030-01-02T03:04:05.001500Z",`+
			`"started_at":"2030-01-02T03:04:05.001500Z","finished_at":"2030-01-02T03:04:05.001500Z","expires_at":null,`+
			`"unique_key":"\u003ck\u003e","replay_of":null,"last_error":null}],"next":null}`, jsonText(t, page))
	})
}

func TestAJobWithoutArgumentsIsShownWithNone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		text := jsonText(t, b.get(t, receipt.ID))
		require.Contains(t, text, `"args":null,"args_base64":"","metadata"`)
	})
}

func TestTheJSONOfAJobReadsBack(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: []byte(`[1]`), MaxRetries: new(2), UniqueKey: "k"})
		require.NoError(t, err)
		info := b.get(t, receipt.ID)
		var back queue.JobInfo
		require.NoError(t, json.Unmarshal([]byte(jsonText(t, info)), &back))
		back.Metadata = nil // null
		require.Equal(t, *info, back)
	})
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func TestAHandlerIsToldAllAboutItsJob(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := sendEmail.Enqueue(t.Context(), b.Client, emailArgs{To: "ada"}, queue.Priority(3), queue.UniqueKey("k"),
			queue.Metadata(map[string]any{"a": 1}), queue.MaxRetries(5))
		require.NoError(t, err)
		b.clock.Advance(time.Minute)
		job, err := queue.NewJobFor[emailArgs](b.start(t, "send_email", "default")[0])
		require.NoError(t, err)
		require.Equal(t, &queue.Job[emailArgs]{
			Envelope: queue.Envelope{
				ID: receipt.ID, Task: "send_email", Queue: "default", Attempt: 1, MaxRetries: 5, Priority: 3, Metadata: json.RawMessage(`{"a":1}`),
				EnqueuedAt: start, StartedAt: start.Add(time.Minute), UniqueKey: "k", RawArgs: []byte(`{"to":"ada"}`),
			},
			Args: emailArgs{To: "ada"},
		}, job)

		_, err = b.Enqueue(t.Context(), queue.NewJob{Task: "send_email", Args: []byte("x")})
		require.NoError(t, err)
		job, err = queue.NewJobFor[emailArgs](b.start(t, "send_email", "default")[0])
		require.ErrorContains(t, err, `decode arguments into queue_test.emailArgs: invalid character`)
		require.Equal(t, 3, job.MaxRetries)
	})
}
