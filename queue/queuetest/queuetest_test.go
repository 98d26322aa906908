package queuetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

type emailArgs struct {
	To string `json:"to"`
}

var sendEmail = queue.Task[emailArgs]("send_email")

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// recorder is a test that may end early without ending this one.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(r)
}

// failure is what do ends its test with, or "".
func failure(t *testing.T, do func(t testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != any(r) {
				panic(v)
			}
		}()
		do(r)
	}()
	return r.failure
}

func TestWhatIsPendingIsReturnedInItsOrderWithItsArguments(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	clock := queuetest.NewClock(start)
	c := queuetest.Open(t, queue.WithClock(clock))
	large := strings.Repeat("x", 10_000) // more than a list shows
	_, err := sendEmail.Enqueue(ctx, c, emailArgs{To: large}, queue.Delay(time.Hour))
	require.NoError(t, err)
	_, err = sendEmail.EnqueueMany(ctx, c, []emailArgs{{To: "bob"}, {To: "cyd"}}, queue.Queue("emails"))
	require.NoError(t, err)
	_, err = c.Enqueue(ctx, queue.NewJob{Task: "other"})
	require.NoError(t, err)

	jobs := queuetest.RequireEnqueued(t, c, sendEmail)
	require.Len(t, jobs, 3)
	require.Equal(t, large, jobs[0].Args.To)
	require.Equal(t, start.Add(time.Hour), jobs[0].RunAt)
	require.Equal(t, queue.StateScheduled, jobs[0].State)
	require.Equal(t, "bob", jobs[1].Args.To)
	require.Equal(t, "cyd", jobs[2].Args.To)

	inEmails := func(j queuetest.Enqueued[emailArgs]) bool { return j.Queue == "emails" }
	toBob := func(j queuetest.Enqueued[emailArgs]) bool { return j.Args.To == "bob" }
	toAda := func(j queuetest.Enqueued[emailArgs]) bool { return j.Args.To == "ada" }
	require.Len(t, queuetest.RequireEnqueued(t, c, sendEmail, inEmails), 2)
	require.Len(t, queuetest.RequireEnqueued(t, c, sendEmail, inEmails, toBob), 1)
	queuetest.RequireNotEnqueued(t, c, sendEmail, inEmails, toAda)
	queuetest.RequireNotEnqueued(t, c, queue.Task[[]byte]("send_sms"))

	require.NoError(t, c.Cancel(ctx, jobs[1].ID))
	queuetest.RequireNotEnqueued(t, c, sendEmail, toBob)
}

func TestAFailureShowsWhatIsPendingInstead(t *testing.T) {
	t.Parallel()
	c := queuetest.Open(t)
	require.Equal(t, `queuetest: no pending job of task "send_email"; pending: nothing`, failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.RequireEnqueued(t, c, sendEmail)
	}))
	_, err := sendEmail.Enqueue(t.Context(), c, emailArgs{To: "ada"})
	require.NoError(t, err)
	_, err = c.Enqueue(t.Context(), queue.NewJob{Task: "other", Delay: time.Hour, Queue: "q"})
	require.NoError(t, err)
	const pending = "pending: \n  send_email {\"to\":\"ada\"} waiting in default\n  other  scheduled in q"
	require.Equal(t, `queuetest: no pending job of task "send_email" that matches; `+pending, failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.RequireEnqueued(t, c, sendEmail, func(queuetest.Enqueued[emailArgs]) bool { return false })
	}))
	require.Equal(t, `queuetest: 1 pending jobs of task "send_email"; `+pending, failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.RequireNotEnqueued(t, c, sendEmail)
	}))
	require.Contains(t, failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.RequireEnqueued(t, c, queue.Task[int]("send_email"))
	}), "decode arguments into int")

	_, err = sendEmail.EnqueueMany(t.Context(), c, make([]emailArgs, 30))
	require.NoError(t, err)
	require.Contains(t, failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.RequireNotEnqueued(t, c, sendEmail)
	}), "\n  and 12 more")
}

func TestADatabaseThatCannotBeOpenedEndsTheTest(t *testing.T) {
	t.Parallel()
	require.Contains(t, failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.Open(t, queue.WithMaxArgs(0))
	}), "queuetest: open: max args 0")
}

func TestTheClockMovesOnlyWhenItIsAdvanced(t *testing.T) {
	t.Parallel()
	clock := queuetest.NewClock(start)
	fired, stop := clock.Timer(time.Minute)
	defer stop()
	clock.Advance(time.Minute - 1)
	require.Empty(t, fired)
	clock.Advance(1)
	require.Equal(t, start.Add(time.Minute), <-fired)
	require.Equal(t, start.Add(time.Minute), clock.Now())
	clock.Advance(-time.Hour)
	require.Equal(t, start.Add(time.Minute-time.Hour), clock.Now())
}

// drainer notes at what time it is drained.
type drainer struct {
	clock *queuetest.Clock
	at    []time.Time
	err   error
}

func (d *drainer) Drain(context.Context) error {
	d.at = append(d.at, d.clock.Now())
	return d.err
}

func TestASchedulerIsDrainedAtTheTimeOfTheClock(t *testing.T) {
	t.Parallel()
	d := &drainer{clock: queuetest.NewClock(start)}
	queuetest.Drain(t, d)
	queuetest.AdvanceAndDrain(t, d.clock, d, time.Hour)
	require.Equal(t, []time.Time{start, start.Add(time.Hour)}, d.at)

	d.err = errors.New("a job panicked")
	require.Equal(t, "queuetest: drain: a job panicked", failure(t, func(t testing.TB) {
		t.Helper()
		queuetest.Drain(t, d)
	}))
}
