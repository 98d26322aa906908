package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func ExampleSchedule() {
	client, clock, cleanup := temporary() // it is 2 January 2030, 09:00 UTC
	defer cleanup()
	ctx := context.Background()
	paris, err := time.LoadLocation("Europe/Paris")
	check(err)

	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[EmailArgs]) error {
		fmt.Println(clock.Now().In(paris).Format("02 15:04"), "to", job.Args.To)
		return nil
	}))
	check(scheduler.Schedule(s, "nightly", "30 3 * * *", SendEmail, EmailArgs{To: "ada@example.com"},
		scheduler.TimeZone("Europe/Paris"), scheduler.Missed(scheduler.Once)))
	check(scheduler.Schedule(s, "often", "@every 8h", SendEmail, EmailArgs{To: "bob@example.com"},
		scheduler.JobOptions(queue.UniqueKey("often"))))

	check(s.Drain(ctx)) // a program calls s.Run(ctx)
	for range 2 * 24 * 2 {
		clock.Advance(30 * time.Minute)
		check(s.Drain(ctx))
	}
	// Output:
	// 02 18:00 to bob@example.com
	// 03 02:00 to bob@example.com
	// 03 03:30 to ada@example.com
	// 03 10:00 to bob@example.com
	// 03 18:00 to bob@example.com
	// 04 02:00 to bob@example.com
	// 04 03:30 to ada@example.com
	// 04 10:00 to bob@example.com
}
