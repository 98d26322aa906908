package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/weirq/weir/internal/bench"
)

const (
	docsBegin = "<!-- What follows is written by `go run . docs` in bench/, from bench/results.json. -->"
	docsEnd   = "<!-- What stands above is written by `go run . docs` in bench/. -->"
)

// writeDocs puts the tables between the marks in a page.
func (r *results) writeDocs(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(page), docsBegin)
	_, after, ok2 := strings.Cut(rest, docsEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no place for the tables: put these lines there:\n%s\n%s", path, docsBegin, docsEnd)
	}
	return os.WriteFile(path, []byte(before+docsBegin+"\n\n"+r.markdown()+"\n"+docsEnd+after), 0o644) //nolint:gosec // it is committed
}

func (r *results) markdown() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "Machine: %s, %d cores, %d GiB of memory, %s, %s. Everything shares it: benchmark, workers and servers.\n",
		m.Processor, m.Cores, m.MemoryGiB, m.Kernel, m.Go)
	for _, store := range []string{postgres, sqlite, redis} {
		if said := r.Settings[store]; said != "" {
			fmt.Fprintf(&b, "- %s: %s\n", storeNames[store], said)
		}
	}
	b.WriteString("\n### Ratios\n\n")
	b.WriteString("Medians of rows of one run. A ratio whose rows are not steady has a star.\n\n| | measured | wanted | |\n|---|---|---|---|\n")
	for _, q := range r.ratios() {
		sign, verdict := "at least ", "reached"
		if q.AtMost {
			sign = "at most "
		}
		if !q.Reached {
			verdict = "**not reached**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s%s | %s |\n", q.What, withUnit(atLeastTwoDigits(q.Value), q.Unit)+star(q.Steady),
			sign, withUnit(strconv.FormatFloat(q.Bound, 'f', -1, 64), q.Unit), verdict)
	}
	for i := range r.Tables {
		b.WriteString("\n")
		r.Tables[i].markdown(&b)
	}
	return b.String()
}

func withUnit(number, unit string) string {
	if unit == "" {
		return number
	}
	return number + " " + unit
}

func star(steady bool) string {
	if steady {
		return ""
	}
	return " *"
}

var storeNames = map[string]string{postgres: "PostgreSQL", sqlite: "SQLite", redis: "Redis"}

var peerNames = map[string]string{
	weir: "**Weir**", river: "River", asynq: "asynq", goqite: "goqite", backlite: "backlite", neoq: "neoq", raw: "raw statements",
}

func (t *tableResult) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "### %s\n\n", t.Title)
	fmt.Fprintf(b, "%s, load average %s at the beginning; an fsync took %s before and %s after.\n\n",
		t.Began.Format("2006-01-02 15:04 UTC"), t.Load, fsyncText(t.Fsync, 0), fsyncText(t.Fsync, 1))
	b.WriteString("| | store | jobs | at once | median | min to max | runs | beside it |\n|---|---|---|---|---|---|---|---|\n")
	for i := range t.Rows {
		row := &t.Rows[i]
		who := peerNames[row.Peer]
		if row.Work == drainLimited {
			who += ", every job limited"
		}
		if row.Variant != "" {
			who += ", " + string(row.Variant)
		}
		if row.Missing != "" {
			reason, _, _ := strings.Cut(row.Missing, "\n")
			fmt.Fprintf(b, "| %s | %s | %s | %s | **not run** | | | %s |\n", who, storeNames[row.Store], thousands(float64(row.Jobs)),
				thousands(float64(row.Workers)), strings.ReplaceAll(reason, "|", "/"))
			continue
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s%s | %s to %s | %d | %s |\n", who, storeNames[row.Store], thousands(float64(row.Jobs)),
			thousands(float64(row.Workers)), show(row.Median, row.Unit), star(row.Steady), number(row.Min), number(row.Max), row.Runs, row.detail())
	}
}

func fsyncText(probes []bench.Summary, i int) string {
	if i >= len(probes) {
		return "?"
	}
	return fmt.Sprintf("%.2f ms (%.2f to %.2f)", probes[i].Median, probes[i].Min, probes[i].Max)
}

// details are the names under which figures are shown beside a row.
var details = []struct{ name, format string }{
	{"cpu_us_per_job", "%.0f us of processor a job"},
	{"server_cpu_us_per_job", "%.0f us in the server"},
	{"allocations_per_job", "%.0f allocations a job"},
	{"memory_mib", "%.0f MiB over idle"},
	{"jobs_per_look", "%.0f jobs a transaction"},
	{"p50", "median %.1f ms"},
	{"process", "process %.1f %%"},
	{"server", "server %.1f %%"},
	{"rows_per_second", "%.0f rows/s"},
	{"share_of_rate", ""},
	{"over_the_bound", "at most %.2f over the bound"},
}

func (r *rowResult) detail() string {
	var parts []string
	for _, d := range details {
		v, ok := r.Detail[d.name]
		switch {
		case !ok:
		case d.name == "over_the_bound" && v <= 0:
		case d.name == "share_of_rate":
			parts = append(parts, fmt.Sprintf("limited at %.2f %% of their rate", 100*v))
		default:
			parts = append(parts, fmt.Sprintf(d.format, v))
		}
	}
	return strings.Join(parts, ", ")
}

func show(v float64, unit string) string {
	switch unit {
	case bench.JobsPerSecond:
		return number(v) + "/s"
	default:
		return number(v) + " " + unit
	}
}

// number writes three digits that mean something.
func number(v float64) string {
	switch {
	case v >= 10_000:
		return thousands(float64(int64(v/100+0.5) * 100))
	case v >= 1000:
		return thousands(float64(int64(v/10+0.5) * 10))
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// inOrder sorts tables as the plan has them.
func (r *results) inOrder(plan []table) {
	place := map[string]int{}
	for i, t := range plan {
		place[t.name] = i
	}
	slices.SortStableFunc(r.Tables, func(a, b tableResult) int { return cmp.Compare(place[a.Name], place[b.Name]) })
}
