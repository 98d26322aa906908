package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/internal/bench"
)

// results are what runs have shown. A later run replaces the tables that it
// ran, and leaves the others.
type results struct {
	Machine  machine           `json:"machine"`
	Settings map[string]string `json:"settings"` // of the stores
	Tables   []tableResult     `json:"tables"`
}

type machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	MemoryGiB int    `json:"memory_gib"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
}

type tableResult struct {
	Name  string    `json:"name"`
	Title string    `json:"title"`
	Aside bool      `json:"aside,omitempty"`
	Began time.Time `json:"began"`
	Load  string    `json:"load"` // the load average when it began
	// Fsync is what an fsync cost, in ms, before the table and after it.
	Fsync []bench.Summary `json:"fsync_ms"`
	Rows  []rowResult     `json:"rows"`
}

type rowResult struct {
	bench.Summary
	row

	Unit   string    `json:"unit,omitempty"`
	Values []float64 `json:"values,omitempty"`
	// Steady: the values are no further apart than the bound.
	Steady bool `json:"steady"`
	// Detail are medians of what was measured beside it.
	Detail map[string]float64 `json:"detail,omitempty"`
	// Missing says why the row was not run.
	Missing string `json:"missing,omitempty"`

	details map[string][]float64
}

func (r *rowResult) add(f bench.Figure) {
	r.Unit, r.Values = f.Unit, append(r.Values, f.Value)
	r.Summary = bench.Summarize(r.Values)
	r.Steady = r.Summary.Steady()
	if r.details == nil {
		r.details, r.Detail = map[string][]float64{}, map[string]float64{}
	}
	for name, v := range f.Detail {
		r.details[name] = append(r.details[name], v)
		r.Detail[name] = bench.Summarize(r.details[name]).Median
	}
}

// better tells whether a row's figure is better than another's.
func (r *rowResult) better(than *rowResult) bool {
	if r.Unit == bench.JobsPerSecond {
		return r.Median > than.Median
	}
	return r.Median < than.Median
}

// cell is the best that a peer reached at a work on a store.
type cell struct {
	bench.Summary

	Work    string             `json:"work"`
	Store   string             `json:"store"`
	Peer    string             `json:"peer"`
	Unit    string             `json:"unit"`
	Jobs    int                `json:"jobs"`
	Workers int                `json:"workers"`
	Steady  bool               `json:"steady"`
	Detail  map[string]float64 `json:"detail,omitempty"`
}

// document is what -json prints.
type document struct {
	Cells  []cell  `json:"cells"`
	Ratios []ratio `json:"ratios"`
	results
}

func (r *results) document() document {
	return document{Cells: r.cells(), Ratios: r.ratios(), results: *r}
}

// cells are one for each work, store and peer: the best number of workers at
// the largest number of jobs.
func (r *results) cells() []cell {
	type key struct{ work, store, peer string }
	best := map[key]*rowResult{}
	var order []key
	for i := range r.Tables {
		t := &r.Tables[i]
		for j := range t.Rows {
			row := &t.Rows[j]
			if t.Aside || row.Variant != "" || row.Missing != "" {
				continue
			}
			k := key{row.Work, row.Store, row.Peer}
			have, ok := best[k]
			if !ok {
				order = append(order, k)
			}
			if !ok || row.Jobs > have.Jobs || row.Jobs == have.Jobs && row.better(have) {
				best[k] = row
			}
		}
	}
	cells := make([]cell, 0, len(order))
	for _, k := range order {
		b := best[k]
		cells = append(cells, cell{b.Summary, k.work, k.store, k.peer, b.Unit, b.Jobs, b.Workers, b.Steady, b.Detail})
	}
	return cells
}

// pick selects rows: zero values select all of them, but for the variant.
type pick struct {
	table, work, store, peer string
	variant                  variant
	jobs, workers            int
}

// best is the best of the rows picked that have the most jobs; nil where there
// is none.
func (r *results) best(p pick) *rowResult {
	var best *rowResult
	for i := range r.Tables {
		t := &r.Tables[i]
		if p.table != "" && p.table != t.Name || p.table == "" && t.Aside {
			continue
		}
		for j := range t.Rows {
			row := &t.Rows[j]
			switch {
			case row.Missing != "", p.work != row.Work, p.store != row.Store, p.peer != row.Peer, p.variant != row.Variant,
				p.jobs != 0 && p.jobs != row.Jobs, p.workers != 0 && p.workers != row.Workers:
			case best == nil, row.Jobs > best.Jobs, row.Jobs == best.Jobs && row.better(best):
				best = row
			}
		}
	}
	return best
}

// take puts the tables of a run in the place of older ones.
func (r *results) take(t tableResult) {
	if i := slices.IndexFunc(r.Tables, func(old tableResult) bool { return old.Name == t.Name }); i >= 0 {
		r.Tables[i] = t
		return
	}
	r.Tables = append(r.Tables, t)
}

func readResults(path string) (*results, error) {
	r := &results{Settings: map[string]string{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || path == "" {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	return r, err
}

func (r *results) write(path string) error {
	text, err := json.MarshalIndent(r.document(), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // it is committed
}

func thisMachine() machine {
	return machine{
		Processor: procValue("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		MemoryGiB: memoryGiB(), Kernel: runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(),
	}
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// procValue is the first value of a name in one of Linux's files of them.
func procValue(path, name string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func memoryGiB() int {
	kib, _, _ := strings.Cut(procValue("/proc/meminfo", "MemTotal"), " ")
	n, _ := strconv.Atoi(kib)
	return (n + 1<<19) >> 20
}
