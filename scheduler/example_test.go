package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
	"github.com/weirq/weir/scheduler"
)

// EmailArgs are the arguments of the task that the examples use.
type EmailArgs struct {
	To string `json:"to"`
}

// SendEmail is declared once, for the producers and for the handler.
var SendEmail = queue.Task[EmailArgs]("send_email")

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// temporary opens a database in a folder that is gone afterwards, under a
// clock that stands still until it is moved.
func temporary() (*queue.Client, *queuetest.Clock, func()) {
	dir, err := os.MkdirTemp("", "weir")
	check(err)
	clock := queuetest.NewClock(time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC))
	client, err := queue.Open(context.Background(), "sqlite:"+filepath.Join(dir, "weir.db"), queue.WithClock(clock))
	check(err)
	return client, clock, func() {
		check(client.Close())
		check(os.RemoveAll(dir))
	}
}

// emails are the arguments for n mails.
func emails(n int) []EmailArgs {
	out := make([]EmailArgs, n)
	for i := range out {
		out[i].To = fmt.Sprintf("user-%d@example.com", i)
	}
	return out
}

func send(context.Context, *queue.Job[EmailArgs]) error { return nil }

func Example() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	s, err := scheduler.New(client, scheduler.Concurrency(1))
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().Format(time.TimeOnly), "to", job.Args.To)
		return nil
	}, scheduler.RateLimit("2/s")))

	_, err = SendEmail.EnqueueMany(ctx, client, emails(5))
	check(err)
	for range 3 {
		check(s.Drain(ctx)) // a program calls s.Run(ctx)
		clock.Advance(time.Second)
	}
	// Output:
	// 09:00:00 to user-0@example.com
	// 09:00:00 to user-1@example.com
	// 09:00:01 to user-2@example.com
	// 09:00:01 to user-3@example.com
	// 09:00:02 to user-4@example.com
}

func ExampleNew() {
	client, _, cleanup := temporary()
	defer cleanup()

	_, err := scheduler.New(
		client,
		scheduler.Concurrency(20),
		scheduler.Lease(time.Minute),
		scheduler.ShutdownGrace(10*time.Second),
		scheduler.Logger(slog.New(slog.DiscardHandler)),
		scheduler.QueueLimit("emails", "500/m"),
	)
	fmt.Println(err)

	_, err = scheduler.New(client, scheduler.QueueLimit("emails", "500/mo"))
	fmt.Println(err)
	// Output:
	// <nil>
	// scheduler: queue "emails": rate "500/mo": unknown period "mo": use s, m, h or d, as in "100/m"
}

func ExampleRegister() {
	client, _, cleanup := temporary()
	defer cleanup()
	s, err := scheduler.New(client)
	check(err)

	err = scheduler.Register(s, SendEmail, send,
		scheduler.RateLimit("100/m"),
		scheduler.Queue("emails"),
		scheduler.MaxRetries(5),
		scheduler.Timeout(30*time.Second))
	fmt.Println(err)

	err = scheduler.Register(s, "resize", send, scheduler.RateLimit("100"))
	fmt.Println(err)

	for _, task := range s.Describe() {
		fmt.Println(task.Name, task.RateLimit, "in", task.Queue)
	}
	// Output:
	// <nil>
	// task "resize": rate_limit: rate "100": no "/": write a count and a period, as in "100/m"
	// send_email 100/m in emails
}

func ExampleScheduler_Run() {
	client, _, cleanup := temporary()
	defer cleanup()
	// A program: signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())

	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println("to", job.Args.To)
		stop()
		return nil
	}))
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"})
	check(err)

	fmt.Println(s.Run(ctx)) // until ctx ends; then what runs is finished
	fmt.Println(s.Stats().Completed, "completed")
	// Output:
	// to ada@example.com
	// <nil>
	// 1 completed
}

func ExampleScheduler_Drain() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println("to", job.Args.To)
		return nil
	}))
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"}, queue.Delay(time.Hour))
	check(err)

	check(s.Drain(ctx))
	fmt.Println("nothing is due")
	clock.Advance(time.Hour)
	check(s.Drain(ctx))
	// Output:
	// nothing is due
	// to ada@example.com
}

// A queue's limit covers whatever runs in it.
func ExampleQueueLimit() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.QueueLimit("emails", "3/m"))
	check(err)
	check(scheduler.Register(s, SendEmail, send, scheduler.Queue("emails")))
	check(scheduler.Register(s, "send_invoice", send, scheduler.Queue("emails")))
	check(s.Drain(ctx)) // a scheduler that has run once tells producers the tasks' queues

	_, err = SendEmail.EnqueueMany(ctx, client, emails(2))
	check(err)
	_, err = queue.Task[EmailArgs]("send_invoice").EnqueueMany(ctx, client, emails(2))
	check(err)
	check(s.Drain(ctx))
	fmt.Println(s.Stats().Completed, "started,", s.Stats().Deferred, "put off")
	// Output: 3 started, 1 put off
}

