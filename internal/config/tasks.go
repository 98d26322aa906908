package config

import (
	"fmt"
	"strings"

	"github.com/weirq/weir/internal/target"
	"github.com/weirq/weir/scheduler"
)

func (s *section) tasks(dir string) []Task {
	var out []Task
	s.named("tasks", "task", func(path string, e entry) {
		out = append(out, s.task(path, e, dir))
	})
	return out
}

const maxRetries = 1_000_000

func (r *reader) task(path string, e entry, dir string) Task {
	s := r.section(path, e.of)
	s.misplaced = map[string]string{
		"rate":     `here it is called "rate_limit"`,
		"limit":    `here it is called "rate_limit"`,
		"retries":  `here it is called "max_retries"`,
		"backoff":  `here it is called "retry_backoff"`,
		"command":  `write it under "exec", as in exec: {command: ["./run.sh"]}`,
		"url":      `write it under "http", as in http: {url: "http://127.0.0.1:9000/send"}`,
		"headers":  `write them under "http", beside its url`,
		"priority": "it belongs to a job: give it at the enqueue",
	}
	whose := "task " + quote(e.key)
	t := Task{Name: e.key, Place: r.place(e.at, path)}
	t.Rate, t.Rates = s.taskRate(whose)
	t.OnExcess = s.onExcess(whose)
	if e, _ := s.find("on_excess"); s.windows && t.OnExcess == scheduler.Drop {
		s.fault(OtherStrategy, e.of.position, join(path, "on_excess"), whose+": on_excess \"drop\" belongs to strategy token_bucket: what a fixed window refuses stays where it is", "remove it")
	}
	t.Queue, _, _ = s.name("queue", "queue")
	t.Timeout, _ = s.duration("timeout", 0, longestTime)
	if n, _, ok := s.whole("max_retries", BadNumber, 0, maxRetries); ok {
		times := int(n)
		t.MaxRetries = &times
	}
	t.Backoff = s.backoff()
	t.Concurrency = s.concurrency()
	t.Breaker = s.breaker(whose)
	t.DLQRetry = s.dlqRetry(whose)
	s.target(&t, e, dir)
	s.end()
	return t
}

// concurrency reads how many jobs of a task or a queue run at once, over all
// processes.
func (s *section) concurrency() int {
	n, _, _ := s.whole("concurrency", BadNumber, 1, maxConcurrency)
	return int(n)
}

func (s *section) onExcess(whose string) scheduler.Excess {
	want := fmt.Sprintf("%q (the default) or %q", scheduler.Postpone, scheduler.Drop)
	value, n, ok := s.text("on_excess", want)
	what := scheduler.Excess(value)
	if ok && what != scheduler.Postpone && what != scheduler.Drop {
		s.fault(BadExcess, n.position, join(s.path, "on_excess"), fmt.Sprintf("%s: on_excess %s", whose, quote(value)), "use "+want)
		return ""
	}
	return what
}

// target reads what runs the task: exactly one of four keys.
func (s *section) target(t *Task, e entry, dir string) {
	var given []string
	for _, key := range []string{"http", "exec", "pull", "elsewhere"} {
		if s.has(key) {
			given = append(given, key)
		}
	}
	whose := "task " + quote(t.Name)
	s.notServed("pull")
	t.HTTP = s.http(whose)
	if t.HTTP != nil && !s.has("timeout") {
		t.Timeout = target.DefaultHTTPTimeout
	}
	t.Exec = s.exec(whose, dir)
	t.Elsewhere = s.elsewhere(whose)
	switch {
	case len(given) == 0:
		s.missing(NoTarget, e.at, whose+" says nothing about what runs it",
			`give it a command, as in exec: {command: ["./run.sh"]}, a URL, as in http: {url: "http://127.0.0.1:9000/send"}, or elsewhere: true if another process runs it`)
	case len(given) > 1:
		s.fault(SeveralTargets, e.at, s.path, whose+" has several targets: "+strings.Join(given, " and "), "keep one of them")
	}
}

func (s *section) elsewhere(whose string) bool {
	n, ok := s.value("elsewhere", "true")
	switch {
	case !ok:
		return false
	case n.kind != boolean:
		s.wrongType("elsewhere", n, "true")
		return false
	case n.value != "true" && n.value != "True" && n.value != "TRUE":
		s.fault(NoTarget, n.position, join(s.path, "elsewhere"), whose+`: "elsewhere" says that it does not run elsewhere`, "remove the key and give it a command or a URL, or write true")
		return false
	}
	return true
}
