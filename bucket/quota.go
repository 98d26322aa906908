package bucket

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxQuota is the greatest count of a [Quota].
const MaxQuota int64 = 1_000_000_000

// A Quota is a limit of the fixed-window strategy: so many starts in each window
// of a period. A count of 0 lets nothing start.
type Quota struct {
	Count  int64         // 0 to MaxQuota
	Period time.Duration // whole microseconds, 1 second to 366 days
}

// NewQuota returns the quota of count (0 to [MaxQuota]) in each period (1 second
// to 366 days, cut to whole microseconds).
func NewQuota(count int64, period time.Duration) (Quota, error) {
	switch {
	case count < 0 || count > MaxQuota:
		return Quota{}, fmt.Errorf("limit %d: use a whole number from 0 (nothing starts) to %d", count, MaxQuota)
	case period < time.Second || period.Microseconds() > maxPeriod:
		return Quota{}, fmt.Errorf("per %v: use 1 second to 366 days, as in 60 or 90s", period)
	}
	return Quota{count, period.Truncate(time.Microsecond)}, nil
}

// ParseQuota reads a quota written as a rate, such as "100/m" (see [Parse]). Its
// count has to be whole: nothing carries a fraction from one window to the next.
func ParseQuota(s string) (Quota, error) {
	r, err := Parse(s)
	if err != nil {
		if problem := onlyQuota(s); problem != "" {
			err = &SyntaxError{s, problem}
		}
		return Quota{}, err
	}
	if r.count%Token != 0 {
		return Quota{}, &SyntaxError{s, fmt.Sprintf(`fixed windows count whole starts: use a whole number, as in "%d/%s"`, r.count/Token, r.PeriodString())}
	}
	return Quota{r.count / Token, r.Period()}, nil
}

// onlyQuota says of a text that is no rate how a quota says what it means; "": none
// can.
func onlyQuota(s string) (problem string) {
	count, period, _ := strings.Cut(s, "/")
	count, period = trimBlanks(count), trimBlanks(period)
	if _, bad := parsePeriod(period); bad == "" && strings.Trim(count, "0") == "" && count != "" {
		return fmt.Sprintf(`count %s is below 1: to let nothing start, use "weir limits pause", or an entry under "limits" with a limit of 0 and a per`, quote(count))
	}
	if d, err := time.ParseDuration(period); err == nil && isDigits(count) && d >= time.Second {
		return fmt.Sprintf(`unknown period %s: use an entry under "limits" with a limit of %s and a per of %s`, quote(period), count, period)
	}
	return ""
}

// WithCount returns the quota with the count of a rate, whose period has to be the
// quota's own.
func (q Quota) WithCount(rate string) (Quota, error) {
	count, period, _ := strings.Cut(rate, "/")
	text := rate
	d, err := time.ParseDuration(trimBlanks(period))
	odd := err == nil && (d%time.Second != 0 || q.Period%time.Second != 0)
	if odd { // no rate has such a period
		text = count + "/s"
	}
	other, err := ParseQuota(text)
	switch {
	case err != nil:
		return Quota{}, err
	case odd && d != q.Period || !odd && other.Period != q.Period:
		return Quota{}, fmt.Errorf("rate %s: the period of a window stays: use a count per %s, as in %q", quote(rate), q.periodString(), "100/"+q.periodString())
	}
	return Quota{other.Count, q.Period}, nil
}

// Overridden returns the quota with the count of an operator's rate, whatever the
// period was when that was set.
func (q Quota) Overridden(rate string) (Quota, error) {
	count, _, _ := strings.Cut(rate, "/")
	over, err := ParseQuota(count + "/s")
	if err != nil {
		return Quota{}, err
	}
	return Quota{over.Count, q.Period}, nil
}

// String returns the quota as a rate is written: "100/m", "0/m", "5/1.5s".
func (q Quota) String() string {
	if q == (Quota{}) {
		return ""
	}
	return strconv.FormatInt(q.Count, 10) + "/" + q.periodString()
}

// periodString is that of a rate, where a rate may have the period.
func (q Quota) periodString() string {
	if r := (Rate{Token, q.Period.Microseconds()}); q.Period%time.Second == 0 {
		return r.PeriodString()
	}
	return q.Period.String()
}

// Bound returns how many starts one window can have if workers processes claim
// under the quota (at least 1) and every start is counted: the count, and one more
// for each process but the first, which may take the last place at the same time.
func (q Quota) Bound(workers int64) int64 {
	if q.Count <= 0 {
		return 0
	}
	return q.Count + max(workers, 1) - 1
}

// ForWindow returns the greatest count whose bound in one window is at most
// ceiling, if workers processes claim: 0 where there is none.
func ForWindow(ceiling, workers int64) int64 { return max(ceiling-(max(workers, 1)-1), 0) }

// ForInterval returns the greatest count whose bound in any interval as long as a
// period is at most ceiling, if workers processes claim: 0 where there is none. Such
// an interval may have the end of one window and the beginning of the next.
func ForInterval(ceiling, workers int64) int64 { return max(ceiling/2-(max(workers, 1)-1), 0) }
