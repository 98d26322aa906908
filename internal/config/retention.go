package config

import (
	"math"
	"time"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

const shortestRetention = time.Minute

// A DeadRetention is what is kept of the dead letters of a kind.
type DeadRetention struct {
	Kind dlq.Kind
	Keep scheduler.Keep
}

// retention reads for how long finished jobs are kept, and how many dead
// letters.
func (s *section) retention() (completed *time.Duration, dead []DeadRetention) {
	const want = "{completed: 24h, failed: 720h}"
	n, ok := s.value("retention", want)
	if !ok {
		return nil, nil
	}
	if n.kind != mapping {
		s.wrongType("retention", n, want)
		return nil, nil
	}
	in := s.section(join(s.path, "retention"), n)
	in.misplaced = map[string]string{
		"cancelled": `"completed" is the retention of cancelled jobs too`,
		"dead":      "name the kinds of dead letters: shed, failed, expired",
		"dlq":       "name the kinds of dead letters: shed, failed, expired",
	}
	keep, ok := in.time("completed", "0 to keep them for ever, or "+retentionTime,
		func(d time.Duration) bool { return d == 0 || mayKeep(d) })
	if ok {
		completed = &keep
	}
	for _, kind := range []dlq.Kind{dlq.Shed, dlq.Failed, dlq.Expired} {
		if keep, ok := in.deadRetention(string(kind)); ok {
			dead = append(dead, DeadRetention{kind, keep})
		}
	}
	in.end()
	return completed, dead
}

var retentionTime = "a time from " + short(shortestRetention) + " to " + short(queue.LongestDelay) + ", as in 24h"

func mayKeep(d time.Duration) bool { return d >= shortestRetention && d <= queue.LongestDelay }

// deadRetention reads an age, or {age, count}.
func (s *section) deadRetention(kind string) (keep scheduler.Keep, ok bool) {
	const want = "an age, as in 24h, or {age: 24h, count: 100000}"
	n, ok := s.value(kind, want)
	if !ok {
		return keep, false
	}
	if n.kind != mapping {
		keep.Age, ok = s.time(kind, retentionTime, mayKeep)
		return keep, ok
	}
	path := join(s.path, kind)
	in := s.section(path, n)
	keep.Age, _ = in.time("age", retentionTime, mayKeep)
	keep.Count, _, _ = in.whole("count", BadNumber, 1, math.MaxInt64)
	if !in.has("age") && !in.has("count") {
		in.fault(MissingKey, n.position, path, "neither an age nor a count of dead letters", "give one of them or both, as in {age: 24h, count: 100000}")
	}
	in.end()
	return keep, keep != scheduler.Keep{}
}
