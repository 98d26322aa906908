package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func ExampleWindowLimit() {
	client, clock, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	s, err := scheduler.New(client,
		scheduler.Concurrency(1), // one after the other, for the output
		scheduler.Strategy(scheduler.FixedWindow),
		scheduler.WindowLimit("provider", 2, time.Minute, scheduler.Tasks("send_email")),
	)
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println("to", job.Args.To)
		return nil
	}))
	for _, to := range []string{"ada", "bob", "eve"} {
		_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: to})
		check(err)
	}
	check(s.Drain(ctx)) // a program calls s.Run(ctx)
	clock.Advance(59 * time.Second)
	check(s.Drain(ctx))
	fmt.Println("the next window opens")
	clock.Advance(time.Second)
	check(s.Drain(ctx))
	// Output:
	// to ada
	// to bob
	// the next window opens
	// to eve
}
