package main

import (
	"fmt"
	"strings"

	"github.com/weirq/weir/internal/config"
	"github.com/weirq/weir/scheduler"
)

// announcement is what serve runs, in JSON.
type announcement struct {
	Database    string              `json:"database"`
	Concurrency int                 `json:"concurrency"`
	Tasks       []announcedTask     `json:"tasks"`
	Limits      []announcedLimit    `json:"limits"`
	Schedules   []announcedSchedule `json:"schedules"`
	Warnings    []string            `json:"warnings"`
}

type announcedTask struct {
	Name       string           `json:"name"`
	Queue      string           `json:"queue"`
	RateLimit  *string          `json:"rate_limit"`
	OnExcess   scheduler.Excess `json:"on_excess"`
	MaxRetries int              `json:"max_retries"`
	Timeout    *string          `json:"timeout"`
	Command    []string         `json:"command"` // one of the two
	URL        *string          `json:"url"`
}

type announcedLimit struct {
	Name   string   `json:"name"`
	Rate   string   `json:"rate"`
	Burst  *int64   `json:"burst"`
	Exact  bool     `json:"exact"` // under fixed windows
	Tasks  []string `json:"tasks"`
	Queues []string `json:"queues"`

	text string // what holds, for people
}

type announcedSchedule struct {
	Name   string `json:"name"`
	When   string `json:"when"` // the spec, with its zone
	Task   string `json:"task"`
	Missed string `json:"missed"`
}

// announce says what is about to run.
func (s *server) announce(sched *scheduler.Scheduler) error {
	an := s.announcement(sched)
	if s.json {
		if err := s.document(an); err != nil {
			return err
		}
		return s.out.Flush()
	}
	fmt.Fprintf(s.out, "database     %s\nconcurrency  %d\n\n", printable(an.Database), an.Concurrency)
	rows := make([][]string, 0, len(an.Tasks))
	for _, t := range an.Tasks {
		rows = append(rows, []string{t.Name, t.Queue, text(t.RateLimit), string(t.OnExcess), t.runs()})
	}
	s.table("tasks", []string{"TASK", "QUEUE", "RATE", "EXCESS", "RUNS"}, rows)
	rows = rows[:0]
	for _, l := range an.Limits {
		if !strings.HasPrefix(l.Name, "task:") && !strings.HasPrefix(l.Name, "task@") { // those stand with their tasks
			rows = append(rows, []string{l.Name, l.text, covers(l)})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.out)
		s.table("limits", []string{"LIMIT", "RATE", "COVERS"}, rows)
	}
	if len(an.Schedules) > 0 {
		rows = rows[:0]
		for _, c := range an.Schedules {
			rows = append(rows, []string{c.Name, c.When, c.Task, c.Missed})
		}
		fmt.Fprintln(s.out)
		s.table("schedules", []string{"SCHEDULE", "WHEN", "TASK", "MISSED"}, rows)
	}
	fmt.Fprintln(s.out)
	for _, w := range an.Warnings {
		fmt.Fprintf(s.out, "warning: %s\n", printable(w))
	}
	return s.out.Flush()
}

func (s *server) announcement(sched *scheduler.Scheduler) announcement {
	an := announcement{
		Database: s.client.Store().String(), Concurrency: scheduler.DefaultConcurrency,
		Tasks: []announcedTask{}, Limits: []announcedLimit{}, Schedules: []announcedSchedule{}, Warnings: []string{},
	}
	if s.file.Concurrency > 0 {
		an.Concurrency = s.file.Concurrency
	}
	written := map[string]*config.Task{}
	for i := range s.file.Tasks {
		written[s.file.Tasks[i].Name] = &s.file.Tasks[i]
	}
	for _, t := range sched.Describe() {
		an.Tasks = append(an.Tasks, newAnnouncedTask(t, written[t.Name]))
	}
	for _, b := range s.file.Budgets() {
		l := announcedLimit{Name: b.Name, Rate: b.String(), Exact: b.Exact, Tasks: nonNil(b.Tasks), Queues: nonNil(b.Queues), text: b.String()}
		if b.Limit.Burst > 0 {
			l.Rate, l.Burst = b.Limit.Rate.String(), &b.Limit.Burst
		}
		if b.Exact {
			l.text += " (exact)"
		}
		an.Limits = append(an.Limits, l)
	}
	for i := range s.file.Schedules {
		c := &s.file.Schedules[i]
		an.Schedules = append(an.Schedules, announcedSchedule{c.Name, c.Spec.String(), c.Task, string(c.Missed)})
	}
	an.Warnings = append(an.Warnings, messages(s.file.Warnings())...)
	return an
}

func newAnnouncedTask(t scheduler.TaskInfo, written *config.Task) announcedTask {
	out := announcedTask{Name: t.Name, Queue: t.Queue, OnExcess: t.OnExcess, MaxRetries: t.MaxRetries}
	if written.Exec != nil {
		out.Command = written.Exec.Command
	}
	if written.HTTP != nil {
		url := written.HTTP.String()
		out.URL = &url
	}
	if t.RateLimit != "" {
		rate := t.RateLimit
		if t.Burst > 0 {
			rate += fmt.Sprintf(" burst %d", t.Burst)
		}
		out.RateLimit = &rate
	}
	if t.Timeout > 0 {
		timeout := t.Timeout.String()
		out.Timeout = &timeout
	}
	return out
}

// runs says what runs the task.
func (t *announcedTask) runs() string {
	if t.URL != nil {
		return "POST " + *t.URL
	}
	return strings.Join(t.Command, " ")
}

func covers(l announcedLimit) string {
	var parts []string
	if len(l.Tasks) > 0 {
		parts = append(parts, "tasks "+strings.Join(l.Tasks, ", "))
	}
	if len(l.Queues) > 0 {
		parts = append(parts, "queues "+strings.Join(l.Queues, ", "))
	}
	return strings.Join(parts, "; ")
}

func messages(findings []config.Finding) []string {
	out := make([]string, len(findings))
	for i, f := range findings {
		out[i] = f.Error()
	}
	return out
}

func nonNil(s []string) []string { return append([]string{}, s...) }

// text is an optional text.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
