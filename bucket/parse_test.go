package bucket_test

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
)

// accepted lists what is read as a rate, with the count in millionths, the period in
// microseconds and the canonical form.
var accepted = []struct {
	input         string
	count, period int64
	canonical     string
}{
	{"100/m", 100_000_000, minute, "100/m"},
	{"10/s", 10_000_000, second, "10/s"},
	{"3600/h", 3_600_000_000, hour, "3600/h"},
	{"100/d", 100_000_000, day, "100/d"},
	{"1/s", 1_000_000, second, "1/s"},

	{"100 / m", 100_000_000, minute, "100/m"},
	{" 100/m", 100_000_000, minute, "100/m"},
	{"100/m ", 100_000_000, minute, "100/m"},
	{"\t100\t/\tm\t", 100_000_000, minute, "100/m"},

	{"100/sec", 100_000_000, second, "100/s"},
	{"100/second", 100_000_000, second, "100/s"},
	{"100/seconds", 100_000_000, second, "100/s"},
	{"100/min", 100_000_000, minute, "100/m"},
	{"100/minute", 100_000_000, minute, "100/m"},
	{"100/minutes", 100_000_000, minute, "100/m"},
	{"100/hr", 100_000_000, hour, "100/h"},
	{"100/hour", 100_000_000, hour, "100/h"},
	{"100/hours", 100_000_000, hour, "100/h"},
	{"100/day", 100_000_000, day, "100/d"},
	{"100/days", 100_000_000, day, "100/d"},

	{"5/30s", 5_000_000, 30 * second, "5/30s"},
	{"1/15m", 1_000_000, 15 * minute, "1/15m"},
	{"3/7s", 3_000_000, 7 * second, "3/7s"},
	{"60/60s", 60_000_000, minute, "60/m"},
	{"1/1m", 1_000_000, minute, "1/m"},
	{"1/90s", 1_000_000, 90 * second, "1/90s"},
	{"1/3600s", 1_000_000, hour, "1/h"},
	{"1/24hours", 1_000_000, day, "1/d"},
	{"1/2880minutes", 1_000_000, 2 * day, "1/2d"},
	{"1/007d", 1_000_000, 7 * day, "1/7d"},
	{"1/366d", 1_000_000, 366 * day, "1/366d"},
	{"1/31622400s", 1_000_000, 366 * day, "1/366d"},

	{"1.5/s", 1_500_000, second, "1.5/s"},
	{"1.5/m", 1_500_000, minute, "1.5/m"},
	{"1.5/h", 1_500_000, hour, "1.5/h"},
	{"1.50/s", 1_500_000, second, "1.5/s"},
	{"1.0/s", 1_000_000, second, "1/s"},
	{"1.000001/s", 1_000_001, second, "1.000001/s"},
	{"007/m", 7_000_000, minute, "7/m"},
	{"1000000000/s", 1_000_000_000_000_000, second, "1000000000/s"},
	{"1000000000.000000/s", 1_000_000_000_000_000, second, "1000000000/s"},
	{"999999999.999999/s", 999_999_999_999_999, second, "999999999.999999/s"},
}

