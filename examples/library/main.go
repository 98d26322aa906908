// Command library floods three rate-limited tasks of its own for a few
// seconds, shows their buckets meanwhile, and at the end the dead letters.
//
//	go run ./examples/library
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// Email is what send_email is called with: any type that encoding/json knows.
type Email struct {
	To string `json:"to"`
}

// Sample is a measurement that is worth less than the backlog it would build.
type Sample struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
}

// One typed name for each task, shared by producers and handlers.
var (
	sendEmail    = queue.Task[Email]("send_email")
	apiCall      = queue.Task[int]("api_call")
	recordSample = queue.Task[Sample]("record_sample")
)

func main() {
	if err := run(context.Background(), 4*time.Second); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, length time.Duration) error {
	dir, err := os.MkdirTemp("", "weir-library-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, err := queue.Open(ctx, "sqlite:"+filepath.Join(dir, "weir.db"))
	if err != nil {
		return err
	}
	defer client.Close()

	var emails, calls, samples atomic.Int64
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.NewTextHandler(os.Stdout, nil))))
	if err != nil {
		return err
	}
	err = errors.Join(
		scheduler.Register(s, sendEmail, counted[Email](&emails), scheduler.RateLimit("100/m")),
		scheduler.Register(s, apiCall, counted[int](&calls), scheduler.RateLimit("10/s"), scheduler.MaxRetries(5)),
		scheduler.Register(s, recordSample, counted[Sample](&samples), scheduler.RateLimit("10/s"), scheduler.OnExcess(scheduler.Drop)),
	)
	if err != nil {
		return err
	}
	if err := flood(ctx, client); err != nil {
		return err
	}

	ctx, stop := context.WithTimeout(ctx, length)
	defer stop()
	var running sync.WaitGroup
	var runErr error
	running.Go(func() { runErr = s.Run(ctx) })
	for tick := time.NewTicker(time.Second); ctx.Err() == nil; {
		select {
		case <-tick.C:
			err = errors.Join(err, showLimits(ctx, client))
		case <-ctx.Done():
			tick.Stop()
		}
	}
	running.Wait()
	fmt.Printf("\nstarted: %d emails, %d calls, %d samples\n", emails.Load(), calls.Load(), samples.Load())
	return errors.Join(err, runErr, showDead(context.WithoutCancel(ctx), client))
}

// counted is a handler that counts.
func counted[Args any](n *atomic.Int64) func(context.Context, *queue.Job[Args]) error {
	return func(context.Context, *queue.Job[Args]) error {
		n.Add(1)
		return nil
	}
}

func flood(ctx context.Context, client *queue.Client) error {
	emails, calls, samples := make([]Email, 300), make([]int, 300), make([]Sample, 300)
	for i := range 300 {
		emails[i] = Email{To: fmt.Sprintf("user%d@example.com", i)}
		calls[i] = i
		samples[i] = Sample{Metric: "load", Value: float64(i)}
	}
	_, err1 := sendEmail.EnqueueMany(ctx, client, emails)
	_, err2 := apiCall.EnqueueMany(ctx, client, calls)
	_, err3 := recordSample.EnqueueMany(ctx, client, samples)
	return errors.Join(err1, err2, err3)
}

func showLimits(ctx context.Context, client *queue.Client) error {
	limits, err := client.Limits(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the show is over
	}
	for _, l := range limits {
		fmt.Printf("%-20s %7s   level %6.2f of %3.0f   started %4d   waiting %4d   deferred %4d   shed %4d\n",
			l.Name, l.Rate, l.Level, l.Capacity, l.Started, l.Waiting, l.Deferred, l.Shed)
	}
	fmt.Println()
	return err
}

func showDead(ctx context.Context, client *queue.Client) error {
	letters := dlq.From(client)
	stats, err := letters.Stats(ctx)
	if err != nil {
		return err
	}
	fmt.Println("dead letters:")
	for _, g := range stats.Groups {
		fmt.Printf("  %5d  %s  %s  %s\n", g.Count, g.Kind, g.Task, g.Reason)
	}
	page, err := letters.List(ctx, dlq.Filter{Limit: 3})
	if err != nil {
		return err
	}
	for _, e := range page.Items {
		fmt.Printf("  newest: %s of %s with %s: %s\n", e.ID, e.Task, e.Args, e.Reason)
	}
	return nil
}
