package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/config"
	"github.com/weirq/weir/internal/wire"
)

// checkLateness is how late a look comes after a hold on an ordinary machine.
const checkLateness = 2 * time.Millisecond

func (a *app) check() *cobra.Command {
	var strict bool
	var workers int64
	cmd := &cobra.Command{
		Use: "check [FILE...]", Short: "Validate configuration files, without a database",
		Long: `Validates configuration files, named by -c or as arguments, without a database.
Each finding has a stable code, a place and a mend. For each limit it prints
the bound that it keeps, and the share of its rate that starts while more work
waits than it lets pass, if each look comes 2 ms late; for each schedule its
next three ticks, those of an interval as if it were first declared now.

Of fixed windows it prints how many starts one window can have, and any interval
as long as one, if --workers processes claim under the limit, and which limit
keeps either at N. U is the number of times rate_limit_uncounted was logged.`,
	}
	cmd.RunE = func(cmd *cobra.Command, more []string) error {
		files := append(append([]string{}, a.files...), more...)
		if len(files) == 0 {
			return wrong(cmd, "name a file, as in: weir check -c weir.yaml")
		}
		if cmd.Flags().Changed("workers") && (workers < 1 || workers > maxWorkers) {
			return wrong(cmd, "--workers %d: use 1 to %d", workers, int64(maxWorkers))
		}
		return a.checkFiles(files, strict, workers)
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "warnings are failures too")
	cmd.Flags().Int64Var(&workers, "workers", 0, "`W` processes claim under fixed windows, each worker process one")
	return cmd
}

// checked is one file in JSON.
type checked struct {
	File      string          `json:"file"`
	OK        bool            `json:"ok"`
	Findings  []checkFinding  `json:"findings"`
	Limits    []checkLimit    `json:"limits"`
	Windows   []checkWindow   `json:"windows,omitempty"` // instead of limits, of fixed windows
	Schedules []checkSchedule `json:"schedules"`
}

type checkFinding struct {
	Code     config.Code `json:"code"`
	Severity string      `json:"severity"` // error, warning
	File     string      `json:"file"`
	Line     int         `json:"line"`
	Column   int         `json:"column"`
	Key      string      `json:"key"`
	Message  string      `json:"message"`
	Mend     string      `json:"mend"`

	text string
}

type checkLimit struct {
	Name     string   `json:"name"`
	Rate     string   `json:"rate"`
	Burst    *int64   `json:"burst"`
	Capacity float64  `json:"capacity"` // the most that start at once
	Bound    string   `json:"bound"`
	Hold     string   `json:"hold"`
	Share    float64  `json:"share"` // at a lateness of 2 ms
	Tasks    []string `json:"tasks"`
	Queues   []string `json:"queues"`
}

type checkSchedule struct {
	Name      string      `json:"name"`
	Cron      string      `json:"cron"`
	Timezone  string      `json:"timezone" wire:"null"`
	Task      string      `json:"task"`
	Missed    string      `json:"missed"`
	NextTicks []time.Time `json:"next_ticks"`
}

// MarshalJSON writes the schedule with stable names.
func (s checkSchedule) MarshalJSON() ([]byte, error) { return wire.Object(s) }

const (
	severityError   = "error"
	severityWarning = "warning"
)

func (a *app) checkFiles(paths []string, strict bool, workers int64) error {
	all := make([]checked, 0, len(paths))
	var files []*config.File
	for _, path := range paths {
		c, f := a.checkFile(path, workers)
		if f != nil && !slices.ContainsFunc(files, func(other *config.File) bool { return other.Path == path }) {
			files = append(files, f)
		}
		all = append(all, c)
	}
	apart, odd := config.Across(files)
	faults, warnings := 0, 0
	for i := range all {
		c := &all[i]
		c.addOwn(severityError, apart)
		c.addOwn(severityWarning, odd)
		for _, f := range c.Findings {
			if f.Severity == severityError {
				faults++
			} else {
				warnings++
			}
		}
	}
	if err := a.printChecked(all, faults, warnings); err != nil {
		return err
	}
	if faults > 0 || strict && warnings > 0 {
		return fmt.Errorf("check: %s, %s", count(int64(faults), "fault"), count(int64(warnings), "warning"))
	}
	return nil
}

