package main

import "slices"

// table is what is run side by side. Its rows take turns, round by round.
type table struct {
	name  string // for -only, and the file of results
	title string
	rows  []row
	// aside: its rows are Weir's own and answer a question of their own. They
	// are no candidates for the cells, and take three rounds at most.
	aside bool
}

// rounds is how often the rows are run where n rounds are asked for.
func (t table) rounds(n int) int {
	if t.aside {
		return min(n, 3)
	}
	return n
}

// atOnce makes a row for each number of workers.
func atOnce(r row, workers ...int) []row {
	rows := make([]row, len(workers))
	for i, n := range workers {
		rows[i] = r
		rows[i].Workers = n
	}
	return rows
}

// inTurn takes one row of each list after the other, so that peers and Weir
// alternate.
func inTurn(lists ...[]row) []row {
	var rows []row
	for i := 0; ; i++ {
		before := len(rows)
		for _, list := range lists {
			if i < len(list) {
				rows = append(rows, list[i])
			}
		}
		if len(rows) == before {
			return rows
		}
	}
}

const (
	small = 20_000
	large = 100_000
	// few is for those that need minutes for more.
	few = 2_000
)

func work(work, store, peer string, jobs int) row {
	return row{Work: work, Store: store, Peer: peer, Jobs: jobs}
}

func (r row) but(v variant) row {
	r.Variant = v
	return r
}

// quick is the short form: the ratios that matter most, in less than two
// minutes.
func quick() []table {
	return []table{{
		name: "quick-postgres", title: "The short form, PostgreSQL",
		rows: slices.Concat(inTurn(
			atOnce(work(drain, postgres, weir, small), 100, 1000),
			atOnce(work(drain, postgres, river, small), 100, 1000),
			atOnce(work(drainLimited, postgres, weir, small), 100, 1000),
			atOnce(work(drain, postgres, raw, small), 1, 2),
		), inTurn(
			atOnce(work(enqueueOne, postgres, weir, small), 16),
			atOnce(work(enqueueOne, postgres, river, few), 16),
			atOnce(work(enqueueBulk, postgres, weir, small), 1),
			atOnce(work(enqueueBulk, postgres, river, small), 1),
		)),
	}, {
		name: "quick-sqlite", title: "The short form, SQLite",
		rows: slices.Concat(inTurn(
			atOnce(work(drain, sqlite, weir, small), 100, 1000),
			atOnce(work(drain, sqlite, river, small), 100),
			atOnce(work(drainLimited, sqlite, weir, small), 100, 1000),
			atOnce(work(drain, sqlite, raw, small), 1),
		), inTurn(
			atOnce(work(enqueueOne, sqlite, weir, small), 16),
			atOnce(work(enqueueOne, sqlite, river, few), 16),
			atOnce(work(enqueueBulk, sqlite, weir, small), 1),
			atOnce(work(enqueueBulk, sqlite, backlite, small), 1),
		)),
	}}
}

// smoke runs every system and every kind of work once, on few jobs: it shows
// that they can be run, and nothing else.
func smoke() []table {
	const jobs = 300
	var rows []row
	for _, one := range []struct {
		store, peer string
		works       []string
	}{
		{postgres, weir, []string{drain, drainLimited, enqueueOne, enqueueBulk}},
		{postgres, river, []string{drain, enqueueBulk}},
		{postgres, neoq, []string{enqueueOne}},
		{postgres, raw, []string{drain}},
		{sqlite, weir, []string{drain, drainLimited, enqueueOne, enqueueBulk}},
		{sqlite, river, []string{drain}},
		{sqlite, goqite, []string{drain}},
		{sqlite, backlite, []string{drain}},
		{sqlite, raw, []string{drain}},
		{redis, asynq, []string{drain}},
	} {
		for _, w := range one.works {
			rows = append(rows, atOnce(work(w, one.store, one.peer, jobs), 8)...)
		}
	}
	return []table{{name: "smoke", title: "Smoke", rows: rows}}
}

// all is everything.
func all() []table {
	return slices.Concat(drains(), enqueues(), latencies(), throttles(), scale())
}