// refused lists what is not a rate, with what the error says after the quoted input.
var refused = []struct{ input, problem string }{
	{``, `it is empty: write a count and a period, as in "100/m"`},
	{` `, `it is empty: write a count and a period, as in "100/m"`},
	{`100`, `no "/": write a count and a period, as in "100/m"`},
	{`100per m`, `no "/": write a count and a period, as in "100/m"`},
	{`100 m`, `no "/": write a count and a period, as in "100/m"`},
	{`100//m`, `more than one "/": write one count and one period, as in "100/m"`},
	{`100/m;5/h`, `more than one "/": write one count and one period, as in "100/m"`},

	{`/m`, `no count before "/": write one, as in "100/m"`},
	{`/`, `no count before "/": write one, as in "100/m"`},
	{`100/`, `no period after "/": use s, m, h or d, as in "100/m"`},
	{`100/ `, `no period after "/": use s, m, h or d, as in "100/m"`},

	{`100/mo`, `unknown period "mo": use s, m, h or d, as in "100/m"`},
	{`100/month`, `unknown period "month": use s, m, h or d, as in "100/m"`},
	{`100/monthgarbage`, `unknown period "monthgarbage": use s, m, h or d, as in "100/m"`},
	{`100/ms`, `unknown period "ms": use s, m, h or d, as in "100/m"`},
	{`100/us`, `unknown period "us": use s, m, h or d, as in "100/m"`},
	{`100/w`, `unknown period "w": use s, m, h or d, as in "100/m"`},
	{`100/m x`, `unknown period "m x": use s, m, h or d, as in "100/m"`},
	{`100/m;`, `unknown period "m;": use s, m, h or d, as in "100/m"`},
	{"100/m\n", `unknown period "m\n": use s, m, h or d, as in "100/m"`},
	{"100/m\r", `unknown period "m\r": use s, m, h or d, as in "100/m"`},
	{"100/m\x00", `unknown period "m\x00": use s, m, h or d, as in "100/m"`},
	{"100/\xff", `unknown period "\xff": use s, m, h or d, as in "100/m"`},
	{"100/\u00a0m", `unknown period "\u00a0m": use s, m, h or d, as in "100/m"`},
	{`5/30 s`, `unknown period "30 s": use s, m, h or d, as in "100/m"`},
	{`1/1.5s`, `unknown period "1.5s": use s, m, h or d, as in "100/m"`},
	{`1/-5s`, `unknown period "-5s": use s, m, h or d, as in "100/m"`},
	{`1/1m30s`, `unknown period "1m30s": use s, m, h or d, as in "100/m"`},
	{`1/３s`, `unknown period "３s": use s, m, h or d, as in "100/m"`},
	{`100/M`, `unknown period "M": units are lower case, as in "100/m"`},
	{`100/Minute`, `unknown period "Minute": units are lower case, as in "100/m"`},
	{`5/30S`, `unknown period "30S": units are lower case, as in "100/m"`},
	{`5/30`, `period "30" has no unit: use s, m, h or d, as in "5/30s"`},
	{`1/0s`, `period "0s" is zero: use a multiplier of at least 1, as in "5/30s"`},
	{`1/00d`, `period "00d" is zero: use a multiplier of at least 1, as in "5/30s"`},
	{`1/367d`, `period "367d" is longer than 366 days: use at most that, as in "1/366d"`},
	{`1/31622401s`, `period "31622401s" is longer than 366 days: use at most that, as in "1/366d"`},
	{`1/9223372036854775808d`, `period "9223372036854775808d" is longer than 366 days: use at most that, as in "1/366d"`},

	{`nan/s`, `count "nan" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`NaN/m`, `count "NaN" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`inf/h`, `count "inf" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`+Inf/s`, `count "+Inf" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1e400/s`, `count "1e400" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1e3/m`, `count "1e3" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`0x10/s`, `count "0x10" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1_000/s`, `count "1_000" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1,000/s`, `count "1,000" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1 000/s`, `count "1 000" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`-1/s`, `count "-1" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`-0/s`, `count "-0" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`+1/s`, `count "+1" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1./s`, `count "1." is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`.5/s`, `count ".5" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`./s`, `count "." is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`1.5.0/s`, `count "1.5.0" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{`１００/m`, `count "１００" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},
	{"\n100/m", `count "\n100" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`},

	{`0/s`, `count "0" is below 1: use at least 1 and a longer period, as in "1/15m"`},
	{`0/m`, `count "0" is below 1: use at least 1 and a longer period, as in "1/15m"`},
	{`0.0/h`, `count "0.0" is below 1: use at least 1 and a longer period, as in "1/15m"`},
	{`0.5/m`, `count "0.5" is below 1: use at least 1 and a longer period, as in "1/15m"`},
	{`0.999999/s`, `count "0.999999" is below 1: use at least 1 and a longer period, as in "1/15m"`},
	{`1.0000000/s`, `count "1.0000000" has more than six decimals: use at most six, as in "1.5/s"`},
	{`1.1234567/s`, `count "1.1234567" has more than six decimals: use at most six, as in "1.5/s"`},
	{`1000000001/s`, `count "1000000001" is above 1000000000: use at most that, as in "1000000000/s"`},
	{`1000000000.000001/s`, `count "1000000000.000001" is above 1000000000: use at most that, as in "1000000000/s"`},
	{`9007199254740993/s`, `count "9007199254740993" is above 1000000000: use at most that, as in "1000000000/s"`},
	{`9223372036854775807/m`, `count "9223372036854775807" is above 1000000000: use at most that, as in "1000000000/s"`},
	{`18446744073709551616/h`, `count "18446744073709551616" is above 1000000000: use at most that, as in "1000000000/s"`},
}

func TestParseReadsEveryAcceptedStringAsDocumented(t *testing.T) {
	t.Parallel()
	for _, test := range accepted {
		t.Run(test.input, func(t *testing.T) {
			t.Parallel()
			r, err := bucket.Parse(test.input)
			require.NoError(t, err)
			assert.Equal(t, test.count, r.Count(), "count")
			assert.Equal(t, test.period, r.Period().Microseconds(), "period")
			assert.Equal(t, test.canonical, r.String())
		})
	}
}

func TestParseRefusesEverythingElseAndSaysWhy(t *testing.T) {
	t.Parallel()
	for _, test := range refused {
		t.Run(test.input, func(t *testing.T) {
			t.Parallel()
			r, err := bucket.Parse(test.input)
			var syntax *bucket.SyntaxError
			require.ErrorAs(t, err, &syntax)
			assert.Equal(t, bucket.SyntaxError{Input: test.input, Problem: test.problem}, *syntax)
			assert.Equal(t, `rate `+strconv.Quote(test.input)+`: `+test.problem, err.Error())
			assert.True(t, r.IsZero())
			requireRightExample(t, syntax.Problem)
		})
	}
}

