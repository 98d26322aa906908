package config

import (
	"time"

	"github.com/weirq/weir/scheduler"
)

const mostFailures = 1_000_000

// breaker reads when a task that keeps failing is left alone.
func (s *section) breaker(whose string) *scheduler.Breaker {
	const want = "{failures: 10, window: 1m, open: 30s, probes: 1}"
	n, ok := s.value("breaker", want)
	if !ok {
		return nil
	}
	if n.kind != mapping {
		s.wrongType("breaker", n, want)
		return nil
	}
	path := join(s.path, "breaker")
	in := s.section(path, n)
	in.misplaced = map[string]string{
		"threshold": `here it is called "failures"`,
		"cooldown":  `here it is called "open"`,
		"timeout":   `how long it stays open is called "open" here`,
	}
	var b scheduler.Breaker
	failures, _, _ := in.whole("failures", BadNumber, 1, mostFailures)
	if !in.has("failures") {
		in.missing(MissingKey, n.position, whose+`: no "failures"`, "say how many open the breaker, as in "+want)
	}
	b.Window, _ = in.duration("window", time.Millisecond, longestTime)
	b.Open, _ = in.duration("open", time.Millisecond, longestTime)
	probes, _, _ := in.whole("probes", BadNumber, 1, maxConcurrency)
	b.Failures, b.Probes = int(failures), int(probes)
	in.end()
	return &b
}