func drains() []table {
	return []table{{
		name: "drain-postgres", title: "Work off 100,000 jobs, PostgreSQL",
		rows: inTurn(
			atOnce(work(drain, postgres, weir, large), 100, 1000),
			atOnce(work(drain, postgres, river, large), 100, 1000, 2000),
			atOnce(work(drainLimited, postgres, weir, large), 100, 1000),
			atOnce(work(drain, postgres, raw, large), 1, 2),
		),
	}, {
		name: "drain-postgres-small", title: "Work off 20,000 jobs, PostgreSQL",
		rows: inTurn(
			atOnce(work(drain, postgres, weir, small), 10, 100, 1000),
			atOnce(work(drain, postgres, river, small), 10, 100, 1000),
			atOnce(work(drain, postgres, neoq, few), 100),
		),
	}, {
		name: "drain-sqlite", title: "Work off 100,000 jobs, SQLite and Redis",
		rows: inTurn(
			atOnce(work(drain, sqlite, weir, large), 100, 1000),
			atOnce(work(drain, sqlite, river, large), 100),
			atOnce(work(drain, sqlite, goqite, large), 100),
			atOnce(work(drainLimited, sqlite, weir, large), 100, 1000),
			atOnce(work(drain, redis, asynq, large), 100),
			atOnce(work(drain, sqlite, raw, large), 1),
		),
	}, {
		name: "drain-sqlite-small", title: "Work off 20,000 jobs, SQLite and Redis",
		rows: inTurn(
			atOnce(work(drain, sqlite, weir, small), 10, 100, 1000),
			atOnce(work(drain, sqlite, river, small), 10, 100, 1000),
			atOnce(work(drain, sqlite, goqite, small), 10, 100),
			atOnce(work(drain, sqlite, backlite, small), 100, 1000),
			slices.Concat(atOnce(work(drain, redis, asynq, small), 10, 100, 1000),
				atOnce(work(drain, redis, asynq, small).but(appendfsync), 10, 100)),
		),
	}}
}

func enqueues() []table {
	return []table{{
		name: "enqueue-one", title: "Enqueue one job at a time, 16 callers",
		rows: inTurn(
			slices.Concat(
				atOnce(work(enqueueOne, postgres, weir, small), 16),
				atOnce(work(enqueueOne, sqlite, weir, small), 16),
			), slices.Concat(
				atOnce(work(enqueueOne, postgres, river, small), 16),
				atOnce(work(enqueueOne, sqlite, river, small), 16),
			), slices.Concat(
				atOnce(work(enqueueOne, postgres, neoq, small), 16),
				atOnce(work(enqueueOne, sqlite, goqite, small), 16),
			), slices.Concat(
				atOnce(work(enqueueOne, postgres, raw, small), 16),
				atOnce(work(enqueueOne, sqlite, backlite, small), 16),
			), slices.Concat(
				atOnce(work(enqueueOne, sqlite, raw, small), 16),
				atOnce(work(enqueueOne, redis, asynq, small), 16),
				atOnce(work(enqueueOne, redis, asynq, small).but(appendfsync), 16),
			),
		),
	}, {
		name: "enqueue-bulk", title: "Enqueue a thousand jobs at a time, one caller",
		rows: inTurn(
			slices.Concat(
				atOnce(work(enqueueBulk, postgres, weir, large), 1),
				atOnce(work(enqueueBulk, sqlite, weir, large), 1),
			), slices.Concat(
				atOnce(work(enqueueBulk, postgres, river, large), 1),
				atOnce(work(enqueueBulk, sqlite, river, large), 1),
			), slices.Concat(
				atOnce(work(enqueueBulk, postgres, raw, large), 1),
				atOnce(work(enqueueBulk, sqlite, goqite, large), 1),
			), slices.Concat(
				atOnce(work(enqueueBulk, sqlite, backlite, large), 1),
				atOnce(work(enqueueBulk, sqlite, raw, large), 1),
			),
		),
	}}
}

