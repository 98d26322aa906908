package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
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
	rate        = "150/s"
)

const (
	work = queue.Task[int]("work")
	tick = queue.Task[int]("tick")
)

// childConfig is how a scheduler runs.
type childConfig struct {
	DSN, Ledger string
	Rate        string        `json:"rate,omitempty"`  // "": as above
	Burst       int64         `json:"burst,omitempty"` // 0: what the rate has by itself
	Lease       time.Duration `json:"lease,omitempty"`
	Instant     bool          `json:"instant,omitempty"`  // jobs take no time
	Schedule    string        `json:"schedule,omitempty"` // when a tick is due; "": never
	Clock       string        `json:"clock,omitempty"`    // the file that says by how much its host's clock is wrong; "": as the soak's
	Log         string        `json:"log,omitempty"`      // the file for all that it logs; "": errors, on its standard error
}

// startChild starts this program as a scheduler.
func startChild(ctx context.Context, c childConfig, stderr io.Writer) (*exec.Cmd, error) {
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	cmd.Stderr = stderr
	return cmd, cmd.Start()
}

// runChild runs jobs that take a while and write into the ledger when they
// start and when they have had their effect.
func runChild(config string) error {
	c := childConfig{Rate: rate, Lease: lease}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	if c.Clock != "" {
		if err := os.Setenv(clockEnv, c.Clock); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log, level := os.Stderr, slog.LevelError
	if c.Log != "" {
		var err error
		if log, err = appendTo(c.Log); err != nil {
			return err
		}
		defer log.Close()
		level = slog.LevelInfo
	}
	client, err := queue.Open(ctx, c.DSN)
	if err != nil {
		return err
	}
	defer client.Close()
	ledger, err := appendTo(c.Ledger)
	if err != nil {
		return err
	}
	defer ledger.Close()
	s, err := scheduler.New(client, scheduler.Lease(c.Lease), scheduler.Concurrency(concurrency),
		scheduler.Logger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))))
	if err != nil {
		return err
	}
	handler := func(_ context.Context, job *queue.Job[int]) error {
		if err := note(ledger, "start", job.ID, job.StartedAt); err != nil {
			return err
		}
		if !c.Instant {
			time.Sleep(body)
		}
		return note(ledger, "effect", job.ID, job.StartedAt)
	}
	options := []scheduler.TaskOption{scheduler.RateLimit(c.Rate), scheduler.UntilToken, scheduler.MaxRetries(1000)}
	if c.Burst > 0 {
		options = append(options, scheduler.Burst(c.Burst))
	}
	if err := scheduler.Register(s, work, handler, options...); err != nil {
		return err
	}
	if c.Schedule != "" {
		handler := func(_ context.Context, job *queue.Job[int]) error { return note(ledger, "tick", job.ID, job.StartedAt) }
		err := errors.Join(scheduler.Register(s, tick, handler), scheduler.Schedule(s, "tick", c.Schedule, tick, 0))
		if err != nil {
			return err
		}
	}
	return s.Run(ctx)
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}
