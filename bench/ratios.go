package main

import "strconv"

// A ratio compares two rows of one run.
type ratio struct {
	What string `json:"what"`
	// Value is the first row's figure over the second's; where only one row is
	// asked about it is its figure.
	Value float64 `json:"value"`
	// Bound is what it must reach, or must not exceed where AtMost.
	Bound   float64 `json:"bound"`
	AtMost  bool    `json:"at_most,omitempty"`
	Unit    string  `json:"unit,omitempty"`
	Reached bool    `json:"reached"`
	// Steady: both rows are.
	Steady bool `json:"steady"`
}

// goal is a ratio that must be reached.
type goal struct {
	what        string
	over, under pick
	least       float64
}

// ceiling is a figure, or a detail of one, that must not be exceeded.
type ceiling struct {
	what   string
	row    pick
	detail string
	most   float64
	unit   string
}

func ofWeir(work, store string) pick { return pick{work: work, store: store, peer: weir} }

func (p pick) by(peer string) pick {
	p.peer = peer
	return p
}

func (p pick) on(store string) pick {
	p.store = store
	return p
}

func (p pick) with(v variant) pick {
	p.variant = v
	return p
}

func (p pick) in(table string) pick {
	p.table = table
	return p
}

func (p pick) at(workers int) pick {
	p.workers, p.jobs = workers, small
	return p
}

func (p pick) of(jobs int) pick {
	p.jobs = jobs
	return p
}

func goals() []goal {
	pgDrain, liteDrain := ofWeir(drain, postgres), ofWeir(drain, sqlite)
	pgOne, liteOne := ofWeir(enqueueOne, postgres), ofWeir(enqueueOne, sqlite)
	pgBulk, liteBulk := ofWeir(enqueueBulk, postgres), ofWeir(enqueueBulk, sqlite)
	pgMixed, liteMixed := ofWeir(mixed, postgres), ofWeir(mixed, sqlite)
	return []goal{
		{"drain, PostgreSQL: Weir / River", pgDrain, pgDrain.by(river), 2.5},
		{"drain, PostgreSQL: Weir / raw claim and update", pgDrain, pgDrain.by(raw), 0.5},
		{"drain, SQLite: Weir / River", liteDrain, liteDrain.by(river), 25},
		{"drain, SQLite: Weir / goqite", liteDrain, liteDrain.by(goqite), 15},
		{"drain: Weir on SQLite / asynq on Redis", liteDrain, liteDrain.by(asynq).on(redis), 7},
		{"drain, SQLite: Weir / raw claim and update", liteDrain, liteDrain.by(raw), 0.3},
		{"drain, PostgreSQL: under a limit that never runs dry / without one", ofWeir(drainLimited, postgres), pgDrain, 0.9},
		{"drain, SQLite: under a limit that never runs dry / without one", ofWeir(drainLimited, sqlite), liteDrain, 0.9},
		{"drain, PostgreSQL, 10 workers: Weir / River", pgDrain.at(10), pgDrain.by(river).at(10), 4},
		{"drain, PostgreSQL, 100 workers: Weir / River", pgDrain.at(100), pgDrain.by(river).at(100), 4},
		{"drain, SQLite, 10 workers: Weir / River", liteDrain.at(10), liteDrain.by(river).at(10), 4},
		{"drain, SQLite, 100 workers: Weir / River", liteDrain.at(100), liteDrain.by(river).at(100), 4},
		{"enqueue one, PostgreSQL: Weir / River", pgOne, pgOne.by(river), 2.5},
		{"enqueue one, PostgreSQL: Weir / raw single-row commits", pgOne, pgOne.by(raw), 1.1},
		{"enqueue one, SQLite: Weir / River", liteOne, liteOne.by(river), 5},
		{"enqueue bulk, PostgreSQL: Weir / River", pgBulk, pgBulk.by(river), 2},
		{"enqueue bulk, SQLite: Weir / backlite", liteBulk, liteBulk.by(backlite), 1.3},
		{"free jobs behind 20,000 limited, PostgreSQL: / alone", pgMixed, pgMixed.with(alone), 0.9},
		{"free jobs behind 20,000 limited, SQLite: / alone", liteMixed, liteMixed.with(alone), 0.9},
		{"free jobs behind 1,000,000 throttled, PostgreSQL: / alone", pgMixed.with(hugeBacklog).in("backlog"), pgMixed.with(alone).in("backlog"), 0.9},
		{"free jobs behind 1,000,000 throttled, SQLite: / alone", liteMixed.with(hugeBacklog).in("backlog"), liteMixed.with(alone).in("backlog"), 0.9},
		{"100 lines / one line, PostgreSQL", pgDrain.with(hundredLines).in("lines"), pgDrain.in("lines"), 0.6},
		{"1,000 lines / one line, PostgreSQL", pgDrain.with(thousandLines).in("lines"), pgDrain.in("lines"), 0.25},
		{"100 lines / one line, SQLite", liteDrain.with(hundredLines).in("lines"), liteDrain.in("lines"), 0.6},
		{"1,000 lines / one line, SQLite", liteDrain.with(thousandLines).in("lines"), liteDrain.in("lines"), 0.25},
		{"two processes / one, PostgreSQL, no limit", pgDrain.with(twoProcesses).in("processes"), pgDrain.in("processes"), 1.2},
		{
			"two processes / one, PostgreSQL, one shared limit",
			ofWeir(drainLimited, postgres).with(twoProcesses).in("processes"), ofWeir(drainLimited, postgres).in("processes"), 1,
		},
		{"1,000,000 jobs / 100,000, PostgreSQL", pgDrain.of(10 * large).in("million"), pgDrain.of(large).in("million"), 0.9},
		{"1,000,000 jobs / 100,000, SQLite", liteDrain.of(10 * large).in("million"), liteDrain.of(large).in("million"), 0.9},
		{"10,000,000 finished jobs beside / none, PostgreSQL", pgDrain.with(withHistory).in("million"), pgDrain.of(large).in("million"), 0.9},
		{"10,000,000 finished jobs beside / none, SQLite", liteDrain.with(withHistory).in("million"), liteDrain.of(large).in("million"), 0.9},
	}
}

