package bucket

import (
	"fmt"
	"strconv"
	"strings"
)

// A SyntaxError says why a string is not a rate. A caller that knows whose rate it
// was (a task, a queue, a limit) puts that name in front.
type SyntaxError struct {
	Input   string // the string as it was given
	Problem string // what is wrong with it, and what a right one looks like
}

// Error quotes the input, says what is wrong with it and shows a right one:
//
//	rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("rate %s: %s", quote(e.Input), e.Problem)
}

// Parse reads a rate written as COUNT/PERIOD, such as "100/m", "1.5/s" or
// "5/30s". Blanks (spaces and tabs) may stand around either side.
//
// COUNT is a plain decimal number from 1 to 1000000000 with up to six decimals:
// ASCII digits and at most one point. PERIOD is an optional whole multiplier and a
// unit in lower case, in all at most 366 days:
//
//	s  sec   second  seconds
//	m  min   minute  minutes
//	h  hr    hour    hours
//	d  day   days
//
// Everything else is refused with a [*SyntaxError]; nothing is guessed and no part
// of the string is skipped.
func Parse(s string) (Rate, error) {
	rate, problem := parse(s)
	if problem != "" {
		return Rate{}, &SyntaxError{Input: s, Problem: problem}
	}
	return rate, nil
}

func parse(s string) (rate Rate, problem string) {
	before, after, found := strings.Cut(s, "/")
	switch {
	case trimBlanks(s) == "":
		return Rate{}, `it is empty: write a count and a period, as in "100/m"`
	case !found:
		return Rate{}, `no "/": write a count and a period, as in "100/m"`
	case strings.Contains(after, "/"):
		return Rate{}, `more than one "/": write one count and one period, as in "100/m"`
	}
	if rate.count, problem = parseCount(trimBlanks(before)); problem != "" {
		return Rate{}, problem
	}
	if rate.period, problem = parsePeriod(trimBlanks(after)); problem != "" {
		return Rate{}, problem
	}
	return rate, ""
}

// parseCount reads a count into millionths. strconv.ParseFloat would be shorter,
// but it takes nan, inf, signs, exponents, hexadecimal and underscores, and rounds.
func parseCount(s string) (millionths int64, problem string) {
	whole, fraction, point := strings.Cut(s, ".")
	switch {
	case s == "":
		return 0, `no count before "/": write one, as in "100/m"`
	case !isDigits(whole) || point && !isDigits(fraction):
		return 0, fmt.Sprintf(`count %s is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`, quote(s))
	case len(fraction) > 6:
		return 0, fmt.Sprintf(`count %s has more than six decimals: use at most six, as in "1.5/s"`, quote(s))
	}
	// The digits of the count in millionths: always a whole number.
	millionths, ok := parseWhole(whole+fraction+"000000"[len(fraction):], maxCount)
	switch {
	case !ok:
		return 0, fmt.Sprintf(`count %s is above 1000000000: use at most that, as in "1000000000/s"`, quote(s))
	case millionths < Token:
		return 0, fmt.Sprintf(`count %s is below 1: use at least 1 and a longer period, as in "1/15m"`, quote(s))
	}
	return millionths, ""
}

// parsePeriod reads a period into microseconds.
func parsePeriod(s string) (micros int64, problem string) {
	name := strings.TrimLeft(s, "0123456789")
	multiplier := s[:len(s)-len(name)]
	unit := unitMicros(name)
	switch {
	case s == "":
		return 0, `no period after "/": use s, m, h or d, as in "100/m"`
	case name == "":
		return 0, fmt.Sprintf(`period %s has no unit: use s, m, h or d, as in "5/30s"`, quote(s))
	case unit == 0 && unitMicros(strings.ToLower(name)) != 0:
		return 0, fmt.Sprintf(`unknown period %s: units are lower case, as in "100/m"`, quote(s))
	case unit == 0:
		return 0, fmt.Sprintf(`unknown period %s: use s, m, h or d, as in "100/m"`, quote(s))
	case multiplier == "":
		return unit, ""
	}
	n, ok := parseWhole(multiplier, maxPeriod/unit)
	switch {
	case !ok:
		return 0, fmt.Sprintf(`period %s is longer than 366 days: use at most that, as in "1/366d"`, quote(s))
	case n == 0:
		return 0, fmt.Sprintf(`period %s is zero: use a multiplier of at least 1, as in "5/30s"`, quote(s))
	}
	return n * unit, ""
}

// unitMicros returns the length of a unit of time, or 0 where there is none of
// that name.
func unitMicros(name string) int64 {
	switch name {
	case "s", "sec", "second", "seconds":
		return second
	case "m", "min", "minute", "minutes":
		return minute
	case "h", "hr", "hour", "hours":
		return hour
	case "d", "day", "days":
		return day
	}
	return 0
}

// parseWhole reads ASCII digits, of any number, as a whole number up to limit.
func parseWhole(digits string, limit int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n <= limit
}

// isDigits reports whether s consists of ASCII digits, one at least.
func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// trimBlanks does not take away line ends: a rate with one is a mistake elsewhere.
func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// quote makes any bytes readable, and keeps an error message short.
func quote(s string) string {
	const enough = 64
	if len(s) > enough {
		return strconv.Quote(s[:enough]) + "..."
	}
	return strconv.Quote(s)
}