// A shared limit is one budget for several tasks.
func ExampleSharedLimit() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.SharedLimit("stripe", "100/m", scheduler.Tasks("charge_card", "refund_card")))
	check(err)
	check(scheduler.Register(s, "charge_card", send))
	check(scheduler.Register(s, "refund_card", send))

	for _, task := range []queue.Task[EmailArgs]{"charge_card", "refund_card"} {
		_, err = task.EnqueueMany(ctx, client, emails(60))
		check(err)
	}
	check(s.Drain(ctx))
	fmt.Println(s.Stats().Completed)
	// Output: 100
}

// A limit may cover tasks that another process runs.
func ExampleElsewhere() {
	client, _, cleanup := temporary()
	defer cleanup()
	stripe := scheduler.SharedLimit("stripe", "100/m", scheduler.Tasks("charge_card", "refund_card"))

	s, err := scheduler.New(client, stripe)
	check(err)
	check(scheduler.Register(s, "charge_card", send))
	fmt.Println(s.Validate())

	s, err = scheduler.New(client, stripe, scheduler.Elsewhere("refund_card"))
	check(err)
	check(scheduler.Register(s, "charge_card", send))
	fmt.Println(s.Validate())
	// Output:
	// limit "stripe": it names the task "refund_card", which is not registered: register it, or declare it with Elsewhere if another process runs it
	// <nil>
}

// What exceeds the limit is dead-lettered at once, with the reason.
func ExampleOnExcess() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, "record_sample", send, scheduler.RateLimit("10/s"), scheduler.OnExcess(scheduler.Drop)))
	_, err = queue.Task[EmailArgs]("record_sample").EnqueueMany(ctx, client, emails(12))
	check(err)
	check(s.Drain(ctx))

	page, err := dlq.From(client).List(ctx, dlq.Filter{Kind: dlq.Shed})
	check(err)
	for _, entry := range page.Items {
		fmt.Println(entry.Kind, entry.Reason, string(entry.Metadata))
	}
	// Output:
	// shed rate_limit: task:record_sample 10/s {"shed":"rate_limit"}
	// shed rate_limit: task:record_sample 10/s {"shed":"rate_limit"}
}

// A limit that is asked again at its next token paces the starts evenly.
func ExampleDefer() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().Format("05.000"), job.Args.To)
		return nil
	}, scheduler.RateLimit("4/s"), scheduler.Burst(1), scheduler.Defer(scheduler.UntilToken)))
	_, err = SendEmail.EnqueueMany(ctx, client, emails(3))
	check(err)
	for range 3 {
		check(s.Drain(ctx))
		clock.Advance(250 * time.Millisecond)
	}
	// Output:
	// 00.000 user-0@example.com
	// 00.250 user-1@example.com
	// 00.500 user-2@example.com
}

func ExampleBackoff() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().Format(time.TimeOnly), "attempt", job.Attempt, "of", job.MaxRetries+1)
		return errors.New("mail server: try later")
	}, scheduler.MaxRetries(3), scheduler.Backoff{Base: 10 * time.Second, Factor: 2, Max: time.Minute}))
	receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"})
	check(err)
	for range 10 {
		check(s.Drain(ctx))
		clock.Advance(10 * time.Second)
	}
	entry, err := dlq.From(client).Get(ctx, receipt.ID)
	check(err)
	fmt.Println(entry.Kind, entry.Reason)
	// Output:
	// 09:00:00 attempt 1 of 4
	// 09:00:10 attempt 2 of 4
	// 09:00:30 attempt 3 of 4
	// 09:01:10 attempt 4 of 4
	// failed mail server: try later
}

// A job that failed for good is tried again an hour after its death.
func ExampleDLQRetry() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().Format(time.TimeOnly), job.Args.To)
		return errors.New("mail server: try later")
	}, scheduler.MaxRetries(0), scheduler.DLQRetry(time.Hour, 2)))
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"})
	check(err)
	for range 5 {
		check(s.Drain(ctx))
		clock.Advance(time.Hour)
	}
	// Output:
	// 09:00:00 ada@example.com
	// 10:00:00 ada@example.com
	// 11:00:00 ada@example.com
}

func ExampleDeadRetention() {
	client, _, cleanup := temporary()
	defer cleanup()

	_, err := scheduler.New(client,
		scheduler.DeadRetention(dlq.Shed, scheduler.Keep{Age: 24 * time.Hour}),
		scheduler.DeadRetention(dlq.Failed, scheduler.Keep{Age: 30 * 24 * time.Hour, Count: 100_000}),
	)
	fmt.Println(err)
	// Output: <nil>
}
