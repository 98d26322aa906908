// Command first is the program of the README.
//
//	go run ./examples/first
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

type Email struct{ To, Subject string }

var SendEmail = queue.Task[Email]("send_email")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second Ctrl-C ends the program at once.
	context.AfterFunc(ctx, stop)
	client, err := queue.Open(ctx, "sqlite:weir.db") // or postgres://...
	check(err)
	defer client.Close()
	s, err := scheduler.New(client)
	check(err)
	check(scheduler.Register(s, SendEmail, func(_ context.Context, job *queue.Job[Email]) error {
		fmt.Println("to", job.Args.To)
		return nil
	}, scheduler.RateLimit("100/m")))
	_, err = SendEmail.Enqueue(ctx, client, Email{To: "ada@example.com", Subject: "Hi"})
	check(err)
	check(s.Run(ctx)) // until Ctrl-C
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
