package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirq/weir/internal/bench"
)

// runner runs tables.
type runner struct {
	stores  *stores
	rounds  int
	log     io.Writer
	profile string
}

const (
	// cellWithin is how long a cell may take.
	cellWithin = 4 * time.Minute
	probes     = 200 // of fsync, before each table and after it
)

// run runs the rows of a table in turn, round by round, each round from
// another row on.
func (r *runner) run(ctx context.Context, t table) (tableResult, error) {
	result := tableResult{Name: t.name, Title: t.title, Aside: t.aside, Began: time.Now().UTC().Truncate(time.Second), Load: load()}
	rounds := t.rounds(r.rounds)
	fmt.Fprintf(r.log, "\n%s: %d rows, %d rounds\n", t.title, len(t.rows), rounds)
	for _, row := range t.rows {
		result.Rows = append(result.Rows, rowResult{row: row})
	}
	before, err := bench.Fsync(r.stores.folder, probes)
	if err != nil {
		return result, err
	}
	for round := range rounds {
		for i := range t.rows {
			row := &result.Rows[(i+round)%len(t.rows)]
			if row.Missing != "" {
				continue
			}
			figure, err := r.cell(ctx, row.row)
			if ctx.Err() != nil {
				return result, context.Cause(ctx)
			}
			if err != nil {
				row.Missing = err.Error()
				fmt.Fprintf(r.log, "  NOT RUN: %s: %v\n", row.row, err)
				continue
			}
			row.add(figure)
			fmt.Fprintf(r.log, "  %d/%d %-64s %12s\n", round+1, rounds, row.row, show(figure.Value, figure.Unit))
		}
	}
	after, err := bench.Fsync(r.stores.folder, probes)
	result.Fsync = []bench.Summary{before, after}
	return result, err
}

// cell runs a row once, in a process of its own on a fresh store.
func (r *runner) cell(ctx context.Context, row row) (_ bench.Figure, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cellWithin, fmt.Errorf("not done after %v", cellWithin))
	defer cancel()
	store, err := r.stores.fresh(ctx, row)
	if err != nil {
		return bench.Figure{}, err
	}
	defer func() { err = errors.Join(err, store.remove()) }()
	out := filepath.Join(r.stores.folder, "figure")
	cmd, err := spec{row: row, Target: store.target, Server: store.server, Out: out, Profile: r.profile}.command(ctx)
	if err != nil {
		return bench.Figure{}, err
	}
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return bench.Figure{}, fmt.Errorf("%w: %s", err, said.text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return bench.Figure{}, err
	}
	var figure bench.Figure
	return figure, json.Unmarshal(text, &figure)
}

// tail keeps the end of what a process says.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 2000
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

// load is the load average of the last minute, or nothing.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// only keeps the rows that were asked for.
func only(tables []table, names, stores []string) []table {
	var out []table
	for _, t := range tables {
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(t.name, n) }) {
			continue
		}
		if len(stores) > 0 {
			t.rows = slices.DeleteFunc(slices.Clone(t.rows), func(r row) bool { return !slices.Contains(stores, r.Store) })
		}
		if len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	return out
}
