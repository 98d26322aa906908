package config

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/target"
)

// A Budget is one limit of the file, of a task, a queue or its own, and what
// it comes to.
type Budget struct {
	Name   string // as in the database: "task:send_email", "task@m:resize", "queue:emails", "stripe"
	Limit  bucket.Limit
	Quota  bucket.Quota // under the fixed-window strategy; what belongs to a bucket is zero then
	Exact  bool
	Hold   time.Duration // how long it is held when it runs dry under a backlog
	Tasks  []string
	Queues []string
	Place  Place // of the rate
}

// String is the limit as people write it.
func (b Budget) String() string {
	if b.Windowed() {
		return b.Quota.String()
	}
	return b.Limit.String()
}

// Share is which part of the rate starts under a standing backlog, 0 to 1, if
// each look after a hold comes late by lateness.
func (b Budget) Share(lateness time.Duration) float64 { return b.Limit.Share(b.Hold, lateness) }

// Budgets lists the limits of the file.
func (f *File) Budgets() []Budget {
	var out []Budget
	add := func(name string, r Rate, tasks, queues []string) {
		b := Budget{Name: name, Tasks: tasks, Queues: queues, Place: r.Place}
		switch {
		case r.IsZero():
			return
		case r.Windowed():
			b.Quota = r.Quota
		default:
			b.Limit, b.Hold = r.Limit, r.hold()
		}
		out = append(out, b)
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		if t.Elsewhere {
			continue
		}
		add("task:"+t.Name, t.Rate, []string{t.Name}, nil)
		for _, r := range t.Rates {
			add("task@"+r.Limit.Rate.PeriodString()+":"+t.Name, r, []string{t.Name}, nil)
		}
	}
	for i := range f.Queues {
		add("queue:"+f.Queues[i].Name, f.Queues[i].Rate, nil, []string{f.Queues[i].Name})
	}
	for i := range f.Limits {
		l := &f.Limits[i]
		add(l.Name, l.Rate, l.Tasks, l.Queues)
		if n := len(out); n > 0 && !l.Rate.IsZero() {
			out[n-1].Exact = l.Exact
		}
	}
	return out
}

// Warnings lists what a file without faults says and hardly means. It looks
// for the commands' programs and the database's folder on this machine.
func (f *File) Warnings() []Finding {
	out := f.unused()
	for _, b := range f.Budgets() {
		if b.Limit.Narrow() {
			out = append(out, Finding{
				Code: NarrowBurst, Place: b.Place,
				Message: fmt.Sprintf("limit %s: %s holds less than 20 ms worth of its rate, so that ordinary delays cost a good part of it", quote(b.Name), b.Limit),
				Mend:    fmt.Sprintf("use a burst of %d or more", wideBurst(b.Limit.Rate)),
			})
		}
	}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		out = append(out, t.withoutEffect()...)
		out = append(out, t.idleRates()...)
		if t.Exec != nil {
			out = append(out, t.Exec.cannotStart(t.Name)...)
		}
	}
	for i := range f.Limits {
		out = append(out, f.Limits[i].namedTwice()...)
	}
	out = append(out, f.alikeNames()...)
	inOrder(out)
	return out
}

// unused names what the file as a whole leaves without use.
func (f *File) unused() []Finding {
	var out []Finding
	if !f.Runs() {
		out = append(out, Finding{
			Code: NothingRuns, Place: Place{File: f.Path},
			Message: "no task runs here", Mend: `add one, as in tasks: {hello: {exec: {command: ["./hello.sh"]}}}`,
		})
	}
	if folder := store.MissingFolder(f.Database); folder != "" {
		out = append(out, Finding{Code: NoFolder, Place: f.databaseAt, Message: "there is no folder " + strconv.Quote(folder), Mend: "make it, as with mkdir -p"})
	}
	if f.Listen != "" {
		out = append(out, Finding{Code: Ignored, Place: f.listenAt, Message: "listen " + quote(f.Listen) + " is ignored: this version has no HTTP server", Mend: "leave it out"})
	}
	return out
}

// wideBurst is the smallest burst that is worth 20 ms of a rate.
func wideBurst(r bucket.Rate) int64 {
	perSlack := r.Count() / 1e6 * 20 / r.Period().Milliseconds()
	for n := max(perSlack-1, 1); ; n++ {
		if !(bucket.Limit{Rate: r, Burst: n}).Narrow() {
			return n
		}
	}
}

// withoutEffect names what a task says that another process runs.
func (t *Task) withoutEffect() []Finding {
	if !t.Elsewhere {
		return nil
	}
	var keys []string
	for key, given := range map[string]bool{
		"rate_limit": !t.Rate.IsZero() || len(t.Rates) > 0, "on_excess": t.OnExcess != "", "timeout": t.Timeout > 0,
		"max_retries": t.MaxRetries != nil, "retry_backoff": t.Backoff != nil,
		"concurrency": t.Concurrency > 0, "breaker": t.Breaker != nil, "dlq_retry": t.DLQRetry != nil,
	} {
		if given {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.Sort(keys)
	verb, mend := "has", "give it where the task runs"
	if len(keys) > 1 {
		verb, mend = "have", "give them where the task runs"
	}
	return []Finding{{
		Code: NoEffect, Place: t.Place,
		Message: fmt.Sprintf("task %s runs elsewhere: %s %s no effect here", quote(t.Name), listed(keys), verb),
		Mend:    mend,
	}}
}

// listed writes a list for a person: "a, b and c".
func listed(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// idleRates names the rates of a list that never refuse anything, because
// another one lets no more pass in any time.
func (t *Task) idleRates() []Finding {
	var out []Finding
	for i, r := range t.Rates {
		for j, other := range t.Rates {
			if i != j && noMore(other.Limit, r.Limit) && (i > j || !noMore(r.Limit, other.Limit)) {
				out = append(out, Finding{
					Code: IdleRate, Place: r.Place,
					Message: fmt.Sprintf("task %s: %s never refuses a job: %s lets no more pass in any time", quote(t.Name), r.Limit, other.Limit),
					Mend:    "leave it out, or make it smaller",
				})
				break
			}
		}
	}
	return out
}

// noMore tells whether a lets at most as much pass as b, in any time.
func noMore(a, b bucket.Limit) bool {
	if a.Capacity() > b.Capacity() {
		return false
	}
	// a.count / a.period <= b.count / b.period, exactly.
	ah, al := bits.Mul64(uint64(a.Rate.Count()), uint64(b.Rate.Period())) //nolint:gosec // both are positive
	bh, bl := bits.Mul64(uint64(b.Rate.Count()), uint64(a.Rate.Period())) //nolint:gosec // both are positive
	return ah < bh || ah == bh && al <= bl
}

// cannotStart reports what keeps the command from starting on this machine.
func (e *Exec) cannotStart(task string) []Finding {
	problem, mend := target.Exec{Command: e.Command, Dir: e.Dir}.Problem()
	if problem == "" {
		return nil
	}
	return []Finding{{Code: NoProgram, Place: e.Place, Message: "task " + quote(task) + ": " + problem, Mend: mend}}
}

func (l *Limit) namedTwice() []Finding {
	var out []Finding
	for _, names := range [][]string{l.Tasks, l.Queues} {
		for i, name := range names {
			if slices.Index(names, name) < i {
				out = append(out, Finding{
					Code: NamedTwice, Place: l.Place,
					Message: fmt.Sprintf("limit %s names %s twice: a job counts once all the same", quote(l.Name), quote(name)),
					Mend:    "name it once",
				})
			}
		}
	}
	return out
}
