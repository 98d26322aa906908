package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirq/weir/internal/suggest"
	"github.com/weirq/weir/scheduler"
)

func (s *section) queues() []Queue {
	var out []Queue
	s.named("queues", "queue", func(path string, e entry) {
		in := s.section(path, e.of)
		in.misplaced = map[string]string{
			"rate":      `here it is called "rate_limit"`,
			"on_excess": "it belongs to a task: whatever limit refuses a job, its task says what happens to it",
		}
		q := Queue{Name: e.key, Place: s.place(e.at, path)}
		q.Rate = in.rate("rate_limit", "queue "+quote(e.key))
		q.Concurrency = in.concurrency()
		in.end()
		out = append(out, q)
	})
	return out
}

// limits reads the shared limits, after the tasks and queues that they name.
func (s *section) limits(f *File) []Limit {
	var out []Limit
	s.named("limits", "limit", func(path string, e entry) {
		out = append(out, s.limit(path, e, f))
	})
	return out
}

func (r *reader) limit(path string, e entry, f *File) Limit {
	s := r.section(path, e.of)
	s.misplaced = map[string]string{
		"rate_limit": `here it is called "rate"`,
		"on_excess":  "it belongs to a task: whatever limit refuses a job, its task says what happens to it",
		"task":       `write a list, as in tasks: [one, two]`,
		"queue":      `write a list, as in queues: [one, two]`,
		"strategy":   "it is the whole file's: write it outside of tasks, queues and limits",
	}
	whose := "limit " + quote(e.key)
	l := Limit{Name: e.key, Place: r.place(e.at, path)}
	for _, prefix := range []string{"task:", "task@", "queue:"} {
		if strings.HasPrefix(e.key, prefix) {
			s.fault(ReservedName, e.at, path, fmt.Sprintf("%s: names that begin with %q are Weir's own", whose, prefix), `choose another, as in "stripe"`)
		}
	}
	if s.windows {
		l.Rate, l.Exact = s.window(e, whose), s.exact()
	} else {
		s.otherStrategy(scheduler.FixedWindow, "limit", "per", "exact")
		l.Rate = s.rate("rate", whose)
	}
	if !s.has("rate") && !s.has("limit") && !s.has("per") && !s.has("rate_limit") {
		s.missing(MissingKey, e.at, whose+": no rate", "add one, as in rate: 100/m")
	}
	tasks, queues := s.names("tasks", "task"), s.names("queues", "queue")
	for _, t := range tasks {
		if !slices.ContainsFunc(f.Tasks, func(d Task) bool { return d.Name == t.name }) {
			s.fault(UnknownTask, t.at, t.path, fmt.Sprintf("%s: task %s is not declared in this file", whose, quote(t.name)),
				declare(t.name, f.taskNames(), `under "tasks", with elsewhere: true if another process runs it`))
		}
		l.Tasks = append(l.Tasks, t.name)
	}
	for _, q := range queues {
		if known := f.queueNames(); !slices.Contains(known, q.name) {
			s.fault(UnknownQueue, q.at, q.path, fmt.Sprintf("%s: queue %s is neither under \"queues\" nor the queue of a task", whose, quote(q.name)),
				declare(q.name, known, `as in queues: {`+q.name+`: {}}`))
		}
		l.Queues = append(l.Queues, q.name)
	}
	if nothing := len(tasks)+len(queues) == 0; nothing && s.empty("tasks") && s.empty("queues") {
		s.missing(CoversNone, e.at, whose+" covers nothing", "name what it covers, as in tasks: [one, two] or queues: [emails]")
	}
	s.end()
	return l
}

// empty tells a list that is not there or names nothing from one whose names
// were refused.
func (s *section) empty(key string) bool {
	e, there := s.find(key)
	return !there || e.of.kind == absent || e.of.kind == list && len(e.of.items) == 0
}

// declare proposes a name that was probably meant, or to declare this one.
func declare(name string, known []string, how string) string {
	if near := suggest.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q? Else declare it %s", near, how)
	}
	return "declare it " + how
}

func (f *File) taskNames() []string {
	names := make([]string, len(f.Tasks))
	for i := range f.Tasks {
		names[i] = f.Tasks[i].Name
	}
	return names
}

// queueNames lists the queues that the file knows: jobs of a task without one
// wait in the default queue.
func (f *File) queueNames() []string {
	names := []string{scheduler.DefaultQueue}
	for i := range f.Queues {
		names = append(names, f.Queues[i].Name)
	}
	for i := range f.Tasks {
		if q := f.Tasks[i].Queue; q != "" {
			names = append(names, q)
		}
	}
	return names
}
