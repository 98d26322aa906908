package bucket

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Token is one token in the unit that counts, levels and capacities are kept in:
// millionths.
const Token int64 = 1_000_000

const (
	second = 1_000_000 // in microseconds
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour

	maxCount  = 1_000_000_000 * Token
	maxPeriod = 366 * day
)

// A Rate is a number of starts per period, such as 100 a minute. It comes from
// [Parse], or from [FromParts] for a stored one; the zero value means "no rate".
//
// Rates are comparable: 60/60s equals 60/m. They do not equal 1/s, which gives as
// many starts in the long run and a sixtieth of the burst.
type Rate struct {
	count  int64 // millionths of a start, 1e6 to 1e15
	period int64 // microseconds, whole seconds, 1 s to 366 days
}

// FromParts returns the rate of countMillionths (1e6 to 1e15, millionths of a
// start) per periodMicros (microseconds; whole seconds, 1 second to 366 days). It
// is the inverse of [Rate.Count] and [Rate.Period], for reading back a stored rate,
// and refuses everything that [Parse] could not have made.
func FromParts(countMillionths, periodMicros int64) (Rate, error) {
	switch {
	case countMillionths < Token || countMillionths > maxCount:
		return Rate{}, fmt.Errorf("rate of %d millionths: the count must be from %d to %d",
			countMillionths, Token, maxCount)
	case periodMicros < second || periodMicros > maxPeriod || periodMicros%second != 0:
		return Rate{}, fmt.Errorf("rate per %d microseconds: the period must be whole seconds, from 1 second to 366 days",
			periodMicros)
	}
	return Rate{count: countMillionths, period: periodMicros}, nil
}

// IsZero reports whether r is the zero value, "no rate".
func (r Rate) IsZero() bool { return r == Rate{} }

// Count returns the starts per period in millionths, 1e6 to 1e15 (0 for no rate).
func (r Rate) Count() int64 { return r.count }

// Period returns the period, whole seconds from 1 second to 366 days (0 for no
// rate).
func (r Rate) Period() time.Duration { return time.Duration(r.period) * time.Microsecond }

// String returns the canonical form, which [Parse] reads back to the same rate:
// no trailing zeros in the count, and the period as [Rate.PeriodString] writes it.
// "60/60s" becomes "60/m" and "1.50/s" becomes "1.5/s". No rate is "".
func (r Rate) String() string {
	if r.IsZero() {
		return ""
	}
	return decimal(r.count) + "/" + r.PeriodString()
}

// PeriodString returns the canonical period alone, such as "m" or "30s": in the
// largest unit of s, m, h and d that divides it, a multiplier of 1 left out. No
// rate is "".
func (r Rate) PeriodString() string {
	if r.IsZero() {
		return ""
	}
	unit, name := int64(second), "s"
	switch {
	case r.period%day == 0:
		unit, name = day, "d"
	case r.period%hour == 0:
		unit, name = hour, "h"
	case r.period%minute == 0:
		unit, name = minute, "m"
	}
	if r.period == unit {
		return name
	}
	return strconv.FormatInt(r.period/unit, 10) + name
}

// MarshalText returns the canonical form, as [Rate.String] does. No rate is an
// empty text, which [Rate.UnmarshalText] refuses: leave it out instead.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a rate as [Parse] does. On an error, a [*SyntaxError], r
// keeps its value.
func (r *Rate) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*r = parsed
	return nil
}

// decimal writes millionths, which are not negative, as a plain decimal number.
func decimal(millionths int64) string {
	whole := strconv.FormatInt(millionths/Token, 10)
	fraction := strings.TrimRight(fmt.Sprintf("%06d", millionths%Token), "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}
