package dlq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

// temporary is a database in a folder that is gone afterwards, with two dead
// letters: an e-mail that failed, and a sample that was shed.
func temporary() (client *queue.Client, dsn string, cleanup func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "weir")
	check(err)
	dsn = "sqlite:" + filepath.Join(dir, "weir.db")
	client, err = queue.Open(ctx, dsn, queue.WithClock(queuetest.NewClock(start)))
	check(err)
	_, err = client.EnqueueMany(ctx, []queue.NewJob{
		{Task: "send_email", Args: []byte(`{"to":"ada"}`), UniqueKey: "ada"}, {Task: "record_sample", Args: []byte(`{"n":1}`)},
	})
	check(err)
	s := client.Store()
	out, err := s.Turn(ctx, store.TurnRequest{Claim: 1, Lease: time.Minute, Admit: verdict{store.Line{Task: "send_email", Queue: "default"}, ""}})
	check(err)
	failed := store.Result{
		ID: out.Started[0].ID, UID: out.Started[0].UID, Claim: 1, Outcome: store.Dead, Reason: "no such host",
		Errors: store.AppendError("", store.AttemptError{Attempt: 1, At: start.UnixMicro(), Error: "no such host"}),
	}
	_, err = s.Turn(ctx, store.TurnRequest{
		Results: []store.Result{failed}, Claim: 2, Lease: time.Minute,
		Admit: verdict{store.Line{Task: "record_sample", Queue: "default"}, "rate_limit: task:record_sample 10/s"},
	})
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

	letters := dlq.From(client)
	page, err := letters.List(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)
	for _, entry := range page.Items {
		fmt.Println(entry.Task, string(entry.Args), "failed:", entry.Reason)
	}
	result, err := letters.ReplayWhere(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)
	fmt.Println(result.Replayed, "replayed")
	// Output:
	// send_email {"to":"ada"} failed: no such host
	// 1 replayed
}

func ExampleOpen() {
	_, dsn, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()

	letters, err := dlq.Open(ctx, dsn)
	check(err)
	page, err := letters.List(ctx, dlq.Filter{})
	check(err)
	fmt.Println(len(page.Items))
	check(letters.Close())

	_, err = dlq.Open(ctx, dsn+".other")
	fmt.Println(errors.Is(err, dlq.ErrNoDatabase))
	// Output:
	// 2
	// true
}

func ExampleFrom() {
	client, _, cleanup := temporary()
	defer cleanup()

	page, err := dlq.From(client).List(context.Background(), dlq.Filter{Task: "record_sample"})
	check(err)
	fmt.Println(page.Items[0].Kind, page.Items[0].Reason)
	// Output: shed rate_limit: task:record_sample 10/s
}

func ExampleLetters_List() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)

	filter := dlq.Filter{Limit: 1}
	for {
		page, err := letters.List(ctx, filter)
		check(err)
		for _, entry := range page.Items {
			fmt.Println(entry.Task, entry.Kind)
		}
		if filter.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	// Output:
	// record_sample shed
	// send_email failed
}

func ExampleLetters_Get() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)

	// An entry has an id of its own, and is found by the job's as well.
	page, err := letters.List(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)
	entry, err := letters.Get(ctx, page.Items[0].JobID)
	check(err)
	for _, failure := range entry.Errors {
		fmt.Printf("attempt %d: %s\n", failure.Attempt, failure.Error)
	}
	_, err = letters.Get(ctx, "12345")
	fmt.Println(err)
	// Output:
	// attempt 1: no such host
	// dead letter 12345: not found: it never was, or it was replayed or purged
}

func ExampleLetters_Stats() {
	client, _, cleanup := temporary()
	defer cleanup()

	stats, err := dlq.From(client).Stats(context.Background())
	check(err)
	for _, group := range stats.Groups {
		fmt.Println(group.Count, group.Kind, group.Task, group.Reason)
	}
	// Output:
	// 1 failed send_email no such host
	// 1 shed record_sample rate_limit: task:record_sample 10/s
}

func ExampleLetters_Replay() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)
	page, err := letters.List(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)

	replayed, err := letters.Replay(ctx, page.Items[0].ID)
	check(err)
	job, err := client.Get(ctx, replayed[0].NewID)
	check(err)
	fmt.Println(job.State, string(job.Args), job.ReplayOf == page.Items[0].JobID)
	// Output: waiting {"to":"ada"} true
}

func ExampleLetters_ReplayWhere() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)

	_, err := letters.ReplayWhere(ctx, dlq.Filter{})
	fmt.Println(err)
	_, err = client.Enqueue(ctx, queue.NewJob{Task: "send_email", UniqueKey: "ada"})
	check(err)
	result, err := letters.ReplayWhere(ctx, dlq.Filter{Task: "send_email"})
	check(err)
	fmt.Println(result.Replayed, "replayed,", result.Skipped, "skipped: a live job holds the unique key")
	// Output:
	// replay: filter required: name a kind (shed, failed, expired) or a task
	// 0 replayed, 1 skipped: a live job holds the unique key
}

