package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/internal/bench"
)

func measured(r row, unit string, values ...float64) rowResult {
	out := rowResult{row: r}
	for _, v := range values {
		out.add(bench.Figure{Value: v, Unit: unit})
	}
	return out
}

func TestACellIsTheBestWorkerCountAtTheLargestSize(t *testing.T) {
	perSecond := bench.JobsPerSecond
	at := func(peer string, jobs, workers int) row {
		return row{Work: drain, Store: sqlite, Peer: peer, Jobs: jobs, Workers: workers}
	}
	r := results{Tables: []tableResult{
		{Name: "small", Rows: []rowResult{measured(at(weir, small, 10), perSecond, 9000)}},
		{Name: "large", Rows: []rowResult{
			measured(at(weir, large, 100), perSecond, 100, 120, 110),
			measured(at(weir, large, 1000), perSecond, 300, 900, 200),
			measured(at(weir, large, 1000).but(hundredLines), perSecond, 5000),
			{row: at(river, large, 100), Missing: "not there"},
		}},
		{Name: "aside", Aside: true, Rows: []rowResult{measured(at(weir, 10*large, 100), perSecond, 5000)}},
	}}
	cells := r.cells()
	if len(cells) != 1 {
		t.Fatalf("cells: %+v", cells)
	}
	c := cells[0]
	if c.Peer != weir || c.Jobs != large || c.Workers != 1000 || c.Median != 300 || c.Min != 200 || c.Max != 900 || c.Runs != 3 || c.Steady {
		t.Errorf("the cell: %+v", c)
	}
}

func TestALowerDelayIsBetter(t *testing.T) {
	at := func(workers int) row {
		return row{Work: pickup, Store: sqlite, Peer: weir, Jobs: 100, Workers: workers}
	}
	r := results{Tables: []tableResult{{Rows: []rowResult{
		measured(at(10), bench.Milliseconds, 3), measured(at(100), bench.Milliseconds, 2), measured(at(1000), bench.Milliseconds, 4),
	}}}}
	if c := r.cells()[0]; c.Workers != 100 {
		t.Errorf("the cell: %+v", c)
	}
	q := r.ratios()
	if len(q) != 1 || !q[0].Reached || q[0].Value != 2 || q[0].Bound != 4 {
		t.Errorf("ratios: %+v", q)
	}
}

func TestTheLedgerFindsTheShareAndWhatIsOverTheBound(t *testing.T) {
	const second = time.Second
	starts := func(batches ...time.Duration) []time.Time {
		var out []time.Time
		for _, at := range batches {
			for range ratePerSecond {
				out = append(out, time.Unix(1000, 0).Add(at))
			}
		}
		return out
	}
	for _, c := range []struct {
		name        string
		starts      []time.Time
		share, over float64
	}{
		{"the burst, and a full second's worth each second", starts(0, second, 2*second), 1, 0},
		{"late by a tenth", starts(0, second+second/10), 1 / 1.1, 0},
		{"the second batch a tenth too soon", starts(0, second-second/10, 2*second), 1, 10},
		{"the burst alone", starts(0), 0, 0},
	} {
		l := ledger{limited: c.starts}
		share, over := l.shareOf()
		if math.Abs(share-c.share) > 1e-9 || math.Abs(over-c.over) > 1e-6 {
			t.Errorf("%s: share %v, over %v", c.name, share, over)
		}
	}
}

func TestNumbersAreWrittenForReading(t *testing.T) {
	for v, want := range map[float64]string{
		0.123: "0.12", 9.87: "9.87", 12.34: "12.3", 123.4: "123", 1234: "1,230", 12345: "12,300", 1234567: "1,234,600",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s instead of %s", v, got, want)
		}
	}
}

func TestEveryGoalNamesRowsOfThePlan(t *testing.T) {
	inPlan := func(p pick) bool {
		for _, table := range all() {
			for _, r := range table.rows {
				if (p.table == "" && !table.aside || p.table == table.name) && p.work == r.Work && p.store == r.Store && p.peer == r.Peer &&
					p.variant == r.Variant && (p.jobs == 0 || p.jobs == r.Jobs) && (p.workers == 0 || p.workers == r.Workers) {
					return true
				}
			}
		}
		return false
	}
	for _, g := range goals() {
		if !inPlan(g.over) || !inPlan(g.under) {
			t.Errorf("%s: %+v / %+v", g.what, g.over, g.under)
		}
	}
	for _, c := range ceilings() {
		if !inPlan(c.row) {
			t.Errorf("%s: %+v", c.what, c.row)
		}
	}
}

func TestAMissingRowIsSaidLoudly(t *testing.T) {
	r := results{Tables: []tableResult{{Name: "t", Rows: []rowResult{{row: row{Work: drain, Store: redis, Peer: asynq}, Missing: "no redis | here\nat all"}}}}}
	if text := r.markdown(); !strings.Contains(text, "| **not run** | | | no redis / here |") {
		t.Error(text)
	}
	if err := r.complaint([]table{{name: "t"}}); err == nil || !strings.Contains(err.Error(), "1 rows were not run: drain asynq redis") {
		t.Error(err)
	}
}
