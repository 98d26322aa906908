package queue_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/queue"
)

// An operator's rate beats what the processes declare, in all of them within a
// second.
func ExampleClient_SetLimit() {
	client, _, cleanup := temporary()
	defer cleanup()
	declare(client)
	ctx := context.Background()

	check(client.SetLimit(ctx, "task:send_email", queue.Override{Rate: "20/m", For: time.Hour, Reason: "the provider is slow"}))
	limit, err := client.Limit(ctx, "task:send_email")
	check(err)
	fmt.Println(limit.Rate, limit.Source, "until", limit.OverrideUntil.Format(time.Kitchen))

	check(client.UnsetLimit(ctx, "task:send_email"))
	fmt.Println(client.SetLimit(ctx, "task:send_email", queue.Override{Rate: "20/mo"}))
	// Output:
	// 20/m override until 4:04AM
	// limit "task:send_email": rate "20/mo": unknown period "mo": use s, m, h or d, as in "100/m"
}

func ExampleClient_PauseQueue() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	check(client.PauseQueue(ctx, "emails"))
	for _, q := range must(client.Queues(ctx)) {
		fmt.Println(q.Name, "paused:", q.Paused)
	}
	check(client.ResumeQueue(ctx, "emails"))
	// Output: emails paused: true
}

// A job that waits for its time, or for its next attempt, is brought into line.
func ExampleClient_RunNow() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada"}, queue.Delay(time.Hour))
	check(err)

	check(client.RunNow(ctx, receipt.ID))
	fmt.Println(must(client.Get(ctx, receipt.ID)).State)
	// Output: waiting
}

func ExampleClient_Stats() {
	client, _, cleanup := temporary()
	defer cleanup()
	declare(client)
	ctx := context.Background()
	check(client.PauseQueue(ctx, "emails"))
	must(SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada"}))

	stats := must(client.Stats(ctx))
	fmt.Println("waiting:", stats.Waiting, "paused:", stats.Paused, "processes:", len(stats.Processes))
	// Output: waiting: 1 paused: 1 processes: 0
}
