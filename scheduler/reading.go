package scheduler

import (
	"slices"

	"github.com/weirq/weir/internal/store"
)

// How much of which line a look reads. A budget, of slots or of tokens and
// deferrals, can be used up by one line, or by any number of lines together. To
// read all of it from each would make the work of a look grow with the number
// of lines. So each line is read a little, and read further only where its next
// job could still come before the last one that the budget is enough for.

// readingRounds bounds how often a look reads further. What it did not come to
// is left to the next look.
const readingRounds = 8

// budget is what a group of lines shares: a limit's, or the slots.
type budget struct {
	lines []*lookLine
	jobs  int // so many of the lines' first jobs matter
}

// budgets groups the lines that are to be read.
func (k *look) budgets() []budget {
	all := make([]budget, len(k.limits)+1) // the last is for the slots
	slots := &all[len(k.limits)]
	for _, line := range k.asked {
		if line.fresh {
			continue // to be shed, in any order
		}
		for _, i := range line.limits {
			all[i].lines = append(all[i].lines, line)
			all[i].jobs = max(all[i].jobs, line.max)
		}
		if !line.dry {
			slots.lines = append(slots.lines, line)
			slots.jobs = max(slots.jobs, line.max)
		}
	}
	return slices.DeleteFunc(all, func(b budget) bool { return len(b.lines) < 2 })
}

// firstAsks reads each line as far as its part of the smallest budget, or as
// far as it was served last time.
func (k *look) firstAsks() []store.Ask {
	k.shared = k.budgets()
	for _, line := range k.asked {
		line.ask = line.max
		if line.fresh {
			line.ask = line.max/k.fresh + 1
		}
	}
	for _, b := range k.shared {
		for _, line := range b.lines {
			line.ask = min(line.ask, max(line.share, b.jobs/len(b.lines)+1))
		}
	}
	asks := make([]store.Ask, len(k.asked))
	for i, line := range k.asked {
		asks[i] = store.Ask{Line: line.Line, Max: line.ask, Fresh: line.fresh}
	}
	return asks
}

// more asks for more of the lines whose next job
// could still come before the last that a budget is enough for.
func (k *look) more(read [][]store.Candidate) []store.Ask {
	if len(k.shared) == 0 || k.rounds == readingRounds {
		return nil
	}
	k.rounds++
	for i, line := range k.asked {
		line.jobs, line.further = read[i], false
	}
	for _, b := range k.shared {
		b.read()
	}
	var asks []store.Ask
	for i, line := range k.asked {
		if !line.further {
			continue
		}
		more := min(line.ask, line.max-line.ask)
		line.ask += more
		last := line.jobs[len(line.jobs)-1]
		asks = append(asks, store.Ask{Of: i, Line: line.Line, Max: more, After: &last})
	}
	return asks
}

// read marks the lines to be read further.
func (b *budget) read() {
	ends := func(line *lookLine) bool { return len(line.jobs) < line.ask || line.ask == line.max }
	if !slices.ContainsFunc(b.lines, func(line *lookLine) bool { return !ends(line) }) {
		return
	}
	var all []store.Candidate
	for _, line := range b.lines {
		all = append(all, line.jobs...)
	}
	slices.SortFunc(all, byPlace)
	for _, line := range b.lines {
		if !ends(line) && (len(all) < b.jobs || byPlace(line.jobs[len(line.jobs)-1], all[b.jobs-1]) < 0) {
			line.further = true
		}
	}
}
