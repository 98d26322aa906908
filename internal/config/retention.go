package config

import (
	"time"

	"github.com/weirq/weir/queue"
)

const shortestRetention = time.Minute

// retention reads for how long finished jobs are kept.
func (s *section) retention() *time.Duration {
	const want = "{completed: 24h}"
	n, ok := s.value("retention", want)
	if !ok {
		return nil
	}
	if n.kind != mapping {
		s.wrongType("retention", n, want)
		return nil
	}
	in := s.section(join(s.path, "retention"), n)
	in.misplaced = map[string]string{"cancelled": `"completed" is the retention of cancelled jobs too`}
	in.notServed("shed", "failed", "expired", "dead")
	keep, ok := in.time("completed", "0 to keep them for ever, or a time from "+short(shortestRetention)+" to "+short(queue.LongestDelay)+", as in 24h",
		func(d time.Duration) bool { return d == 0 || d >= shortestRetention && d <= queue.LongestDelay })
	in.end()
	if !ok {
		return nil
	}
	return &keep
}
