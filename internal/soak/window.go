package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// Under fixed windows of ten a second one worker with a standing backlog is to
// start at least leastShare of it, and work that no limit covers is to drain at
// leastDrain of the rate it has under token buckets.
const (
	windowRate  = 10
	leastShare  = 0.98
	leastDrain  = 0.5
	drainedJobs = 20_000
	backlogJobs = 5_000
)

// throttled is work of which a limit lets next to nothing start.
var throttled = queue.Task[int]("throttled")

// fixedWindows measures the fixed-window strategy for so long on each database.
func fixedWindows(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("windows", flag.ExitOnError)
	length := flags.Duration("for", 2*time.Minute, "how long one worker is watched on each database")
	_ = flags.Parse(args) // it exits
	return runWindows(ctx, *length)
}

// runWindows measures the fixed-window strategy on both databases.
func runWindows(ctx context.Context, length time.Duration) error {
	dir, err := os.MkdirTemp("", "weir-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("| database | 10/s over | starts | of its rate | most in a window | drained under windows | under buckets | ratio |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	var failed error
	for _, database := range []string{"sqlite", "postgres"} {
		folder := filepath.Join(dir, database)
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		w := windowRound{database: database, dir: folder, length: length}
		if err := w.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", database, err)
		}
		fmt.Println(w.String())
		failed = errors.Join(failed, w.check())
	}
	return failed
}

// windowRound is what one database showed.
type windowRound struct {
	database, dir string
	length        time.Duration
	databases     int

	starts, most     int
	windows, buckets float64 // jobs a second that no limit covers
}

func (w *windowRound) String() string {
	return fmt.Sprintf("| %s | %v | %d | %.2f %% | %d | %.0f/s | %.0f/s | %.2f |", w.database, w.length, w.starts,
		100*w.share(), w.most, w.windows, w.buckets, w.windows/w.buckets)
}

func (w *windowRound) share() float64 { return float64(w.starts) / (windowRate * w.length.Seconds()) }

func (w *windowRound) check() error {
	switch {
	case w.share() < leastShare:
		return fmt.Errorf("%s: %.2f %% of ten a second", w.database, 100*w.share())
	case w.most > windowRate:
		return fmt.Errorf("%s: a window had %d starts with one worker", w.database, w.most)
	case w.windows < leastDrain*w.buckets:
		return fmt.Errorf("%s: %.0f jobs a second drained, %.0f under token buckets", w.database, w.windows, w.buckets)
	}
	return nil
}

func (w *windowRound) run(ctx context.Context) error {
	if err := w.paced(ctx); err != nil {
		return err
	}
	var err error
	if w.windows, err = w.drain(ctx, scheduler.FixedWindow); err != nil {
		return err
	}
	w.buckets, err = w.drain(ctx, scheduler.TokenBucket)
	return err
}

// open makes a database of its own.
func (w *windowRound) open(ctx context.Context) (*queue.Client, error) {
	w.databases++
	folder := filepath.Join(w.dir, strconv.Itoa(w.databases))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	d, err := dsn(w.database, folder, 100+w.databases)
	if err != nil {
		return nil, err
	}
	return queue.Open(ctx, d)
}

// paced lets one worker work off a backlog at ten a second.
func (w *windowRound) paced(ctx context.Context) error {
	client, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := work.EnqueueMany(ctx, client, make([]int, int(2*windowRate*w.length.Seconds()))); err != nil {
		return err
	}
	grants := make(chan int64, 100_000)
	stop, done, err := w.serve(ctx, client, scheduler.FixedWindow, func(job *queue.Job[int]) {
		grants <- job.StartedAt.UnixMicro()
	}, scheduler.RateLimit(fmt.Sprintf("%d/s", windowRate)))
	if err != nil {
		return err
	}
	if err := pause(ctx, w.length); err != nil {
		return err
	}
	stop()
	err = <-done
	close(grants)
	var at []int64
	for g := range grants {
		at = append(at, g)
	}
	slices.Sort(at)
	// A window begins right before its first start, and the next one a second later
	// or more.
	for i := 0; i < len(at); {
		n := 1
		for i+n < len(at) && at[i+n] < at[i]+900_000 {
			n++
		}
		w.most = max(w.most, n)
		i += n
	}
	w.starts = len(at)
	return err
}

// drain measures how fast work goes that no limit covers, behind a throttled
// backlog of higher priority.
func (w *windowRound) drain(ctx context.Context, strategy scheduler.StrategyName) (perSecond float64, err error) {
	client, err := w.open(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if _, err := throttled.EnqueueMany(ctx, client, make([]int, backlogJobs), queue.Priority(100)); err != nil {
		return 0, err
	}
	if _, err := work.EnqueueMany(ctx, client, make([]int, drainedJobs)); err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(drainedJobs)
	all := make(chan struct{})
	began := time.Now()
	stop, done, err := w.serve(ctx, client, strategy, func(*queue.Job[int]) {
		if left.Add(-1) == 0 {
			close(all)
		}
	})
	if err != nil {
		return 0, err
	}
	select {
	case <-all:
	case <-ctx.Done():
	}
	perSecond = drainedJobs / time.Since(began).Seconds()
	stop()
	return perSecond, <-done
}

func (w *windowRound) serve(
	ctx context.Context, client *queue.Client, strategy scheduler.StrategyName, started func(*queue.Job[int]), opts ...scheduler.TaskOption,
) (stop func(), done <-chan error, err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := scheduler.New(client, scheduler.Strategy(strategy), scheduler.Logger(log))
	if err != nil {
		return nil, nil, err
	}
	handler := func(_ context.Context, job *queue.Job[int]) error {
		started(job)
		return nil
	}
	if err := scheduler.Register(s, work, handler, opts...); err != nil {
		return nil, nil, err
	}
	idle := func(context.Context, *queue.Job[int]) error { return nil }
	if err := scheduler.Register(s, throttled, idle, scheduler.RateLimit("1/h")); err != nil {
		return nil, nil, err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	return stop, ended, nil
}