func (a *app) checkFile(path string, workers int64) (checked, *config.File) {
	c := checked{File: path, OK: true, Findings: []checkFinding{}, Limits: []checkLimit{}, Schedules: []checkSchedule{}}
	f, err := config.Load(path)
	if err != nil {
		c.OK = false
		if fe, ok := errors.AsType[*config.FileError](err); ok {
			c.add(severityError, fe.Findings)
		}
		return c, nil
	}
	c.add(severityWarning, f.Warnings())
	c.add(severityWarning, f.ForWorkers(workers))
	for _, b := range f.Budgets() {
		if b.Windowed() {
			c.Windows = append(c.Windows, newCheckWindow(b, workers))
		} else {
			c.Limits = append(c.Limits, newCheckLimit(b))
		}
	}
	for i := range f.Schedules {
		c.Schedules = append(c.Schedules, newCheckSchedule(&f.Schedules[i], a.clock.Now()))
	}
	return c, f
}

// addOwn adds those of the findings that are about the file.
func (c *checked) addOwn(severity string, findings []config.Finding) {
	for _, f := range findings {
		if f.Place.File == c.File {
			c.OK = c.OK && severity != severityError
			c.add(severity, []config.Finding{f})
		}
	}
}

func (c *checked) add(severity string, findings []config.Finding) {
	for _, f := range findings {
		c.Findings = append(c.Findings, checkFinding{
			Code: f.Code, Severity: severity, File: f.Place.File, Line: f.Place.Line, Column: f.Place.Column, Key: f.Place.Key,
			Message: f.Message, Mend: f.Mend, text: f.Error(),
		})
	}
}

func newCheckLimit(b config.Budget) checkLimit {
	capacity := float64(b.Limit.Capacity()) / float64(bucket.Token)
	l := checkLimit{
		Name: b.Name, Rate: b.Limit.Rate.String(), Capacity: capacity, Bound: bound(b.Limit),
		Hold:   b.Hold.Round(time.Millisecond).String(),
		Share:  math.Round(b.Share(checkLateness)*1e4) / 1e4,
		Tasks:  append([]string{}, b.Tasks...),
		Queues: append([]string{}, b.Queues...),
	}
	if b.Limit.Burst > 0 {
		l.Burst = &b.Limit.Burst
	}
	return l
}

func newCheckSchedule(f *config.Schedule, now time.Time) checkSchedule {
	s := checkSchedule{Name: f.Name, Cron: f.Spec.Cron(), Timezone: f.Spec.Zone(), Task: f.Task, Missed: string(f.Missed)}
	spec := f.Spec.From(now)
	for at := now; len(s.NextTicks) < 3; {
		at = spec.Next(at)
		s.NextTicks = append(s.NextTicks, at)
	}
	return s
}

// bound says how many starts a limit lets happen in any time, and works it out
// for one period: "100 + L x 100/m, so 200 in any 1m".
func bound(l bucket.Limit) string {
	capacity := strconv.FormatFloat(float64(l.Capacity())/float64(bucket.Token), 'f', -1, 64)
	inPeriod := (l.Capacity() + l.Rate.Count()) / bucket.Token
	period := l.Rate.PeriodString()
	if len(period) == 1 {
		period = "1" + period
	}
	return fmt.Sprintf("%s + L x %s, so %d in any %s", capacity, l.Rate, inPeriod, period)
}

func (a *app) printChecked(all []checked, faults, warnings int) error {
	if a.json {
		return a.document(struct {
			OK       bool      `json:"ok"`
			Faults   int       `json:"faults"`
			Warnings int       `json:"warnings"`
			Files    []checked `json:"files"`
		}{faults == 0, faults, warnings, all})
	}
	for i := range all {
		c := &all[i]
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		if c.OK {
			fmt.Fprintf(a.out, "%s: no faults\n", printable(c.File))
		}
		for _, f := range c.Findings {
			fmt.Fprintf(a.out, "%s: %s\n", f.Severity, printable(f.text))
		}
		a.checkTables(c)
	}
	return nil
}

func (a *app) checkTables(c *checked) {
	a.printWindows(c.Windows)
	if len(c.Limits) > 0 {
		rows := make([][]string, 0, len(c.Limits))
		for _, l := range c.Limits {
			rows = append(rows, []string{l.Name, l.Bound, l.Hold, fmt.Sprintf("%.2f %%", 100*l.Share)})
		}
		fmt.Fprintln(a.out)
		a.table("limits", []string{"LIMIT", "STARTS IN ANY TIME L, AT MOST", "HELD FOR", "SHARE AT 2ms"}, rows)
	}
	if len(c.Schedules) > 0 {
		rows := make([][]string, 0, len(c.Schedules))
		for _, s := range c.Schedules {
			rows = append(rows, []string{s.Name, s.Cron, s.Timezone, s.Task, tick(s.NextTicks[0]), listTicks(s.NextTicks[1:])})
		}
		fmt.Fprintln(a.out)
		a.table("schedules", []string{"SCHEDULE", "CRON", "TIMEZONE", "TASK", "NEXT", "THEN"}, rows)
	}
}
