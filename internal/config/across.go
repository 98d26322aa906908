package config

import (
	"fmt"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/scheduler"
)

// Windowed reports whether the limit is that of a fixed window.
func (b Budget) Windowed() bool { return b.Quota != bucket.Quota{} }

// Across compares files that are served on one database: what is at odds there no
// file shows by itself.
func Across(files []*File) (faults, warnings []Finding) {
	byDatabase := map[string][]*File{}
	for _, f := range files {
		for _, other := range byDatabase[f.Database] {
			if f.strategy() != other.strategy() {
				faults = append(faults, Finding{
					Code: MixedStrategies, Place: Place{File: f.Path, Key: "strategy"},
					Message: fmt.Sprintf("it has strategy %s, and %s on the same database has %s", f.strategy(), other.Path, other.strategy()),
					Mend:    "a database has one strategy: use the same, or another database",
				})
				break
			}
		}
		warnings = append(warnings, f.against(byDatabase[f.Database])...)
		byDatabase[f.Database] = append(byDatabase[f.Database], f)
	}
	return faults, warnings
}

func (f *File) strategy() scheduler.StrategyName {
	if f.Strategy == "" {
		return scheduler.TokenBucket
	}
	return f.Strategy
}

// against warns of windows that share a name, or nearly, with those of files before.
func (f *File) against(before []*File) []Finding {
	seen := map[string]Budget{}
	for _, other := range before {
		for _, b := range other.Budgets() {
			if _, there := seen[plain(b.Name)]; !there && b.Windowed() {
				seen[plain(b.Name)] = b
			}
		}
	}
	var out []Finding
	for _, b := range f.Budgets() {
		first, there := seen[plain(b.Name)]
		switch {
		case !there || !b.Windowed():
		case first.Name != b.Name:
			out = append(out, alike(first, b))
		case first.Quota.Period != b.Quota.Period:
			out = append(out, Finding{
				Code: OtherPeriod, Place: b.Place,
				Message: fmt.Sprintf("limit %s is %s here and %s in %s: each rolls the window they share at its own period, so it is not enforced as written",
					quote(b.Name), b.Quota, first.Quota, first.Place),
				Mend: "use one period, or two names",
			})
		case first.Quota.Count != b.Quota.Count:
			out = append(out, Finding{
				Code: OtherCount, Place: b.Place,
				Message: fmt.Sprintf("limit %s is %s here and %s in %s: they share a window, and each stops when it has counted its own number", quote(b.Name), b.Quota, first.Quota, first.Place),
				Mend:    "use one count, unless a smaller share of the budget is meant",
			})
		case first.Exact != b.Exact:
			out = append(out, Finding{
				Code: HalfExact, Place: b.Place,
				Message: fmt.Sprintf("limit %s is exact either here or in %s: who claims without its row's lock can pass it", quote(b.Name), first.Place),
				Mend:    "write exact: true in both, or in neither",
			})
		}
	}
	return out
}

// ForWorkers warns of limits of which so many processes, claiming at once, can pass
// a good part.
func (f *File) ForWorkers(workers int64) []Finding {
	var out []Finding
	for _, b := range f.Budgets() {
		if b.Windowed() && !b.Exact && b.Quota.Count > 0 && (workers-1)*10 > b.Quota.Count {
			out = append(out, Finding{
				Code: ManyWorkers, Place: b.Place,
				Message: fmt.Sprintf("limit %s: %d workers can start %d in a window, %d more than its %d", quote(b.Name), workers, b.Quota.Bound(workers), workers-1, b.Quota.Count),
				Mend:    "size it against the bound, use fewer workers, or write exact: true",
			})
		}
	}
	return out
}
