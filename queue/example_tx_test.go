package queue_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/weirq/weir/queue"
)

// application opens the database as the application itself does, beside Weir.
func application(dsn string) *sql.DB {
	db, err := sql.Open("sqlite", strings.TrimPrefix(dsn, "sqlite:")+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	check(err)
	_, err = db.ExecContext(context.Background(), `create table users (name text primary key)`)
	check(err)
	return db
}

// The e-mail is sent if and only if the user is stored.
func ExampleTask_EnqueueTx() {
	client, dsn, cleanup := temporary()
	defer cleanup()
	db := application(dsn)
	defer db.Close()
	ctx := context.Background()

	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = tx.ExecContext(ctx, `insert into users values ('ada')`)
	check(err)
	receipt, err := SendEmail.EnqueueTx(ctx, client, tx, EmailArgs{To: "ada"})
	check(err)
	check(tx.Commit())

	job, err := client.Get(ctx, receipt.ID)
	check(err)
	fmt.Println(job.State, string(job.Args))
	// Output: waiting {"to":"ada"}
}

func ExampleTask_EnqueueManyTx() {
	client, dsn, cleanup := temporary()
	defer cleanup()
	db := application(dsn)
	defer db.Close()
	ctx := context.Background()

	tx, err := db.BeginTx(ctx, nil)
	check(err)
	receipts, err := SendEmail.EnqueueManyTx(ctx, client, tx, []EmailArgs{{To: "ada"}, {To: "bob"}})
	check(err)
	check(tx.Rollback())

	page, err := client.List(ctx, queue.Filter{})
	check(err)
	fmt.Println(len(receipts), "enqueued,", len(page.Items), "stored")
	// Output: 2 enqueued, 0 stored
}

func ExampleClient_EnqueueTx() {
	client, dsn, cleanup := temporary()
	defer cleanup()
	db := application(dsn)
	defer db.Close()
	ctx := context.Background()

	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = client.EnqueueTx(ctx, tx, queue.NewJob{Task: "build_report", Args: []byte(`{"kind":"daily"}`)})
	check(err)
	check(tx.Commit())
	fmt.Println(must(client.List(ctx, queue.Filter{Task: "build_report"})).Items[0].State)
	// Output: waiting
}

func ExampleClient_EnqueueManyTx() {
	client, dsn, cleanup := temporary()
	defer cleanup()
	db := application(dsn)
	defer db.Close()
	ctx := context.Background()

	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = client.EnqueueManyTx(ctx, tx, []queue.NewJob{{Task: "resize"}, {Task: "resize"}})
	check(err)
	check(tx.Commit())
	fmt.Println(len(must(client.List(ctx, queue.Filter{Task: "resize"})).Items))
	// Output: 2
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
