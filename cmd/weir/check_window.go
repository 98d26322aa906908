package main

import (
	"fmt"
	"strconv"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/config"
)

// maxWorkers is more than any fleet has.
const maxWorkers = 1_000_000

// checkWindow is a limit of the fixed-window strategy in JSON. What depends on the
// number of workers is null where that was not given. Each start that was not
// counted (U) comes on top of it, twice in two windows.
type checkWindow struct {
	Name     string   `json:"name"`
	Rate     string   `json:"rate"`
	Limit    int64    `json:"limit"`
	Per      string   `json:"per"`
	Exact    bool     `json:"exact"`
	Workers  *int64   `json:"workers"`
	InWindow *int64   `json:"in_window"` // starts at most, beside U
	InPeriod *int64   `json:"in_period"` // in any interval as long as a window, beside 2 U
	ForOne   *int64   `json:"limit_for_window"`
	ForAny   *int64   `json:"limit_for_period"` // the limit that keeps either at the limit's own number
	Tasks    []string `json:"tasks"`
	Queues   []string `json:"queues"`
}

func newCheckWindow(b config.Budget, workers int64) checkWindow {
	w := checkWindow{
		Name: b.Name, Rate: b.Quota.String(), Limit: b.Quota.Count, Per: b.Quota.Period.String(), Exact: b.Exact,
		Tasks: append([]string{}, b.Tasks...), Queues: append([]string{}, b.Queues...),
	}
	if b.Exact {
		workers = 1 // however many there are
	}
	if workers > 0 {
		w.Workers = &workers
		w.InWindow, w.InPeriod = new(b.Quota.Bound(workers)), new(2*b.Quota.Bound(workers))
		w.ForOne, w.ForAny = new(bucket.ForWindow(w.Limit, workers)), new(bucket.ForInterval(w.Limit, workers))
	}
	return w
}

func (a *app) printWindows(windows []checkWindow) {
	if len(windows) == 0 {
		return
	}
	rows := make([][]string, 0, len(windows))
	for i := range windows {
		rows = append(rows, windows[i].row())
	}
	fmt.Fprintln(a.out)
	a.table("limits", []string{"LIMIT", "RATE", "STARTS IN A WINDOW, AT MOST", "IN ANY TIME OF THAT LENGTH", "LIMIT FOR N IN A WINDOW", "FOR N IN ANY TIME"}, rows)
}

// row shows the bounds and both sizing rules, worked out where the number of
// workers is known.
func (w *checkWindow) row() []string {
	n, digits := strconv.FormatInt(w.Limit, 10), func(v *int64) string { return strconv.FormatInt(*v, 10) }
	out := []string{w.Name, w.Rate}
	switch {
	case w.Exact:
		return append(out, n+" (exact)", digits(w.InPeriod), n, digits(w.ForAny))
	case w.Limit == 0:
		return append(out, "0 (a pause)", "0", "0", "0")
	case w.Workers == nil:
		return append(out, n+" + W - 1 + U", "2 x ("+n+" + W - 1 + U)", n+" - (W - 1)", n+" // 2 - (W - 1)")
	}
	workers := digits(w.Workers)
	return append(out,
		fmt.Sprintf("%s + %s - 1 + U = %s + U", n, workers, digits(w.InWindow)),
		fmt.Sprintf("%s + 2U", digits(w.InPeriod)),
		fmt.Sprintf("%s - %d = %s", n, *w.Workers-1, digits(w.ForOne)),
		fmt.Sprintf("%s // 2 - %d = %s", n, *w.Workers-1, digits(w.ForAny)))
}
