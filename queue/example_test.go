package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

// EmailArgs are the arguments of the task that the examples use.
type EmailArgs struct {
	To string `json:"to"`
}

// SendEmail is declared once, for the producers and for the handler.
var SendEmail = queue.Task[EmailArgs]("send_email")

// temporary opens a database in a folder that is gone afterwards, at a time
// that stands still.
func temporary() (client *queue.Client, dsn string, cleanup func()) {
	dir, err := os.MkdirTemp("", "weir")
	check(err)
	dsn = "sqlite:" + filepath.Join(dir, "weir.db")
	clock := queuetest.NewClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	client, err = queue.Open(context.Background(), dsn, queue.WithClock(clock))
	check(err)
	return client, dsn, func() {
		check(client.Close())
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func Example() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"}, queue.Delay(time.Hour), queue.Priority(10))
	check(err)
	job, err := client.Get(ctx, receipt.ID)
	check(err)
	fmt.Println(job.Task, job.State, "until", job.RunAt.Format(time.Kitchen))
	fmt.Println(string(job.Args))
	// Output:
	// send_email scheduled until 4:04AM
	// {"to":"ada@example.com"}
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "weir")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()
	dsn := "sqlite:" + filepath.Join(dir, "weir.db")

	_, err = queue.Open(ctx, dsn, queue.WithMigrate(queue.MustExist))
	fmt.Println(errors.Is(err, queue.ErrNoDatabase))

	client, err := queue.Open(ctx, dsn, queue.WithMaxArgs(64<<10), queue.WithMaxConns(4))
	check(err)
	fmt.Println(client.Close())
	// Output:
	// true
	// <nil>
}

func ExampleWithMiddleware() {
	dir, err := os.MkdirTemp("", "weir")
	check(err)
	defer os.RemoveAll(dir)
	ctx := context.Background()

	// Every job carries the request that it was made for.
	type requestID struct{}
	tag := func(next queue.Enqueuer) queue.Enqueuer {
		return func(ctx context.Context, jobs []queue.NewJob) ([]queue.Receipt, error) {
			for i := range jobs {
				jobs[i].Metadata = fmt.Appendf(nil, `{"request": %q}`, ctx.Value(requestID{}))
			}
			return next(ctx, jobs)
		}
	}
	client, err := queue.Open(ctx, "sqlite:"+filepath.Join(dir, "weir.db"), queue.WithMiddleware(tag))
	check(err)
	defer client.Close()

	receipt, err := SendEmail.Enqueue(context.WithValue(ctx, requestID{}, "r-17"), client, EmailArgs{To: "ada@example.com"})
	check(err)
	job, err := client.Get(ctx, receipt.ID)
	check(err)
	fmt.Println(string(job.Metadata))
	// Output: {"request":"r-17"}
}

func ExampleTask_Enqueue() {
	client, _, cleanup := temporary()
	defer cleanup()

	_, err := SendEmail.Enqueue(context.Background(), client, EmailArgs{To: "ada@example.com"}, queue.Priority(1000))
	fmt.Println(err)
	if invalid, ok := errors.AsType[*queue.InvalidError](err); ok {
		fmt.Println("wrong:", invalid.Field)
	}
	// Output:
	// enqueue: task "send_email": priority 1000: use -100 (last) to 100 (first)
	// wrong: priority
}

func ExampleTask_EnqueueMany() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	receipts, err := SendEmail.EnqueueMany(ctx, client, []EmailArgs{{To: "ada@example.com"}, {To: "bob@example.com"}}, queue.Queue("newsletter"))
	check(err)
	for _, receipt := range receipts {
		job, err := client.Get(ctx, receipt.ID)
		check(err)
		fmt.Println(job.Queue, string(job.Args))
	}
	// Output:
	// newsletter {"to":"ada@example.com"}
	// newsletter {"to":"bob@example.com"}
}

func ExampleUniqueKey() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	first, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"}, queue.UniqueKey("welcome ada"))
	check(err)
	second, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"}, queue.UniqueKey("welcome ada"))
	check(err)
	fmt.Println(second.Duplicate, second.ID == first.ID)
	// Output: true true
}

func ExampleID() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	// The id comes from the request that asks for the e-mail. When that is
	// repeated, so is the enqueue, and one e-mail is sent.
	const request = "0190a5a0-1b2c-7d3e-8f40-112233445566"
	for range 2 {
		receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"}, queue.ID(request))
		check(err)
		fmt.Println(receipt.ID, receipt.Existed)
	}
	// Output:
	// 0190a5a0-1b2c-7d3e-8f40-112233445566 false
	// 0190a5a0-1b2c-7d3e-8f40-112233445566 true
}

func ExampleClient_Enqueue() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	retries := 0
	receipt, err := client.Enqueue(ctx, queue.NewJob{
		Task: "build_report", Args: []byte(`{"kind":"daily"}`), MaxRetries: &retries, Metadata: []byte(`{"asked_by":"ada"}`),
	})
	check(err)
	job, err := client.Get(ctx, receipt.ID)
	check(err)
	fmt.Println(job.Task, string(job.Metadata), *job.MaxRetries)
	// Output: build_report {"asked_by":"ada"} 0
}

