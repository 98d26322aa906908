package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

type emailArgs struct {
	To string `json:"to"`
}

var sendEmail = queue.Task[emailArgs]("send_email")

func TestAJobComesBackAsItWasEnqueued(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := sendEmail.Enqueue(t.Context(), b.Client, emailArgs{To: "ada"},
			queue.Queue("emails"), queue.Priority(7), queue.Delay(time.Hour), queue.UniqueKey("ada"),
			queue.Metadata(map[string]any{"source": "import"}), queue.Timeout(30*time.Second), queue.MaxRetries(0))
		require.NoError(t, err)
		require.False(t, receipt.Duplicate)
		require.False(t, receipt.Existed)

		zero := 0
		require.Equal(t, &queue.JobInfo{
			ID: receipt.ID, Task: "send_email", Queue: "emails", State: queue.StateScheduled, Priority: 7,
			Args: json.RawMessage(`{"to":"ada"}`), RawArgs: []byte(`{"to":"ada"}`), Metadata: json.RawMessage(`{"source":"import"}`),
			MaxRetries: &zero, RunAt: start.Add(time.Hour), FirstDueAt: start.Add(time.Hour), EnqueuedAt: start,
			UniqueKey: "ada", Timeout: 30 * time.Second,
		}, b.get(t, receipt.ID))
	})
}

func TestWhatIsUnsetIsLeftToTheTask(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := sendEmail.Enqueue(t.Context(), b.Client, emailArgs{})
		require.NoError(t, err)
		info := b.get(t, receipt.ID)
		require.Equal(t, "default", info.Queue)
		require.Equal(t, queue.StateWaiting, info.State)
		require.Nil(t, info.MaxRetries)
		require.Zero(t, info.Timeout)
		require.Nil(t, info.Metadata)
		require.Equal(t, start, info.RunAt)

		require.NoError(t, b.Store().Register(t.Context(), []store.Task{{Name: "send_email", Queue: "emails", Definition: "{}"}}, nil))
		receipt, err = sendEmail.Enqueue(t.Context(), b.Client, emailArgs{})
		require.NoError(t, err)
		require.Equal(t, "emails", b.get(t, receipt.ID).Queue)
	})
}

func TestAnEnqueueWithAnIDCanBeRepeated(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		id := uuid.NewString()
		enqueue := func(id string) queue.Receipt {
			receipt, err := sendEmail.Enqueue(t.Context(), b.Client, emailArgs{To: id}, queue.ID(id))
			require.NoError(t, err)
			return receipt
		}
		require.Equal(t, queue.Receipt{ID: id}, enqueue(id))
		require.Equal(t, queue.Receipt{ID: id, Existed: true}, enqueue(id), "live")
		require.Equal(t, queue.Receipt{ID: id, Existed: true}, enqueue(strings.ToUpper(id)), "written otherwise")
		require.JSONEq(t, `{"to":"`+id+`"}`, string(b.get(t, id).Args), "left as it is")

		b.finish(t, b.start(t, "send_email", "default"), store.Done, "")
		require.Equal(t, queue.Receipt{ID: id, Existed: true}, enqueue(id), "finished")

		dead := uuid.NewString()
		enqueue(dead)
		b.finish(t, b.start(t, "send_email", "default"), store.Dead, "gone")
		require.Equal(t, queue.Receipt{ID: dead, Existed: true}, enqueue(dead), "dead")
	})
}

func TestIDsRiseWithinAProcess(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		jobs := make([]queue.NewJob, 5000)
		for i := range jobs {
			jobs[i].Task = "a"
		}
		receipts, err := b.EnqueueMany(t.Context(), jobs)
		require.NoError(t, err)
		last := ""
		for _, r := range receipts {
			require.Greater(t, r.ID, last)
			last = r.ID
			parsed, err := uuid.Parse(r.ID)
			require.NoError(t, err)
			require.Equal(t, uuid.Version(7), parsed.Version())
			require.Equal(t, parsed.String(), r.ID)
		}
		one, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		require.Greater(t, one.ID, last)
	})
}

func TestAnEnqueueWhoseContextHasEndedWritesNothing(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := b.Enqueue(ctx, queue.NewJob{Task: "a"})
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, queue.ErrOutcomeUnknown)
		_, err = b.EnqueueMany(ctx, []queue.NewJob{{Task: "a"}})
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, b.all(t, queue.Filter{}))
	})
}

func TestAWaitThatIsGivenUpSaysThatTheOutcomeIsUnknownAndNamesTheJob(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		// Somebody else has the key, and does not say whether it stays.
		tx, err := b.db.SQL(t).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		first, err := b.EnqueueTx(t.Context(), tx, queue.NewJob{Task: "a", UniqueKey: "k"})
		require.NoError(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		args := []byte("before")
		receipt, err := b.Enqueue(ctx, queue.NewJob{Task: "a", UniqueKey: "k", Args: args})
		require.ErrorIs(t, err, queue.ErrOutcomeUnknown)
		require.NotEmpty(t, receipt.ID)
		copy(args, "after!") // the caller's own again

		require.NoError(t, tx.Commit())
		again, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", UniqueKey: "k", ID: receipt.ID})
		require.NoError(t, err)
		require.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, again)
	})
}

// One commit serves them all; what they get must still be their own.
func TestEnqueuesAtTheSameTimeGetTheirOwnAnswers(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n = 200
		receipts, errs := make([]queue.Receipt, n), make([]error, n)
		together(n, func(i int) {
			receipts[i], errs[i] = sendEmail.Enqueue(t.Context(), b.Client, emailArgs{To: fmt.Sprint(i)})
		})
		for i := range n {
			require.NoError(t, errs[i])
			require.JSONEq(t, fmt.Sprintf(`{"to":"%d"}`, i), string(b.get(t, receipts[i].ID).Args))
		}
		require.Len(t, b.all(t, queue.Filter{}), n)
	})
}

func TestAnAcknowledgedJobIsThereForAnotherProcess(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		other := open(t, b.db, queue.WithMigrate(queue.MustExist))
		info, err := other.Get(t.Context(), receipt.ID)
		require.NoError(t, err)
		require.Equal(t, "a", info.Task)
	})
}

func TestWhatIsMissingIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	c := queuetest.Open(t)
	task := queue.Task[int]("t")
	_, err := task.Enqueue(t.Context(), nil, 1)
	require.EqualError(t, err, "enqueue: client nil: open one with queue.Open")
	require.ErrorIs(t, err, queue.ErrInvalid)
	_, err = task.EnqueueMany(t.Context(), nil, []int{1})
	require.EqualError(t, err, "enqueue: client nil: open one with queue.Open")
	_, err = task.EnqueueTx(t.Context(), c, nil, 1)
	require.EqualError(t, err, "enqueue: transaction nil: begin one, or use Enqueue")
	_, err = task.Enqueue(t.Context(), c, 1, queue.Priority(1), nil)
	require.EqualError(t, err, `enqueue: task "t": option 2: it is nil: leave it out`)
	_, err = queue.Task[int]("").Enqueue(t.Context(), c, 1)
	require.EqualError(t, err, `enqueue: task "": it is empty: use 1 to 255 bytes`)
}