func ExampleLetters_Purge() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)
	page, err := letters.List(ctx, dlq.Filter{})
	check(err)

	n, err := letters.Purge(ctx, page.Items[0].ID, page.Items[1].ID)
	fmt.Println(n, err)
	// Output: 2 <nil>
}

func ExampleLetters_PurgeWhere() {
	client, _, cleanup := temporary()
	defer cleanup()

	n, err := dlq.From(client).PurgeWhere(context.Background(), dlq.Filter{Kind: dlq.Shed})
	fmt.Println(n, err)
	// Output: 1 <nil>
}

func ExampleLetters_Count() {
	client, _, cleanup := temporary()
	defer cleanup()

	// What to be woken for: failures, and new ones.
	n, err := dlq.From(client).Count(context.Background(), dlq.Filter{Kind: dlq.Failed, NewerThan: 5 * time.Minute})
	fmt.Println(n.N, n.Capped, err)
	// Output: 1 false <nil>
}

func ExampleLetters_All() {
	client, _, cleanup := temporary()
	defer cleanup()

	for entry, err := range dlq.From(client).All(context.Background(), dlq.Filter{OldestFirst: true}) {
		check(err)
		fmt.Println(entry.Task, string(entry.RawArgs))
	}
	// Output:
	// send_email {"to":"ada"}
	// record_sample {"n":1}
}

func ExampleLetters_Export() {
	client, _, cleanup := temporary()
	defer cleanup()

	var file bytes.Buffer
	n, err := dlq.From(client).Export(context.Background(), &file, dlq.Filter{Text: "ada"})
	check(err)
	fmt.Println(n, strings.Count(file.String(), "\n"))
	// Output: 1 1
}

func ExampleLetters_Preview() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)
	page, err := letters.List(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)

	preview, err := letters.Preview(ctx, &page.Items[0])
	check(err)
	fmt.Println("up to", preview.Starts, "starts; somebody runs the task:", preview.Registered)
	// Output: up to 4 starts; somebody runs the task: false
}

func ExampleLetters_Recount() {
	client, _, cleanup := temporary()
	defer cleanup()

	fmt.Println(dlq.From(client).Recount(context.Background()))
	// Output: <nil>
}

func ExampleLetters_WouldReplay() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)
	page, err := letters.List(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)

	replayed, err := letters.WouldReplay(ctx, page.Items[0].ID)
	check(err)
	fmt.Println(len(replayed), "would be replayed")
	// Output: 1 would be replayed
}

func ExampleLetters_WouldPurge() {
	client, _, cleanup := temporary()
	defer cleanup()
	ctx := context.Background()
	letters := dlq.From(client)
	page, err := letters.List(ctx, dlq.Filter{Kind: dlq.Failed})
	check(err)

	n, err := letters.WouldPurge(ctx, page.Items[0].ID)
	fmt.Println(n, "would be deleted", err)
	// Output: 1 would be deleted <nil>
}

func ExamplePace() {
	client, _, cleanup := temporary()
	defer cleanup()

	// Twenty a second, so that what is replayed does not drown live work.
	result, err := dlq.From(client).ReplayWhere(context.Background(), dlq.Filter{Task: "send_email"}, dlq.Pace("20/s"))
	fmt.Println(result.Replayed, err)
	// Output: 1 <nil>
}

func ExampleDryRun() {
	client, _, cleanup := temporary()
	defer cleanup()

	n, err := dlq.From(client).PurgeWhere(context.Background(), dlq.Filter{Kind: dlq.Shed}, dlq.DryRun())
	fmt.Println(n, "would be deleted", err)
	// Output: 1 would be deleted <nil>
}

func ExampleProgress() {
	client, _, cleanup := temporary()
	defer cleanup()

	show := dlq.Progress(func(done int64) { fmt.Println(done, "so far") })
	_, err := dlq.From(client).PurgeWhere(context.Background(), dlq.Filter{Kind: dlq.Shed}, show)
	check(err)
	// Output: 1 so far
}

func ExampleWithActor() {
	client, _, cleanup := temporary()
	defer cleanup()

	ctx := dlq.WithActor(context.Background(), "ada")
	_, err := dlq.From(client).PurgeWhere(ctx, dlq.Filter{Kind: dlq.Shed})
	check(err)
	acts, err := client.Audit(ctx, queue.AuditFilter{})
	check(err)
	for _, act := range acts.Items {
		fmt.Println(act.Actor, act.Action, act.Subject, act.Count)
	}
	// Output: ada dlq purge kind=shed 1
}

func ExampleParseKind() {
	_, err := dlq.ParseKind("shedd")
	fmt.Println(err)
	// Output: kind "shedd": use shed, failed or expired
}
