package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/cron"
)

func TestWhatIsNoScheduleIsRefusedWithItsMend(t *testing.T) {
	t.Parallel()
	const five = `use five fields, minute hour day month weekday, as in "0 3 * * *"`
	const interval = `use whole seconds from 1s to 366 days, as in @every 10m`
	for _, c := range []struct{ text, zone, want string }{
		{"", "UTC", `cron "": it is empty: ` + five},
		{" \t\n", "UTC", `cron " \t\n": it is empty: ` + five},
		{"* * * *", "UTC", `cron "* * * *": fields found: 4: use five, minute hour day month weekday, as in "0 3 * * *"`},
		{"* * * * * *", "UTC", `cron "* * * * * *": fields found: 6: use five, minute hour day month weekday, as in "0 3 * * *"`},
		{"60 * * * *", "UTC", `cron "60 * * * *": minute "60": end of range (60) above maximum (59): use 0 to 59, as in "30" or "*/15"`},
		{"* 24 * * *", "UTC", `cron "* 24 * * *": hour "24": end of range (24) above maximum (23): use 0 to 23, as in "3" or "9-17"`},
		{"0 0 0 * *", "UTC", `cron "0 0 0 * *": day "0": beginning of range (0) below minimum (1): use 1 to 31, as in "1" or "1,15"`},
		{"0 0 1 13 *", "UTC", `cron "0 0 1 13 *": month "13": end of range (13) above maximum (12): use 1 to 12 or jan to dec, as in "1" or "jun-aug"`},
		{"0 0 1 1 7", "UTC", `cron "0 0 1 1 7": weekday "7": end of range (7) above maximum (6): use 0 (Sunday) to 6 or sun to sat, as in "mon-fri"`},
		{"0 0 * * fry", "UTC", `cron "0 0 * * fry": weekday "fry": failed to parse int from fry: use 0 (Sunday) to 6 or sun to sat, as in "mon-fri"`},
		{"5-3 * * * *", "UTC", `cron "5-3 * * * *": minute "5-3": beginning of range (5) beyond end of range (3): use 0 to 59, as in "30" or "*/15"`},
		{"*/70 * * * *", "UTC", `cron "*/70 * * * *": minute "*/70": a step of 70 reaches no second value: use 0 to 59, as in "30" or "*/15"`},
		{"*/0 * * * *", "UTC", `cron "*/0 * * * *": minute "*/0": step of range should be a positive number: use 0 to 59, as in "30" or "*/15"`},
		{"0 */24 * * *", "UTC", `cron "0 */24 * * *": hour "*/24": a step of 24 reaches no second value: use 0 to 23, as in "3" or "9-17"`},
		{"*-5 * * * *", "UTC", `cron "*-5 * * * *": minute "*-5": it cannot be read: use 0 to 59, as in "30" or "*/15"`},
		{"1,,2 * * * *", "UTC", `cron "1,,2 * * * *": minute "1,,2": it cannot be read: use 0 to 59, as in "30" or "*/15"`},
		{", * * * *", "UTC", `cron ", * * * *": minute ",": it cannot be read: use 0 to 59, as in "30" or "*/15"`},
		{"+5 * * * *", "UTC", `cron "+5 * * * *": minute "+5": it cannot be read: use 0 to 59, as in "30" or "*/15"`},
		{"０ * * * *", "UTC", `cron "０ * * * *": minute "０": it cannot be read: use 0 to 59, as in "30" or "*/15"`},
		{strings.Repeat(",", 10_000), "UTC", `cron "` + strings.Repeat(",", 64) + `"...: it has 10000 bytes: use at most 255`},
		{"0 0 30 2 *", "UTC", `cron "0 0 30 2 *": no month has such a day, so it never comes: use another day or month`},
		{"0 0 31 4,jun,9,11 *", "UTC", `cron "0 0 31 4,jun,9,11 *": no month has such a day, so it never comes: use another day or month`},
		{"@reboot", "UTC", `cron "@reboot": unknown: use five fields, or one of @hourly, @daily, @weekly, @monthly, @yearly and @every`},
		{"@daily 5", "UTC", `cron "@daily 5": unknown: use five fields, or one of @hourly, @daily, @weekly, @monthly, @yearly and @every`},
		{"@every", "", `cron "@every": one time follows @every: ` + interval},
		{"@every 1m 30s", "", `cron "@every 1m 30s": one time follows @every: ` + interval},
		{"@every day", "", `cron "@every day": "day" is not a time: ` + interval},
		{"@every 10", "", `cron "@every 10": "10" is not a time: ` + interval},
		{"@every 0s", "", `cron "@every 0s": 0s is no interval: ` + interval},
		{"@every -1s", "", `cron "@every -1s": -1s is no interval: ` + interval},
		{"@every 500ms", "", `cron "@every 500ms": 500ms is no interval: ` + interval},
		{"@every 1500ms", "", `cron "@every 1500ms": 1500ms is no interval: ` + interval},
		{"@every 8785h", "", `cron "@every 8785h": 8785h is no interval: ` + interval},
		{"@every 10m", "Mars/Base", `timezone "Mars/Base": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"TZ=UTC", "", `cron "TZ=UTC": no fields behind TZ=: use five, as in "0 3 * * *"`},
		{"CRON_TZ=", "", `cron "CRON_TZ=": no fields behind CRON_TZ=: use five, as in "0 3 * * *"`},
		{"TZ=TZ=TZ=", "", `cron "TZ=TZ=TZ=": no fields behind TZ=: use five, as in "0 3 * * *"`},
		{"TZ= 0 3 * * *", "", `no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"TZ=TZ= 0 3 * * *", "", `timezone "TZ=": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"TZ=UTC 0 3 * * *", "UTC", `cron "TZ=UTC 0 3 * * *": it names a zone beside the timezone "UTC": keep one of the two`},
		{"0 3 * * *", "", `no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"@daily", "", `no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"0 3 * * *", "Local", `timezone "Local": it is another one on each machine: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"0 3 * * *", "+02:00", `timezone "+02:00": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"0 3 * * *", "../etc/passwd", `timezone "../etc/passwd": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"0 3 * * *", " UTC", `timezone " UTC": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
	} {
		_, err := cron.Parse(c.text, c.zone)
		require.EqualError(t, err, c.want)
		require.Equal(t, !strings.HasPrefix(c.want, "cron "), errors.Is(err, cron.ErrZone), c.want)
	}
}

func TestASpecIsKeptAsItWasWrittenApartFromBlanks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, zone, cron, in string }{
		{"0 3 * * *", "Europe/Paris", "0 3 * * *", "Europe/Paris"},
		{"  0   3 *\t* MON-fri\n", "UTC", "0 3 * * MON-fri", "UTC"},
		{"CRON_TZ=Europe/Berlin 0 7 * * *", "", "0 7 * * *", "Europe/Berlin"},
		{"TZ=Asia/Kathmandu\t0 7 * * *", "", "0 7 * * *", "Asia/Kathmandu"},
		{"*/15 9-17 1,15 jan-mar ?", "UTC", "*/15 9-17 1,15 jan-mar ?", "UTC"},
		{"0 0 29 2 *", "UTC", "0 0 29 2 *", "UTC"},
		{"0 0 31 4 mon", "UTC", "0 0 31 4 mon", "UTC"}, // or a Monday
		{"@hourly", "UTC", "@hourly", "UTC"},
		{"@every  1h30m", "", "@every 1h30m", ""},
		{"@every 10m", "Europe/Paris", "@every 10m", "Europe/Paris"},
	} {
		s, err := cron.Parse(c.text, c.zone)
		require.NoError(t, err)
		require.Equal(t, []string{c.cron, c.in}, []string{s.Cron(), s.Zone()})
		again, err := cron.Parse(s.Cron(), s.Zone())
		require.NoError(t, err)
		require.Equal(t, s, again)
	}
}

// Whatever is written, there is an answer, and whatever is accepted goes on for
// ever, in order.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"0 3 * * *", "*/15 1 * * *", "0 0 29 2 *", "0 0 1 1 7", "@every 10m", "@every 500ms", "@daily", "TZ=UTC", "CRON_TZ=", "TZ=TZ=TZ=",
		"CRON_TZ=Europe/Berlin 0 7 * * *", "TZ=UTC\t* * * * *", "*-5 * * * *", "1,,2 * * * *", "*/70 * * * *", "59 23 31 12 sun", "* * * * * *",
	} {
		f.Add(text, "America/New_York", int64(1_741_500_000))
		f.Add(text, "", int64(-1))
	}
	f.Add("30 2 * * *", "Australia/Lord_Howe", int64(1_759_590_000))
	f.Add("0 0 30 12 *", "Pacific/Apia", int64(1_325_239_200))
	f.Fuzz(func(t *testing.T, text, zone string, from int64) {
		s, err := cron.Parse(text, zone)
		if err != nil {
			require.Contains(t, err.Error(), ": ", "it says what to do")
			return
		}
		again, err := cron.Parse(s.Cron(), s.Zone())
		require.NoError(t, err)
		require.Equal(t, s, again)
		at := time.Unix(from%(1<<34), 1)
		s = s.From(at)
		first := s.Next(at)
		for next := first; next.Sub(first) < time.Hour; {
			require.True(t, next.After(at), "%s: %s comes after %s", s, next, at)
			require.True(t, s.Next(next.Add(-time.Microsecond)).Equal(next), "%s: %s is found from right before it", s, next)
			at, next = next, s.Next(next)
		}
		require.True(t, s.Latest(first, at).Equal(at), "%s: %s is the latest at itself", s, at)
	})
}
