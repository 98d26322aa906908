package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// childEnv makes this program one of the schedulers that are killed.
const childEnv = "WEIR_SOAK_CHILD"

const (
	lease       = 15 * time.Second
	body        = 100 * time.Millisecond
	concurrency = 20
	// rate paces the starts, so that jobs of one length do not end at one moment:
	// a kill repeats what ended since the last commit.
	rate = "150/s"
)

var work = queue.Task[int]("work")

type childConfig struct{ DSN, Ledger string }

// runChild runs jobs that take a while and write into the ledger when they
// start and when they have had their effect.
func runChild(config string) error {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := queue.Open(ctx, c.DSN)
	if err != nil {
		return err
	}
	defer client.Close()
	ledger, err := os.OpenFile(c.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer ledger.Close()
	s, err := scheduler.New(client, scheduler.Lease(lease), scheduler.Concurrency(concurrency),
		scheduler.Logger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))))
	if err != nil {
		return err
	}
	handler := func(_ context.Context, job *queue.Job[int]) error {
		if err := note(ledger, "start", job.ID, job.StartedAt); err != nil {
			return err
		}
		time.Sleep(body)
		return note(ledger, "effect", job.ID, job.StartedAt)
	}
	if err := scheduler.Register(s, work, handler, scheduler.RateLimit(rate), scheduler.UntilToken, scheduler.MaxRetries(1000)); err != nil {
		return err
	}
	return s.Run(ctx)
}

// note appends a line in one write, which other processes cannot cut.
func note(ledger *os.File, what, id string, granted time.Time) error {
	_, err := fmt.Fprintf(ledger, "%s %s %d %d\n", what, id, granted.UnixMicro(), time.Now().UnixMicro())
	return err
}