func ExampleClient_EnqueueMany() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	_, err := client.EnqueueMany(ctx, []queue.NewJob{{Task: "resize"}, {Task: ""}})
	fmt.Println(err)
	receipts, err := client.EnqueueMany(ctx, []queue.NewJob{{Task: "resize"}, {Task: "send_email"}})
	fmt.Println(len(receipts), err)
	// Output:
	// enqueue: job 2 of 2: task "": it is empty: use 1 to 255 bytes
	// 2 <nil>
}

func ExampleClient_Get() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	_, err := client.Get(ctx, "0190a5a0-1b2c-7d3e-8f40-112233445566")
	if dead, ok := errors.AsType[*queue.DeadError](err); ok {
		fmt.Println("look at its dead letter", dead.EntryID)
	}
	if errors.Is(err, queue.ErrNotFound) {
		fmt.Println("no such job")
	}
	// Output: no such job
}

func ExampleClient_List() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	_, err := SendEmail.EnqueueMany(ctx, client, []EmailArgs{{To: "ada"}, {To: "bob"}, {To: "cyd"}})
	check(err)

	filter := queue.Filter{Task: string(SendEmail), States: []queue.State{queue.StatePending}, Limit: 2}
	for {
		page, err := client.List(ctx, filter)
		check(err)
		for _, job := range page.Items {
			fmt.Println(string(job.Args))
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
		fmt.Println("next page")
	}
	// Output:
	// {"to":"cyd"}
	// {"to":"bob"}
	// next page
	// {"to":"ada"}
}

func ExampleClient_Cancel() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada"})
	check(err)

	check(client.Cancel(ctx, receipt.ID))
	job, err := client.Get(ctx, receipt.ID)
	check(err)
	fmt.Println(job.State)
	// Output: cancelled
}

func ExampleClient_Queues() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	_, err := SendEmail.EnqueueMany(ctx, client, []EmailArgs{{To: "ada"}, {To: "bob"}}, queue.Queue("emails"))
	check(err)
	_, err = SendEmail.Enqueue(ctx, client, EmailArgs{To: "cyd"}, queue.Queue("emails"), queue.Delay(time.Minute))
	check(err)

	queues, err := client.Queues(ctx)
	check(err)
	for _, q := range queues {
		fmt.Printf("%s: %d wait, %d scheduled, %d running\n", q.Name, q.Waiting, q.Scheduled, q.Running)
	}
	// Output: emails: 2 wait, 1 scheduled, 0 running
}

// declare stores what a scheduler stores that has a task under a limit.
func declare(client *queue.Client) {
	limit, err := bucket.NewLimit("100/m", 20)
	check(err)
	check(client.Store().Register(context.Background(),
		[]store.Task{{Name: "send_email", Queue: "emails", MaxRetries: 3, Definition: `{"rate_limit":"100/m"}`}},
		[]store.Declared{{Name: "task:send_email", Limit: limit, Tasks: []string{"send_email"}}}))
}

func ExampleClient_Tasks() {
	client, _, cleanup := temporary()
	defer cleanup()
	declare(client)

	tasks, err := client.Tasks(context.Background())
	check(err)
	for _, task := range tasks {
		fmt.Println(task.Name, "waits in", task.Queue, string(task.Definition))
	}
	// Output: send_email waits in emails {"rate_limit":"100/m"}
}

func ExampleClient_Limits() {
	client, _, cleanup := temporary()
	defer cleanup()
	declare(client)

	limits, err := client.Limits(context.Background())
	check(err)
	for _, limit := range limits {
		fmt.Printf("%s %s: %g of %g tokens\n", limit.Name, limit.Rate, limit.Level, limit.Capacity)
	}
	// Output: task:send_email 100/m: 20 of 20 tokens
}

func ExampleClient_Limit() {
	client, _, cleanup := temporary()
	defer cleanup()
	declare(client)

	limit, err := client.Limit(context.Background(), "task:send_email")
	check(err)
	fmt.Println(limit.Rate, limit.Source)
	_, err = client.Limit(context.Background(), "task:resize")
	fmt.Println(errors.Is(err, queue.ErrNotFound))
	// Output:
	// 100/m declared
	// true
}

func ExampleCheckName() {
	fmt.Println(queue.CheckName("queue", "emails"))
	fmt.Println(queue.CheckName("queue", "emails\n"))
	// Output:
	// <nil>
	// queue "emails\n": it has the control character U+000A at byte 6: leave it out
}

func ExampleParseState() {
	state, err := queue.ParseState("waiting")
	fmt.Println(state, err)
	// Output: waiting <nil>
}

func ExampleEncode() {
	b, err := queue.Encode(EmailArgs{To: "ada"})
	fmt.Println(string(b), err)
	b, err = queue.Encode([]byte{0xff, 0x00})
	fmt.Printf("%x %v\n", b, err)
	// Output:
	// {"to":"ada"} <nil>
	// ff00 <nil>
}

func ExampleDecode() {
	args, err := queue.Decode[EmailArgs]([]byte(`{"to":"ada"}`))
	fmt.Println(args.To, err)
	// Output: ada <nil>
}

func ExampleClient_Audit() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := queue.WithActor(context.Background(), "ada")
	check(client.PauseQueue(ctx, "emails"))
	check(client.ResumeQueue(ctx, "emails"))

	page, err := client.Audit(ctx, queue.AuditFilter{})
	check(err)
	for _, act := range page.Items {
		fmt.Println(act.Actor, "did", act.Action, act.Subject)
	}
	// Output:
	// ada did queues resume emails
	// ada did queues pause emails
}