func TestABadCountIsRefusedWithEveryUnit(t *testing.T) {
	t.Parallel()
	for _, count := range []string{
		"nan", "NaN", "inf", "+Inf", "1e400", "0", "-0", "0.0", "0.5", "-1", "1e3", "0x10", "1_000",
		"9007199254740993", "9223372036854775807", "18446744073709551616",
	} {
		for _, unit := range []string{"s", "m", "h", "d", "30s"} {
			_, err := bucket.Parse(count + "/" + unit)
			assert.Error(t, err, "%s/%s", count, unit)
		}
	}
}

func TestALongStringIsQuotedInPart(t *testing.T) {
	t.Parallel()
	_, err := bucket.Parse(strings.Repeat("9", 1<<20) + "/m")
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 300)
	assert.Contains(t, err.Error(), `is above 1000000000`)
}

func TestUnmarshalTextReadsAsParseDoes(t *testing.T) {
	t.Parallel()
	var declared struct{ Rate bucket.Rate }
	require.NoError(t, json.Unmarshal([]byte(`{"Rate": "60/60s"}`), &declared))
	assert.Equal(t, rate(t, "60/m"), declared.Rate)

	written, err := json.Marshal(declared)
	require.NoError(t, err)
	assert.JSONEq(t, `{"Rate": "60/m"}`, string(written))

	var syntax *bucket.SyntaxError
	for _, bad := range []string{`{"Rate": "100/mo"}`, `{"Rate": ""}`} {
		require.ErrorAs(t, json.Unmarshal([]byte(bad), &declared), &syntax)
		assert.Equal(t, rate(t, "60/m"), declared.Rate, "a refused text leaves the value")
	}
}

// FuzzParse compares every reading with an independent one, in rational numbers.
func FuzzParse(f *testing.F) {
	for _, test := range accepted {
		f.Add(test.input)
	}
	for _, test := range refused {
		f.Add(test.input)
	}
	f.Fuzz(func(t *testing.T, input string) {
		r, err := bucket.Parse(input)
		count, period, ok := readRate(input)
		require.Equal(t, ok, err == nil, "accepted: %v", err)
		if err != nil {
			require.True(t, r.IsZero())
			var syntax *bucket.SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Equal(t, input, syntax.Input)
			requireRightExample(t, syntax.Problem)
			return
		}
		require.Zero(t, count.Cmp(big.NewRat(r.Count(), 1_000_000)), "count %d", r.Count())
		require.Equal(t, period, r.Period().Microseconds()/second, "period")

		again, err := bucket.Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.Equal(t, r.String(), again.String())

		stored, err := bucket.FromParts(r.Count(), r.Period().Microseconds())
		require.NoError(t, err)
		require.Equal(t, r, stored)
	})
}

var (
	rateGrammar = regexp.MustCompile(`\A[ \t]*([0-9]+(?:\.[0-9]{1,6})?)[ \t]*/[ \t]*([0-9]*)([a-z]+)[ \t]*\z`)
	unitSeconds = map[string]int64{
		"s": 1, "sec": 1, "second": 1, "seconds": 1,
		"m": 60, "min": 60, "minute": 60, "minutes": 60,
		"h": 3600, "hr": 3600, "hour": 3600, "hours": 3600,
		"d": 86400, "day": 86400, "days": 86400,
	}
)

// readRate reads a rate without any code of the package: the count, and the period
// in seconds.
func readRate(s string) (count *big.Rat, period int64, ok bool) {
	match := rateGrammar.FindStringSubmatch(s)
	if match == nil || unitSeconds[match[3]] == 0 {
		return nil, 0, false
	}
	count, _ = new(big.Rat).SetString(match[1])
	multiplier := big.NewInt(1)
	if match[2] != "" {
		multiplier.SetString(match[2], 10)
	}
	length := multiplier.Mul(multiplier, big.NewInt(unitSeconds[match[3]]))
	ok = count.Cmp(big.NewRat(1, 1)) >= 0 && count.Cmp(big.NewRat(1_000_000_000, 1)) <= 0 &&
		length.Sign() > 0 && length.Cmp(big.NewInt(366*86400)) <= 0
	return count, length.Int64(), ok
}

// requireRightExample takes the rate that an error shows and reads it.
func requireRightExample(t *testing.T, problem string) {
	t.Helper()
	_, example, found := strings.Cut(problem[max(strings.LastIndex(problem, "as in "), 0):], `"`)
	require.True(t, found, problem)
	example, _, _ = strings.Cut(example, `"`)
	_, err := bucket.Parse(example)
	require.NoError(t, err)
}
