package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

// watchPatience is how long a look of --watch waits for the database.
const watchPatience = 10 * time.Second

func (a *app) stats() *cobra.Command {
	var watch bool
	every := 2 * time.Second
	cmd := &cobra.Command{
		Use: "stats", Short: "Show how many jobs stand where, and which processes run them", Args: noArgs,
		Long: `Shows how many jobs wait, and how many of those are throttled or paused, how many
run and have ended, how old the oldest of each queue is, and the processes that
run jobs, with what their database last answered when it failed them.

  weir stats --watch              look again every two seconds, until Ctrl-C
  weir stats --watch --json       the same, a JSON document a line`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if every < 100*time.Millisecond || every > time.Hour {
			return wrong(cmd, "--every %v: use 100ms to 1h", every)
		}
		if cmd.Flags().Changed("every") && !watch {
			return wrong(cmd, "--every goes with --watch")
		}
		if watch {
			return a.watchStats(cmd.Context(), every)
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			stats, err := c.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.document(stats)
			}
			a.showStats(stats)
			return nil
		})
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "look again and again, until Ctrl-C")
	cmd.Flags().DurationVar(&every, "every", every, "with --watch: how often, `TIME` from 100ms to 1h")
	return cmd
}

// watchStats shows the stats again and again until a signal comes, which also ends
// a look that is under way. A database that is there at first and goes away is
// waited for.
func (a *app) watchStats(ctx context.Context, every time.Duration) (err error) {
	signals, release := a.signals()
	defer release()
	looking, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		select {
		case <-signals:
			stop()
		case <-looking.Done():
		}
	})
	defer beside.Wait()
	defer stop()
	w := watched{app: a}
	if err := w.open(looking); err != nil {
		if looking.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var failing time.Time
	for first := true; ; first = false {
		stats, err := w.look(looking)
		switch {
		case looking.Err() != nil:
			return ctx.Err()
		case err == nil:
			failing = time.Time{}
		case failing.IsZero():
			failing = a.clock.Now()
		}
		if err := a.frame(stats, err, failing, first); err != nil {
			return err
		}
		tick, release := a.clock.Timer(every)
		select {
		case <-tick:
		case <-looking.Done():
			release()
			return ctx.Err()
		}
	}
}

// watched is a database that may go away: after an error it is opened anew, as
// SQLite's file may be another one when it is back.
type watched struct {
	*app

	client *queue.Client // nil: it is not open
}

func (w *watched) open(ctx context.Context) (err error) {
	w.client, err = w.app.open(ctx, queue.MustExist)
	return err
}

func (w *watched) close() error {
	if w.client == nil {
		return nil
	}
	client := w.client
	w.client = nil
	return closing(client)
}

func (w *watched) look(ctx context.Context) (*queue.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	if w.client == nil {
		if err := w.open(ctx); err != nil {
			return nil, err
		}
	}
	stats, err := w.client.Stats(ctx)
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return stats, nil
}

// frame shows one look: at a terminal in place of the one before.
func (a *app) frame(stats *queue.Stats, failed error, since time.Time, first bool) error {
	switch {
	case a.json && failed != nil:
		fmt.Fprintf(a.err, "weir: the database has not answered since %s: %v\n", a.at(since), failed)
	case a.json:
		if err := json.NewEncoder(a.out).Encode(stats); err != nil {
			return err
		}
	default:
		if a.outTerminal {
			fmt.Fprint(a.out, eraseScreen)
		} else if !first {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, a.clock.Now().UTC().Format("15:04:05 UTC"))
		if failed != nil {
			fmt.Fprintf(a.out, "the database has not answered since %s: %s\n", a.at(since), printable(failed.Error()))
		} else {
			a.showStats(stats)
		}
	}
	return a.out.Flush()
}

// eraseScreen empties a terminal and begins at its top.
const eraseScreen = "\x1b[H\x1b[2J"

func (a *app) showStats(s *queue.Stats) {
	waiting := capped(s.Waiting, s.WaitingCapped)
	if s.Throttled+s.Paused > 0 {
		waiting += fmt.Sprintf("  (%s throttled, %s paused)", capped(s.Throttled, s.ThrottledCapped), capped(s.Paused, s.PausedCapped))
	}
	a.fields(
		[2]string{"strategy", s.Strategy},
		[2]string{"waiting", waiting},
		[2]string{"scheduled", capped(s.Scheduled, s.ScheduledCapped)},
		[2]string{"running", capped(s.Running, s.RunningCapped)},
		[2]string{"completed", capped(s.Completed, s.CompletedCapped)},
		[2]string{"cancelled", capped(s.Cancelled, s.CancelledCapped)},
		[2]string{"dead", fmt.Sprintf("%s failed, %s expired, %s shed", number(s.Dead.Failed), number(s.Dead.Expired), number(s.Dead.Shed))},
	)
	fmt.Fprintln(a.out)
	a.queuesTable(s.Queues)
	fmt.Fprintln(a.out)
	rows := make([][]string, 0, len(s.Processes))
	for i := range s.Processes {
		p := &s.Processes[i]
		rows = append(rows, []string{
			p.Host, strconv.FormatInt(p.PID, 10), a.ago(p.StartedAt), a.ago(p.SeenAt), fmt.Sprintf("%d of %d", p.Running, p.Slots), a.databaseError(p),
		})
	}
	a.table("processes run jobs", []string{"HOST", "PID", "STARTED", "SEEN", "RUNNING", "DATABASE ERROR"}, rows)
}

func (a *app) databaseError(p *queue.ProcessInfo) string {
	switch {
	case p.Error == "":
		return ""
	case p.ErrorUntil.IsZero():
		return fmt.Sprintf("since %s: %s", a.ago(p.ErrorFrom), p.Error)
	}
	return fmt.Sprintf("%s, for %s: %s", a.ago(p.ErrorFrom), span(p.ErrorUntil.Sub(p.ErrorFrom)), p.Error)
}