func ceilings() []ceiling {
	pg, lite := ofWeir(pickup, postgres), ofWeir(pickup, sqlite)
	return []ceiling{
		{"pick-up p99, PostgreSQL, from another process", pg, "", 10, "ms"},
		{"pick-up p99, SQLite, in one process", lite, "", 4, "ms"},
		{"pick-up p99, SQLite, from another process", lite.with(otherProcess), "", 100, "ms"},
		{"only throttled work left, PostgreSQL: processor", ofWeir(throttledCPU, postgres), "", 3, percentOfCore},
		{"only throttled work left, PostgreSQL: rows written", ofWeir(throttledCPU, postgres), "rows_per_second", 500, "rows/s"},
		{"only throttled work left, SQLite: processor", ofWeir(throttledCPU, sqlite), "", 3, percentOfCore},
		{"memory over the idle process, drain, PostgreSQL", ofWeir(drain, postgres), "memory_mib", 64, "MiB"},
		{"memory over the idle process, drain, SQLite", ofWeir(drain, sqlite), "memory_mib", 64, "MiB"},
	}
}

// ratios are those whose rows were run.
func (r *results) ratios() []ratio {
	out := []ratio{}
	for _, g := range goals() {
		over, under := r.best(g.over), r.best(g.under)
		if over == nil || under == nil || under.Median == 0 {
			continue
		}
		v := over.Median / under.Median
		out = append(out, ratio{What: g.what, Value: v, Bound: g.least, Reached: v >= g.least, Steady: over.Steady && under.Steady})
	}
	for _, c := range ceilings() {
		row := r.best(c.row)
		if row == nil {
			continue
		}
		v := row.Median
		if c.detail != "" {
			v = row.Detail[c.detail]
		}
		out = append(out, ratio{What: c.what, Value: v, Bound: c.most, AtMost: true, Unit: c.unit, Reached: v <= c.most, Steady: row.Steady})
	}
	return out
}

// atLeastTwoDigits writes a ratio.
func atLeastTwoDigits(v float64) string {
	switch {
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
