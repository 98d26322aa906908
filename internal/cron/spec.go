package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // so that zones are known where the system has none, as in an empty container

	robfig "github.com/robfig/cron/v3"
)

// ErrZone is every error of [Parse] that lies in the zone.
var ErrZone = errors.New("time zone")

// A Spec is when something is due. Make one with Parse.
type Spec struct {
	text string
	zone *time.Location // nil: an interval without one

	every  time.Duration // 0: the fields
	anchor int64         // an interval counts from here, in microseconds since 1970

	// A bit for each value, and robfig's bit where a field is "*".
	minutes, hours, days, months, weekdays uint64
}

// The bounds of a spec.
const (
	longestText   = 255
	shortestEvery = time.Second
	longestEvery  = 366 * 24 * time.Hour
)

const example = `as in "0 3 * * *"`

// Parse reads a spec and the name of its zone. The fields need one; it may
// also stand before them, as in "CRON_TZ=Europe/Paris 0 3 * * *". An error ends
// in its mend.
func Parse(text, zone string) (Spec, error) {
	s, err := parse(text, zone)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, ErrZone):
		return Spec{}, err
	}
	return Spec{}, fmt.Errorf("cron %s: %w", quote(text), err)
}

func parse(text, zone string) (s Spec, err error) {
	if len(text) > longestText {
		return s, fmt.Errorf("it has %d bytes: use at most %d", len(text), longestText)
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return s, errors.New("it is empty: use five fields, minute hour day month weekday, " + example)
	}
	if prefix, named, ok := strings.Cut(fields[0], "="); ok && (prefix == "TZ" || prefix == "CRON_TZ") {
		if zone != "" {
			return s, fmt.Errorf("it names a zone beside the timezone %s: keep one of the two", quote(zone))
		}
		if fields, zone = fields[1:], named; len(fields) == 0 {
			return s, fmt.Errorf("no fields behind %s=: use five, %s", prefix, example)
		}
	}
	s.text = strings.Join(fields, " ")
	if fields[0] == "@every" {
		if s.every, err = parseEvery(fields[1:]); err != nil || zone == "" {
			return s, err
		}
		s.zone, err = loadZone(zone)
		return s, err
	}
	if s, err = s.withFields(fields); err != nil {
		return s, err
	}
	s.zone, err = loadZone(zone)
	return s, err
}

func parseEvery(words []string) (time.Duration, error) {
	const mend = "use whole seconds from 1s to 366 days, as in @every 10m"
	if len(words) != 1 {
		return 0, errors.New("one time follows @every: " + mend)
	}
	d, err := time.ParseDuration(words[0])
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is not a time: %s", quote(words[0]), mend)
	case d < shortestEvery || d > longestEvery || d%time.Second != 0:
		return 0, fmt.Errorf("%s is no interval: %s", words[0], mend)
	}
	return d, nil
}

// loadZone refuses what the time package takes for the zone of the host, or
// for none.
func loadZone(name string) (*time.Location, error) {
	problem := "timezone " + quote(name) + ": unknown"
	switch name {
	case "":
		problem = "no timezone"
	case "Local":
		problem = `timezone "Local": it is another one on each machine`
	default:
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil, &zoneError{problem + `: name one of the IANA database, as in "Europe/Paris" or "UTC"`}
}

type zoneError struct{ text string }

func (e *zoneError) Error() string   { return e.text }
func (*zoneError) Is(err error) bool { return err == ErrZone }

// fields are a spec's, in order.
var fields = [5]struct {
	name string
	most int // the greatest step that reaches a second value
	mend string
}{
	{"minute", 59, `use 0 to 59, as in "30" or "*/15"`},
	{"hour", 23, `use 0 to 23, as in "3" or "9-17"`},
	{"day", 30, `use 1 to 31, as in "1" or "1,15"`},
	{"month", 11, `use 1 to 12 or jan to dec, as in "1" or "jun-aug"`},
	{"weekday", 6, `use 0 (Sunday) to 6 or sun to sat, as in "mon-fri"`},
}

var parser = robfig.NewParser(robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow | robfig.Descriptor)

func (s Spec) withFields(words []string) (Spec, error) {
	if words[0][0] != '@' {
		if len(words) != len(fields) {
			return s, fmt.Errorf("fields found: %d: use five, minute hour day month weekday, %s", len(words), example)
		}
		for i, word := range words {
			if problem := fieldProblem(i, word); problem != "" {
				return s, fmt.Errorf("%s %s: %s: %s", fields[i].name, quote(word), problem, fields[i].mend)
			}
		}
	}
	parsed, err := parser.Parse(s.text)
	spec, ok := parsed.(*robfig.SpecSchedule)
	if err != nil || !ok {
		return s, errors.New("unknown: use five fields, or one of @hourly, @daily, @weekly, @monthly, @yearly and @every")
	}
	s.minutes, s.hours, s.days, s.months, s.weekdays = spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow
	if !s.comes() {
		return s, errors.New("no month has such a day, so it never comes: use another day or month")
	}
	return s, nil
}

// element is one of a field's list. robfig's parser passes over what stands
// behind a star, and over elements that are missing.
var element = regexp.MustCompile(`^(?:[*?]|(?:[0-9]{1,9}|[A-Za-z]{3})(?:-(?:[0-9]{1,9}|[A-Za-z]{3}))?)(?:/([0-9]{1,9}))?$`)

// fieldProblem says what is wrong with a field, the others being well.
func fieldProblem(i int, word string) string {
	for part := range strings.SplitSeq(word, ",") {
		found := element.FindStringSubmatch(part)
		if found == nil {
			return "it cannot be read"
		}
		if step, _ := strconv.Atoi(found[1]); step > fields[i].most {
			return fmt.Sprintf("a step of %d reaches no second value", step)
		}
	}
	alone := [len(fields)]string{"*", "*", "*", "*", "*"}
	alone[i] = word
	if _, err := parser.Parse(strings.Join(alone[:], " ")); err != nil {
		problem, _, _ := strings.Cut(err.Error(), ": ")
		return problem
	}
	return ""
}

// star is robfig's bit of a field that is "*".
const star = 1 << 63

// comes tells whether there is a date that the days and months allow. Where
// weekdays count too, there is one in every month.
func (s Spec) comes() bool {
	if s.days&star != 0 || s.weekdays&star == 0 {
		return true
	}
	const leapYear = 2024
	for month := time.January; month <= time.December; month++ {
		length := time.Date(leapYear, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
		if has(s.months, int(month)) && bits.TrailingZeros64(s.days) <= length {
			return true
		}
	}
	return false
}

func has(set uint64, value int) bool { return set>>value&1 != 0 }

// Cron is the spec as it was written, without a zone and with single blanks.
func (s Spec) Cron() string { return s.text }

// Zone is the name of the zone; "" for an interval without one.
func (s Spec) Zone() string {
	if s.zone == nil {
		return ""
	}
	return s.zone.String()
}

// String is the spec with its zone.
func (s Spec) String() string {
	if s.zone == nil {
		return s.text
	}
	return s.text + " " + s.zone.String()
}

// Every is the interval of "@every"; 0: it has none.
func (s Spec) Every() time.Duration { return s.every }

// quote shows a text that may hold anything in a message.
func quote(s string) string {
	const shown = 64
	if len(s) > shown {
		return strconv.Quote(s[:shown]) + "..."
	}
	return strconv.Quote(s)
}
