package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/bench"
	"github.com/weirq/weir/internal/store"
)

// benchFlags say how much is measured.
type benchFlags struct{ jobs, workers, runs int }

const (
	benchCallers = 16   // that enqueue one job at a time
	benchBulk    = 1000 // jobs enqueued at once by one
	benchPickups = 100  // at most
)

func (a *app) bench() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure Weir on this machine and database",
		Long: `Measures how fast this machine and this database enqueue jobs and work them
off, with handlers that do nothing. It runs in a fresh database, which it takes
away again: a file in a folder beside SQLite's, a schema in PostgreSQL's. What
is stored is not touched, but whoever uses the machine meanwhile is slowed.

A star marks figures that are more than 1.3 times apart.`,
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.jobs < 10 || f.jobs > 1_000_000:
			return wrong(cmd, "--jobs %d: use 10 to 1000000", f.jobs)
		case f.workers < 1 || f.workers > 100_000:
			return wrong(cmd, "--workers %d: use 1 to 100000", f.workers)
		case f.runs < 1 || f.runs > 100:
			return wrong(cmd, "--runs %d: use 1 to 100", f.runs)
		}
		ctx, release := a.untilSignal(cmd.Context())
		defer release()
		return a.runBench(ctx, f)
	}
	flags := cmd.Flags()
	flags.IntVar(&f.jobs, "jobs", 20_000, "`N` jobs in each run")
	flags.IntVar(&f.workers, "workers", 100, "`N` handlers at once")
	flags.IntVar(&f.runs, "runs", 3, "`N` runs of each kind, which take turns")
	return cmd
}

// untilSignal is a context that ends when a signal comes.
func (a *app) untilSignal(ctx context.Context) (_ context.Context, release func()) {
	signals, ignore := a.signals()
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		watching.Wait()
		ignore()
	}
}

// benchWork is one kind of work.
type benchWork struct {
	name, what string
	atOnce     int
	jobs       int
	run        func(context.Context, *bench.Weir) (bench.Figure, error)
}

func (f benchFlags) works() []benchWork {
	free, limited := bench.Jobs(f.jobs, bench.Job{}), bench.Jobs(f.jobs, bench.Job{Limited: true})
	pickups := min(f.jobs, benchPickups)
	return []benchWork{
		{"drain", "work off a backlog", f.workers, f.jobs, func(ctx context.Context, w *bench.Weir) (bench.Figure, error) {
			return bench.Drain(ctx, w, free, f.workers)
		}},
		{"drain-limited", "the same, under a limit that never runs dry", f.workers, f.jobs, func(ctx context.Context, w *bench.Weir) (bench.Figure, error) {
			return bench.Drain(ctx, w, limited, f.workers)
		}},
		{"enqueue-one", "enqueue one at a time", benchCallers, f.jobs, func(ctx context.Context, w *bench.Weir) (bench.Figure, error) {
			return bench.EnqueueOne(ctx, w, free, benchCallers)
		}},
		{"enqueue-bulk", fmt.Sprintf("enqueue %d at a time", benchBulk), 1, f.jobs, func(ctx context.Context, w *bench.Weir) (bench.Figure, error) {
			return bench.EnqueueBulk(ctx, w, free, benchBulk)
		}},
		{"pickup-p99", "from an enqueue to its handler, 99 of 100", f.workers, pickups, func(ctx context.Context, w *bench.Weir) (bench.Figure, error) {
			return bench.Pickup(ctx, w, pickups, f.workers, bench.NeverDry, func(ctx context.Context) error {
				return bench.Trickle(ctx, w, pickups)
			})
		}},
	}
}

// benchCell is what came of one kind of work.
type benchCell struct {
	bench.Summary

	Work    string `json:"work"`
	Store   string `json:"store"`
	Peer    string `json:"peer"`
	Unit    string `json:"unit"`
	Jobs    int    `json:"jobs"`
	Workers int    `json:"workers"`
	Steady  bool   `json:"steady"`
}

func (a *app) runBench(ctx context.Context, f benchFlags) error {
	dsn, err := a.dsn()
	if err != nil {
		return err
	}
	works := f.works()
	values := make([][]float64, len(works))
	units := make([]string, len(works))
	for run := range f.runs {
		for i, work := range works {
			if a.errTerminal {
				fmt.Fprintf(a.err, "run %d of %d: %s\n", run+1, f.runs, work.name)
			}
			figure, err := onScratch(ctx, dsn, work.run)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", work.name, err)
			}
			values[i], units[i] = append(values[i], figure.Value), figure.Unit
		}
	}
	kind, _, _ := strings.Cut(dsn, ":")
	if kind == "postgresql" {
		kind = "postgres"
	}
	cells := make([]benchCell, len(works))
	for i, work := range works {
		s := bench.Summarize(values[i])
		cells[i] = benchCell{s, work.name, kind, "weir", units[i], work.jobs, work.atOnce, s.Steady()}
	}
	return a.printBench(dsn, works, cells)
}

// onScratch runs one kind of work in a fresh database.
func onScratch(ctx context.Context, dsn string, run func(context.Context, *bench.Weir) (bench.Figure, error)) (_ bench.Figure, err error) {
	fresh, remove, err := store.Scratch(dsn)
	if err != nil {
		return bench.Figure{}, err
	}
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	w, err := bench.OpenWeir(ctx, fresh)
	if err != nil {
		return bench.Figure{}, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return run(ctx, w)
}

func (a *app) printBench(dsn string, works []benchWork, cells []benchCell) error {
	if a.json {
		return a.document(struct {
			Cells []benchCell `json:"cells"`
		}{cells})
	}
	fmt.Fprintf(a.out, "database %s\n\n", store.RedactDSN(dsn))
	rows := make([][]string, len(cells))
	for i, c := range cells {
		star := ""
		if !c.Steady {
			star = " *"
		}
		rows[i] = []string{works[i].what, figure(c.Median) + " " + c.Unit + star, figure(c.Min), figure(c.Max), number(c.Jobs), number(c.Workers)}
	}
	a.table("figures", []string{"WORK", "MEDIAN", "LEAST", "MOST", "JOBS", "AT ONCE"}, rows)
	return nil
}

// figure writes as many digits of a figure as mean something.
func figure(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
