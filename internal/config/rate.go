package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/scheduler"
)

// A Rate is a budget as the file gives it. The zero value is none.
type Rate struct {
	Text  string // as written; "" of a limit with a period
	Limit bucket.Limit
	Quota bucket.Quota        // under the fixed-window strategy
	Defer scheduler.DeferMode // "": not given
	Place Place               // of the rate
}

// IsZero reports whether the file gives no rate.
func (r Rate) IsZero() bool { return r.Limit.Rate.IsZero() && !r.Windowed() }

// Windowed reports whether the rate is that of a fixed window.
func (r Rate) Windowed() bool { return r.Quota != bucket.Quota{} }

const wantRate = `a rate, as in "100/m"`

// rate reads a rate and what goes with it: under key a text or {rate, burst},
// and beside it "burst" and "defer". whose names the task, queue or limit.
func (s *section) rate(key, whose string) Rate {
	if s.windows {
		return s.windowRate(key, whose)
	}
	var out Rate
	n, given := s.value(key, wantRate)
	path := join(s.path, key)
	switch {
	case given && n.kind == list:
		s.fault(WrongType, n.position, path, whose+": a list of rates belongs to a task", "keep one, and write a limit of its own for each of the others")
	case given && n.kind == mapping:
		out = s.rateParts(path, key, whose, n)
		if e, both := s.entry("burst"); both {
			s.fault(BadBurst, e.at, join(s.path, "burst"), fmt.Sprintf("%q has a burst of its own", key), "give the burst once")
		}
	default:
		if given {
			out = s.oneRate(path, whose, n)
		}
		burst, at, ok := s.whole("burst", BadBurst, 1, bucket.MaxBurst)
		switch {
		case ok && !s.has(key):
			s.fault(BadBurst, at.position, join(s.path, "burst"), fmt.Sprintf("%s: burst %d without a rate", whose, burst), fmt.Sprintf(`add one, as in %s: 100/m`, key))
		case ok && !out.IsZero():
			out.Limit.Burst = burst
		}
	}
	out.Defer = s.deferMode(key, whose)
	return out
}

// rateParts reads {rate, burst}.
func (r *reader) rateParts(path, key, whose string, n *node) Rate {
	var out Rate
	s := r.section(path, n)
	s.misplaced = map[string]string{"defer": `write it beside "` + key + `"`}
	if n, given := s.value("rate", wantRate); given {
		out = s.oneRate(join(path, "rate"), whose, n)
	} else if !s.has("rate") {
		s.missing(MissingKey, s.of.position, whose+": no rate", `add one, as in {rate: 100/m, burst: 20}`)
	}
	if burst, _, ok := s.whole("burst", BadBurst, 1, bucket.MaxBurst); ok && !out.IsZero() {
		out.Limit.Burst = burst
	}
	s.end()
	return out
}

// oneRate reads a rate that stands alone.
func (r *reader) oneRate(path, whose string, n *node) Rate {
	if n.kind == list || n.kind == mapping || n.kind == absent {
		r.wrongTypeAt(path, n, wantRate)
		return Rate{}
	}
	limit, err := bucket.NewLimit(n.value, 0)
	if err != nil {
		if r.windows {
			_, err = bucket.ParseQuota(n.value) // which knows what else says it
		}
		message, mend := split(err.Error())
		if syntax, ok := errors.AsType[*bucket.SyntaxError](err); ok {
			_, mend = split(syntax.Problem)
		}
		r.add(BadRate, n.position, path, whose+": "+message, mend, err)
		return Rate{}
	}
	return Rate{Text: n.value, Limit: limit, Place: r.place(n.position, path)}
}

// taskRate reads a task's rate, or its list of rates.
func (s *section) taskRate(whose string) (Rate, []Rate) {
	const key = "rate_limit"
	if e, given := s.find(key); given && e.of.kind == list && !s.windows {
		s.known = append(s.known, key)
		return Rate{}, s.rateList(key, whose, e.of)
	}
	return s.rate(key, whose), nil
}

// rateList reads rates whose periods differ: each has a bucket of its own,
// which its period names.
func (s *section) rateList(key, whose string, of *node) []Rate {
	const form = `as in [{rate: 5/s, burst: 10}, 100/m]`
	path := join(s.path, key)
	if e, given := s.entry("burst"); given {
		s.fault(BadBurst, e.at, join(s.path, "burst"), whose+": a burst beside a list of rates", "give each rate its own, "+form)
	}
	if len(of.items) == 0 {
		s.fault(BadRate, of.position, path, whose+": the list of rates is empty", "name at least one, "+form)
	}
	mode := s.deferMode(key, whose)
	var out []Rate
	for i, item := range of.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		var r Rate
		if item.kind == mapping {
			r = s.rateParts(at, key, whose, item)
		} else {
			r = s.oneRate(at, whose, item)
		}
		if r.IsZero() {
			continue
		}
		samePeriod := func(other Rate) bool { return other.Limit.Rate.Period() == r.Limit.Rate.Period() }
		if j := slices.IndexFunc(out, samePeriod); j >= 0 {
			s.fault(BadRate, position{r.Place.Line, r.Place.Column}, r.Place.Key,
				fmt.Sprintf("%s: %s and %s have the same period", whose, quote(out[j].Text), quote(r.Text)), "keep the smaller")
			continue
		}
		r.Defer = mode
		out = append(out, r)
	}
	return out
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
