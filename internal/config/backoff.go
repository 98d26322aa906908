package config

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirq/weir/scheduler"
)

// backoff reads the time between attempts: a number is the factor over a base
// of one second.
func (s *section) backoff() *scheduler.Backoff {
	const want = "a factor, as in 2.0, or {base: 1s, factor: 2, max: 10m, jitter: 0.1}"
	n, ok := s.value("retry_backoff", want)
	if !ok {
		return nil
	}
	path := join(s.path, "retry_backoff")
	switch n.kind {
	case number:
		if f, ok := s.decimal(n, path, "factor", 1, math.MaxFloat64); ok {
			return &scheduler.Backoff{Factor: f}
		}
		return nil
	case mapping:
		return s.section(path, n).backoffParts()
	default:
		s.wrongType("retry_backoff", n, want)
		return nil
	}
}

const (
	shortestBase = time.Millisecond
	defaultBase  = time.Second
)

func (s *section) backoffParts() *scheduler.Backoff {
	var b scheduler.Backoff
	b.Base, _ = s.duration("base", shortestBase, longestTime)
	base := max(b.Base, shortestBase)
	if !s.has("base") {
		base = defaultBase
	}
	var ok bool
	if b.Max, ok = s.duration("max", shortestBase, longestTime); ok && b.Max < base {
		at, _ := s.find("max")
		s.fault(BadBackoff, at.of.position, join(s.path, "max"), "max "+quote(at.of.value)+" is below the base, "+short(base), "use the base or more")
	}
	if n, ok := s.value("factor", "a number of at least 1, as in 2.0"); ok {
		b.Factor, _ = s.decimal(n, join(s.path, "factor"), "factor", 1, math.MaxFloat64)
	}
	if n, ok := s.value("jitter", "a number from 0 to 1"); ok {
		b.Jitter, _ = s.decimal(n, join(s.path, "jitter"), "jitter", 0, 1)
	}
	s.end()
	return &b
}

// decimal reads a plain number from low to high.
func (r *reader) decimal(n *node, path, what string, low, high float64) (float64, bool) {
	want := fmt.Sprintf("a number from %v to %v", low, high)
	if high == math.MaxFloat64 {
		want = fmt.Sprintf("a number of at least %v, as in 2.0", low)
	}
	v, err := strconv.ParseFloat(n.value, 64)
	switch {
	case n.kind != number:
		r.fault(WrongType, n.position, path, fmt.Sprintf("%s: it is %s", what, n.kind), "give "+want)
		return 0, false
	case err != nil || !(v >= low && v <= high):
		r.fault(BadBackoff, n.position, path, what+" "+quote(n.value), "use "+want)
		return 0, false
	}
	return v, true
}