func latencies() []table {
	const samples = 100
	return []table{{
		name: "pickup", title: "From an enqueue to its handler, workers idle, p99",
		rows: slices.Concat(inTurn(
			slices.Concat(
				atOnce(work(pickup, postgres, weir, samples), 100),
				atOnce(work(pickup, sqlite, weir, samples), 100),
				atOnce(work(pickup, sqlite, weir, samples).but(otherProcess), 100),
				atOnce(work(pickup, postgres, weir, samples).but(sameProcess), 100),
			), slices.Concat(
				atOnce(work(pickup, postgres, river, samples), 100),
				atOnce(work(pickup, sqlite, river, samples), 100),
				atOnce(work(pickup, sqlite, river, samples).but(otherProcess), 100),
			), slices.Concat(
				atOnce(work(pickup, postgres, neoq, samples), 100),
				atOnce(work(pickup, sqlite, goqite, samples), 100),
				atOnce(work(pickup, sqlite, goqite, samples).but(otherProcess), 100),
				atOnce(work(pickup, redis, asynq, samples), 100),
			), slices.Concat(
				atOnce(work(pickup, sqlite, backlite, samples), 100),
			),
		)),
	}}
}

func throttles() []table {
	return []table{{
		name: "mixed", title: "20,000 free jobs behind 20,000 limited to 100/s",
		rows: inTurn(
			slices.Concat(
				atOnce(work(mixed, postgres, weir, small), 100),
				atOnce(work(mixed, postgres, weir, small).but(alone), 100),
				atOnce(work(mixed, sqlite, weir, small), 100),
				atOnce(work(mixed, sqlite, weir, small).but(alone), 100),
			), slices.Concat(
				atOnce(work(mixed, postgres, river, small), 100),
				atOnce(work(mixed, postgres, river, small).but(alone), 100),
			), slices.Concat(
				atOnce(work(mixed, redis, asynq, small), 100),
				atOnce(work(mixed, redis, asynq, small).but(alone), 100),
			),
		),
	}, {
		name: "throttled", title: "20,000 jobs limited to 100/s, and nothing else to do",
		rows: inTurn(
			slices.Concat(
				atOnce(work(throttledCPU, postgres, weir, small), 100),
				atOnce(work(throttledCPU, sqlite, weir, small), 100),
			), slices.Concat(
				atOnce(work(throttledCPU, postgres, river, small), 100),
				atOnce(work(throttledCPU, sqlite, river, small), 100),
				atOnce(work(throttledCPU, redis, asynq, small), 100),
			),
		),
	}}
}

// scale is about what makes Weir slower, so there is nobody beside it.
func scale() []table {
	lines := func(store string) []row {
		r := work(drain, store, weir, large)
		return slices.Concat(atOnce(r, 1000), atOnce(r.but(hundredLines), 1000), atOnce(r.but(thousandLines), 1000))
	}
	return []table{{
		name: "lines", aside: true, title: "The same jobs in many queues",
		rows: inTurn(lines(postgres), lines(sqlite)),
	}, {
		name: "processes", aside: true, title: "Two processes on one PostgreSQL",
		rows: slices.Concat(
			atOnce(work(drain, postgres, weir, large), 1000),
			atOnce(work(drain, postgres, weir, large).but(twoProcesses), 1000),
			atOnce(work(drainLimited, postgres, weir, large), 1000),
			atOnce(work(drainLimited, postgres, weir, large).but(twoProcesses), 1000),
		),
	}, {
		name: "backlog", aside: true, title: "Behind 1,000,000 throttled jobs of higher priority",
		rows: slices.Concat(
			atOnce(work(mixed, postgres, weir, small).but(alone), 100),
			atOnce(work(mixed, postgres, weir, small).but(hugeBacklog), 100),
			atOnce(work(mixed, sqlite, weir, small).but(alone), 100),
			atOnce(work(mixed, sqlite, weir, small).but(hugeBacklog), 100),
			atOnce(work(pickup, postgres, weir, 100).but(hugeBacklog), 100),
			atOnce(work(pickup, sqlite, weir, 100).but(hugeBacklog), 100),
		),
	}, {
		name: "million", aside: true, title: "Ten times as many, and 10,000,000 finished jobs in the history",
		rows: slices.Concat(
			atOnce(work(drain, postgres, weir, large), 1000),
			atOnce(work(drain, postgres, weir, 10*large), 1000),
			atOnce(work(drain, postgres, weir, large).but(withHistory), 1000),
			atOnce(work(drain, sqlite, weir, large), 1000),
			atOnce(work(drain, sqlite, weir, 10*large), 1000),
			atOnce(work(drain, sqlite, weir, large).but(withHistory), 1000),
		),
	}}
}
