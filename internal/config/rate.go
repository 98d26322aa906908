package config

import (
	"errors"
	"fmt"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/scheduler"
)

// A Rate is a budget as the file gives it. The zero value is none.
type Rate struct {
	Text  string // as written
	Limit bucket.Limit
	Defer scheduler.DeferMode // "": not given
	Place Place               // of the rate
}

// IsZero reports whether the file gives no rate.
func (r Rate) IsZero() bool { return r.Limit.Rate.IsZero() }

// rate reads a rate and what goes with it: under key a text or {rate, burst},
// and beside it "burst" and "defer". whose names the task, queue or limit.
func (s *section) rate(key, whose string) Rate {
	var out Rate
	bursts := s
	n, given := s.value(key, `a rate, as in "100/m"`)
	if given && n.kind == mapping {
		bursts = s.section(join(s.path, key), n)
		bursts.misplaced = map[string]string{"defer": `write it beside "` + key + `"`}
		if _, both := s.entry("burst"); both {
			s.burstTwice(key)
		}
		n, given = bursts.value("rate", `a rate, as in "100/m"`)
		if !given && !bursts.has("rate") {
			bursts.fault(MissingKey, bursts.of.position, bursts.path, whose+": no rate", `add one, as in {rate: 100/m, burst: 20}`)
		}
	}
	rateKey := key
	if bursts != s {
		rateKey = "rate"
	}
	if given {
		out = bursts.oneRate(rateKey, whose, n)
	}
	burst, at, ok := bursts.whole("burst", BadBurst, 1, bucket.MaxBurst)
	switch {
	case ok && !s.has(key):
		s.fault(BadBurst, at.position, join(s.path, "burst"), fmt.Sprintf("%s: burst %d without a rate", whose, burst), fmt.Sprintf(`add one, as in %s: 100/m`, key))
	case ok && !out.IsZero():
		out.Limit.Burst = burst
	}
	if bursts != s {
		bursts.end()
	}
	out.Defer = s.deferMode(key, whose)
	return out
}

func (s *section) burstTwice(key string) {
	e, _ := s.find("burst")
	s.fault(BadBurst, e.at, join(s.path, "burst"), fmt.Sprintf("%q has a burst of its own", key), "give the burst once")
}

func (s *section) oneRate(key, whose string, n *node) Rate {
	path := join(s.path, key)
	switch n.kind {
	case list:
		s.fault(NotServed, n.position, path, whose+": a list of rates is not served by this version yet", `keep one, as in "100/m"`)
		return Rate{}
	case mapping:
		s.wrongType(key, n, `a rate, as in "100/m"`)
		return Rate{}
	default:
	}
	limit, err := bucket.NewLimit(n.value, 0)
	if err != nil {
		message, mend := split(err.Error())
		if syntax, ok := errors.AsType[*bucket.SyntaxError](err); ok {
			_, mend = split(syntax.Problem)
		}
		s.add(BadRate, n.position, path, whose+": "+message, mend, err)
		return Rate{}
	}
	return Rate{Text: n.value, Limit: limit, Place: Place{s.file, n.line, n.column, path}}
}

func (s *section) deferMode(rateKey, whose string) scheduler.DeferMode {
	want := fmt.Sprintf("%q (or %q, the default)", scheduler.UntilToken, scheduler.DeferSecond)
	value, n, ok := s.text("defer", want)
	if !ok {
		return ""
	}
	mode := scheduler.DeferMode(value)
	switch {
	case mode != scheduler.UntilToken && mode != scheduler.DeferSecond:
		s.fault(BadDefer, n.position, join(s.path, "defer"), fmt.Sprintf("%s: defer %s", whose, quote(value)), "use "+want)
		return ""
	case !s.has(rateKey):
		s.fault(BadDefer, n.position, join(s.path, "defer"), fmt.Sprintf("%s: defer %s without a rate", whose, quote(value)), fmt.Sprintf(`add one, as in %s: 100/m`, rateKey))
		return ""
	}
	return mode
}
