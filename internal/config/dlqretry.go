package config

import (
	"time"
)

const mostDLQRetries = 100

// A DLQRetry is how the failed jobs of a task are retried after their death.
type DLQRetry struct {
	After time.Duration
	Max   int
}

func (s *section) dlqRetry(whose string) *DLQRetry {
	const want = "{after: 1h, max: 3}"
	n, ok := s.value("dlq_retry", want)
	if !ok {
		return nil
	}
	if n.kind != mapping {
		s.wrongType("dlq_retry", n, want)
		return nil
	}
	path := join(s.path, "dlq_retry")
	in := s.section(path, n)
	in.misplaced = map[string]string{
		"delay":   `here it is called "after"`,
		"retries": `here it is called "max"`,
	}
	var r DLQRetry
	r.After, _ = in.duration("after", time.Second, longestTime)
	times, _, _ := in.whole("max", BadNumber, 1, mostDLQRetries)
	r.Max = int(times)
	for _, key := range []string{"after", "max"} {
		if !in.has(key) {
			in.fault(MissingKey, n.position, path, whose+`: no "`+key+`"`, "give both, as in "+want)
		}
	}
	in.end()
	return &r
}
