package config

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/internal/cron"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// A Schedule is one entry of "schedules".
type Schedule struct {
	Name   string
	Place  Place
	Spec   cron.Spec
	Missed scheduler.MissedTicks
	Task   string

	// What each of its jobs has.
	Args        []byte // JSON
	Queue       string
	Priority    int
	UniqueKey   string
	Metadata    []byte // a JSON object
	StartWithin time.Duration
}

// schedules reads the schedules, after the tasks that they name.
func (s *section) schedules(f *File) []Schedule {
	var out []Schedule
	s.named("schedules", "schedule", func(path string, e entry) {
		out = append(out, s.schedule(path, e, f))
	})
	return out
}

func (r *reader) schedule(path string, e entry, f *File) Schedule {
	s := r.section(path, e.of)
	s.misplaced = map[string]string{
		"schedule":  `here it is called "cron"`,
		"spec":      `here it is called "cron"`,
		"every":     `write it as cron: "@every 10m"`,
		"zone":      `here it is called "timezone"`,
		"tz":        `here it is called "timezone"`,
		"time_zone": `here it is called "timezone"`,
		"catch_up":  `here it is called "missed"`,
	}
	whose := "schedule " + quote(e.key)
	out := Schedule{Name: e.key, Place: r.place(e.at, path), Missed: scheduler.Skip}
	out.Spec = s.cron(whose, e)
	out.Missed = s.missed(whose)
	out.Task = s.scheduledTask(whose, e, f)
	out.Args = s.json("args", "a value")
	out.Queue, _, _ = s.name("queue", "queue")
	if n, _, ok := s.whole("priority", BadNumber, queue.LowestPriority, queue.HighestPriority); ok {
		out.Priority = int(n)
	}
	out.UniqueKey, _, _ = s.name("unique_key", "unique key")
	out.Metadata = s.metadata()
	out.StartWithin, _ = s.duration("start_within", time.Millisecond, queue.LongestDelay)
	s.end()
	return out
}

// cron reads when a schedule is due: a spec, and its zone beside it or in it.
func (s *section) cron(whose string, e entry) cron.Spec {
	const example = `a cron spec, as in "0 3 * * *"`
	text, at, ok := s.text("cron", example)
	if !ok && !s.has("cron") {
		s.fault(MissingKey, e.at, s.path, whose+": no cron", `say when, as in cron: "0 3 * * *" or cron: "@every 10m"`)
	}
	zone, zoneAt, given := s.text("timezone", "the name of a time zone, as in Europe/Paris")
	if !ok || s.has("timezone") && !given {
		return cron.Spec{}
	}
	spec, err := cron.Parse(text, zone)
	if err == nil && given && zone == "" {
		_, err = cron.Parse("@daily", "") // an interval needs no zone, and this is none
	}
	if err == nil {
		return spec
	}
	message, mend := split(err.Error())
	code, key := BadCron, "cron"
	if errors.Is(err, cron.ErrZone) {
		code = BadZone
		if given {
			key, at = "timezone", zoneAt
		}
	}
	s.add(code, at.position, join(s.path, key), whose+": "+message, mend, err)
	return cron.Spec{}
}

func (s *section) missed(whose string) scheduler.MissedTicks {
	want := fmt.Sprintf("%q (the default) or %q", scheduler.Skip, scheduler.Once)
	value, n, ok := s.text("missed", want)
	what := scheduler.MissedTicks(value)
	switch {
	case !ok:
		return scheduler.Skip
	case what != scheduler.Skip && what != scheduler.Once:
		s.fault(BadMissed, n.position, join(s.path, "missed"), fmt.Sprintf("%s: missed %s", whose, quote(value)), "use "+want)
		return scheduler.Skip
	}
	return what
}

func (s *section) scheduledTask(whose string, e entry, f *File) string {
	if !s.has("task") {
		s.fault(MissingKey, e.at, s.path, whose+": no task", "name the one whose job is enqueued, as in task: build_report")
	}
	task, n, ok := s.name("task", "task")
	if ok && !slices.Contains(f.taskNames(), task) {
		s.fault(UnknownTask, n.position, join(s.path, "task"), fmt.Sprintf("%s: task %s is not declared in this file", whose, quote(task)),
			declare(task, f.taskNames(), `under "tasks", with elsewhere: true if another process runs it`))
	}
	return task
}

// metadata reads an object for people and middleware.
func (s *section) metadata() []byte {
	const want = "a mapping, as in {team: books}"
	n, ok := s.value("metadata", want)
	if !ok {
		return nil
	}
	if n.kind != mapping {
		s.wrongType("metadata", n, want)
		return nil
	}
	doc := s.json("metadata", want)
	if len(doc) > queue.LargestMetadata {
		s.fault(TooBig, n.position, join(s.path, "metadata"), fmt.Sprintf("metadata of %d bytes", len(doc)), fmt.Sprintf("use at most %d", queue.LargestMetadata))
	}
	return doc
}

// options are those of the schedule's jobs, and the others.
func (c *Schedule) options() []scheduler.ScheduleOption {
	opts := []scheduler.ScheduleOption{scheduler.TimeZone(c.Spec.Zone()), scheduler.Missed(c.Missed)} //nolint:prealloc // a handful
	var job []queue.EnqueueOption
	if c.Queue != "" {
		job = append(job, queue.Queue(c.Queue))
	}
	if c.UniqueKey != "" {
		job = append(job, queue.UniqueKey(c.UniqueKey))
	}
	return append(opts, scheduler.JobOptions(append(job, queue.Priority(c.Priority), queue.StartWithin(c.StartWithin), func(j *queue.NewJob) error {
		j.Metadata = c.Metadata
		return nil
	})...))
}
