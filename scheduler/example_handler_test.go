package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// errBusy is what a mail server says that wants to be left alone for a while.
var errBusy = errors.New("too many connections")

func ExampleRetryAfter() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().Format(time.TimeOnly), "attempt", job.Attempt)
		if job.Attempt == 1 {
			return scheduler.RetryAfter(30*time.Second, errBusy)
		}
		return nil
	}))
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"})
	check(err)
	for range 4 {
		check(s.Drain(ctx))
		clock.Advance(10 * time.Second)
	}
	// Output:
	// 09:00:00 attempt 1
	// 09:00:30 attempt 2
}

func ExampleDiscard() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.DiscardHandler)))
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		return scheduler.Discard(fmt.Errorf("no address %q", job.Args.To))
	}))
	receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada"})
	check(err)
	check(s.Drain(ctx))

	entry, err := dlq.From(client).Get(ctx, receipt.ID)
	check(err)
	fmt.Println(entry.Kind, "after attempt", entry.Attempts, entry.Reason)
	// Output: failed after attempt 1 no address "ada"
}

func ExampleMiddleware() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	logged := func(next scheduler.Handler) scheduler.Handler {
		return func(ctx context.Context, job *queue.Envelope) error {
			err := next(ctx, job)
			fmt.Println(job.Task, string(job.RawArgs), err)
			return err
		}
	}
	s, err := scheduler.New(client, scheduler.Middleware(logged))
	check(err)
	check(scheduler.Register(s, SendEmail, send))
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"})
	check(err)
	check(s.Drain(ctx))
	// Output: send_email {"to":"ada@example.com"} <nil>
}

func ExampleScheduler_Subscribe() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, send))
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"})
	check(err)

	events, cancel := s.Subscribe(scheduler.JobCompleted, scheduler.JobDead)
	check(s.Drain(ctx)) // a program reads the events in a goroutine of its own
	cancel()
	for event := range events {
		fmt.Println(event.Task, event.Kind, event.Error)
	}
	// Output: send_email completed
}

// A start needs a token of each rate of a list.
func ExampleRateLimits() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, send, scheduler.RateLimits(
		scheduler.Rate{Rate: "5/s", Burst: 5},
		scheduler.Rate{Rate: "100/m", Burst: 8},
	)))
	_, err = SendEmail.EnqueueMany(ctx, client, emails(20))
	check(err)
	for range 2 {
		check(s.Drain(ctx))
		fmt.Println(s.Stats().Started, "started")
		clock.Advance(time.Second)
	}
	// Output:
	// 5 started
	// 9 started
}

// While the breaker is open the jobs of the task wait: no token and no attempt
// is spent.
func ExampleBreaker() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.DiscardHandler)), scheduler.Concurrency(1))
	check(err)
	check(scheduler.Register(s, SendEmail, func(context.Context, *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().Format(time.TimeOnly), "tried")
		return errBusy
	}, scheduler.Breaker{Failures: 2, Window: time.Minute, Open: 30 * time.Second}, scheduler.Backoff{Base: time.Hour}))
	_, err = SendEmail.EnqueueMany(ctx, client, emails(10))
	check(err)
	for range 5 {
		check(s.Drain(ctx))
		clock.Advance(10 * time.Second)
	}
	// Output:
	// 09:00:00 tried
	// 09:00:00 tried
	// 09:00:30 tried
}
