package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/scheduler"
)

// otherStrategy refuses keys that only a strategy which is not the file's knows.
func (s *section) otherStrategy(name scheduler.StrategyName, keys ...string) {
	for _, key := range keys {
		if e, there := s.entry(key); there {
			s.fault(OtherStrategy, e.at, join(s.path, key), fmt.Sprintf("%q belongs to strategy %s", key, name), fmt.Sprintf("remove it, or write strategy: %s", name))
		}
	}
}

func (s *section) refreshInterval() time.Duration {
	if !s.windows {
		s.otherStrategy(scheduler.FixedWindow, "refresh_interval")
		return 0
	}
	d, _ := s.duration("refresh_interval", time.Millisecond, time.Minute)
	return d
}

// windowRate reads the rate of a window: one, with a whole count.
func (s *section) windowRate(key, whose string) Rate {
	s.otherStrategy(scheduler.TokenBucket, "burst", "defer")
	n, given := s.value(key, wantRate)
	if !given {
		return Rate{}
	}
	path := join(s.path, key)
	switch n.kind {
	case list:
		s.fault(OtherStrategy, n.position, path, whose+": a list of rates belongs to strategy token_bucket", `keep one, and write an entry of its own under "limits" for each of the others`)
		return Rate{}
	case mapping:
		s.fault(OtherStrategy, n.position, path, whose+": a rate with a burst belongs to strategy token_bucket", `write the rate alone, as in "100/m"`)
		return Rate{}
	default:
	}
	out := s.oneRate(path, whose, n)
	if out.IsZero() {
		return out
	}
	quota, err := bucket.ParseQuota(out.Text)
	if err != nil {
		message, mend := split(err.Error())
		s.add(BadCount, n.position, path, whose+": "+message, mend, err)
		return Rate{}
	}
	out.Limit, out.Quota = bucket.Limit{}, quota
	return out
}

// window reads a shared limit's window: a rate, or a limit and its period.
func (s *section) window(e entry, whose string) Rate {
	const form = "as in rate: 100/m, or limit: 100 with per: 60"
	limit, hasLimit := s.entry("limit")
	_, hasPer := s.entry("per")
	if !hasLimit && !hasPer {
		return s.windowRate("rate", whose)
	}
	place := s.place(e.at, s.path)
	switch {
	case s.has("rate"):
		s.entry("rate")
		s.fault(BadCount, e.at, s.path, whose+": a rate, and a limit or a period beside it", "keep one form, "+form)
		return Rate{}
	case !hasPer:
		s.fault(MissingKey, limit.at, s.path, whose+": a limit without its period", "add one, "+form)
		return Rate{}
	case !hasLimit:
		s.fault(MissingKey, e.at, s.path, whose+": a period without its limit", "add one, "+form)
		return Rate{}
	}
	s.otherStrategy(scheduler.TokenBucket, "burst", "defer")
	count, _, countOK := s.whole("limit", BadCount, 0, bucket.MaxQuota)
	per, perOK := s.per(whose)
	if !countOK || !perOK {
		return Rate{}
	}
	place.Line, place.Column, place.Key = limit.at.line, limit.at.column, join(s.path, "limit")
	return Rate{Quota: bucket.Quota{Count: count, Period: per}, Place: place}
}

// per reads a period: whole seconds, or a time of at least one second.
func (s *section) per(whose string) (time.Duration, bool) {
	const (
		key     = "per"
		longest = 366 * 24 * time.Hour
		want    = "whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d"
	)
	n, ok := s.value(key, want)
	if !ok {
		return 0, false
	}
	written := n.value
	switch {
	case n.kind != number && n.kind != text:
		s.wrongType(key, n, want)
		return 0, false
	case n.kind == number && strings.Trim(written, "0123456789") == "":
		written += "s"
	}
	if days, ok := strings.CutSuffix(written, "d"); ok && len(days) <= 3 && strings.Trim(days, "0123456789") == "" {
		n, _ := strconv.Atoi(days) // an empty text is 0, which is too short
		written = strconv.Itoa(24*n) + "h"
	}
	d, err := time.ParseDuration(written)
	if err != nil || d < time.Second || d > longest || d%time.Microsecond != 0 {
		s.fault(BadPeriod, n.position, join(s.path, key), whose+": per "+quote(n.value), "use "+want)
		return 0, false
	}
	return d, true
}

func (s *section) exact() bool {
	n, ok := s.value("exact", "true or false")
	if !ok {
		return false
	}
	if n.kind != boolean {
		s.wrongType("exact", n, "true or false")
		return false
	}
	return strings.EqualFold(n.value, "true")
}
