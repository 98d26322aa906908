package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/scheduler"
)

const windowed = `
database: sqlite:weir.db
strategy: fixed_window
refresh_interval: 100ms
tasks:
  charge_card: {rate_limit: 30/m, exec: {command: ["true"]}}
  refund_card: {elsewhere: true}
queues:
  sms: {rate_limit: 500/m}
limits:
  stripe: {limit: 100, per: 60, tasks: [charge_card, refund_card]}
  reports: {limit: 10, per: 1h30m, queues: [default], exact: true}
  odd: {limit: 5, per: 1500ms, tasks: [charge_card]}
  paused: {limit: 0, per: 1, tasks: [charge_card]}
  days: {limit: 2, per: 30d, tasks: [charge_card]}
  rate: {rate: 7/5m, tasks: [charge_card], exact: false}
`

func TestAFileOfFixedWindowsSaysItsLimitsAsRatesOrWithAPeriod(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(windowed))
	require.NoError(t, err)
	assert.Equal(t, scheduler.FixedWindow, f.Strategy)
	assert.Equal(t, 100*time.Millisecond, f.Refresh)
	assert.Empty(t, f.Warnings())
	var got []string
	for _, b := range f.Budgets() {
		text := b.Name + " " + b.Quota.String()
		if b.Exact {
			text += " exact"
		}
		assert.Equal(t, bucket.Limit{}, b.Limit)
		got = append(got, text)
	}
	assert.Equal(t, []string{
		"task:charge_card 30/m", "queue:sms 500/m", "stripe 100/m", "reports 10/90m exact", "odd 5/1.5s", "paused 0/s", "days 2/30d", "rate 7/5m",
	}, got)
	assert.Equal(t, "weir.yaml:11:12", f.Limits[0].Rate.Place.String())
}

func TestAFileOfFixedWindowsRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	client, s := runs(t, write(t, windowed))
	require.NoError(t, s.Drain(t.Context()))
	stored, err := client.Store().Strategy(t.Context())
	require.NoError(t, err)
	assert.Equal(t, string(scheduler.FixedWindow), stored)
	quotas, err := client.Store().Quotas(t.Context())
	require.NoError(t, err)
	var got []string
	for i := range quotas {
		declared, err := quotas[i].Declared()
		require.NoError(t, err)
		got = append(got, quotas[i].Name+" "+declared.String())
	}
	assert.Equal(t, []string{
		"days 2/30d", "odd 5/1.5s", "paused 0/s", "queue:sms 500/m", "rate 7/5m", "reports 10/90m", "stripe 100/m", "task:charge_card 30/m",
	}, got)
}

func TestFaultsOfWindowsHaveStableCodes(t *testing.T) {
	t.Parallel()
	const head = "strategy: fixed_window\n"
	limit := func(keys string) string { return head + "limits:\n  l: {" + keys + ", queues: [default]}\n" }
	task := func(keys string) string {
		return head + "tasks:\n  t: {exec: {command: [\"true\"]}, " + keys + "}\n"
	}
	for _, c := range []struct{ name, content, want string }{
		{"a burst", task("rate_limit: 1/s, burst: 5"), `weir.yaml:3:51: W151 tasks.t.burst: "burst" belongs to strategy token_bucket: remove it, or write strategy: token_bucket`},
		{"a hold", task("rate_limit: 1/s, defer: until_token"), `weir.yaml:3:51: W151 tasks.t.defer: "defer" belongs to strategy token_bucket: remove it, or write strategy: token_bucket`},
		{"a rate with a burst", task("rate_limit: {rate: 1/s, burst: 5}"), `weir.yaml:3:46: W151 tasks.t.rate_limit: task "t": a rate with a burst belongs to strategy token_bucket: write the rate alone, as in "100/m"`},
		{"a list of rates", task("rate_limit: [1/s, 5/m]"), `weir.yaml:3:46: W151 tasks.t.rate_limit: task "t": a list of rates belongs to strategy token_bucket: keep one, and write an entry of its own under "limits" for each of the others`},
		{"shedding", task("on_excess: drop"), `weir.yaml:3:45: W151 tasks.t.on_excess: task "t": on_excess "drop" belongs to strategy token_bucket: what a fixed window refuses stays where it is: remove it`},
		{"a count that is not whole", task("rate_limit: 1.5/s"), `weir.yaml:3:46: W153 tasks.t.rate_limit: task "t": rate "1.5/s": fixed windows count whole starts: use a whole number, as in "1/s"`},
		{"a rate that is none", task("rate_limit: 100/mo"), `weir.yaml:3:46: W121 tasks.t.rate_limit: task "t": rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`},
		{"a rate of nothing", task("rate_limit: 0/m"), `weir.yaml:3:46: W121 tasks.t.rate_limit: task "t": rate "0/m": count "0" is below 1: to let nothing start, use "weir limits pause", or an entry under "limits" with a limit of 0 and a per`},
		{"a rate of odd seconds", limit("rate: 10/1500ms"), `weir.yaml:3:13: W121 limits.l.rate: limit "l": rate "10/1500ms": unknown period "1500ms": use an entry under "limits" with a limit of 10 and a per of 1500ms`},
		{"a negative limit", limit("limit: -1, per: 60"), `weir.yaml:3:14: W153 limits.l.limit: limit "-1": use a whole number from 0 to 1000000000, in plain digits`},
		{"a limit with a fraction", limit("limit: 1.5, per: 60"), `weir.yaml:3:14: W153 limits.l.limit: limit "1.5": use a whole number from 0 to 1000000000, in plain digits`},
		{"a period below a second", limit("limit: 1, per: 999ms"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "999ms": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"a period of nothing", limit("limit: 1, per: 0"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "0": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"seconds with a fraction", limit("limit: 1, per: 1.5"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "1.5": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"a period that is no time", limit("limit: 1, per: minute"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "minute": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"a period that is too long", limit("limit: 1, per: 31622401"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "31622401": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"days that are too many", limit("limit: 1, per: 367d"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "367d": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"days that are none", limit("limit: 1, per: d"), `weir.yaml:3:22: W152 limits.l.per: limit "l": per "d": use whole seconds, as in 60, or a time of 1s to 366 days, as in 90s, 1h or 1d`},
		{"a limit without its period", limit("limit: 1"), `weir.yaml:3:7: W114 limits.l: limit "l": a limit without its period: add one, as in rate: 100/m, or limit: 100 with per: 60`},
		{"a period without its limit", limit("per: 60"), `weir.yaml:3:3: W114 limits.l: limit "l": a period without its limit: add one, as in rate: 100/m, or limit: 100 with per: 60`},
		{"both forms", limit("rate: 1/s, limit: 1, per: 60"), `weir.yaml:3:3: W153 limits.l: limit "l": a rate, and a limit or a period beside it: keep one form, as in rate: 100/m, or limit: 100 with per: 60`},
		{"neither", limit("exact: true"), `weir.yaml:3:3: W114 limits.l: limit "l": no rate: add one, as in rate: 100/m`},
		{"exact in words", limit("rate: 1/s, exact: always"), `weir.yaml:3:25: W112 limits.l.exact: it is "always", text: give true or false`},
		{"a strategy of one limit", limit("rate: 1/s, strategy: token_bucket"), `weir.yaml:3:18: W111 limits.l.strategy: unknown key "strategy": it is the whole file's: write it outside of tasks, queues and limits`},
		{"it covers nothing", head + "limits:\n  l: {rate: 1/s}\n", `weir.yaml:3:3: W143 limits.l: limit "l" covers nothing: name what it covers, as in tasks: [one, two] or queues: [emails]`},
		{"it names an unknown task", head + "limits:\n  l: {rate: 1/s, tasks: [nobody]}\n", `weir.yaml:3:26: W141 limits.l.tasks[0]: limit "l": task "nobody" is not declared in this file: declare it under "tasks", with elsewhere: true if another process runs it`},
		{"it names an unknown queue", head + "limits:\n  l: {rate: 1/s, queues: [nowhere]}\n", `weir.yaml:3:27: W142 limits.l.queues[0]: limit "l": queue "nowhere" is neither under "queues" nor the queue of a task: declare it as in queues: {nowhere: {}}`},
		{"names that differ only by case", head + "limits:\n  stripe: {rate: 1/s, queues: [default]}\n  Stripe: {rate: 1/s, queues: [default]}\n", `weir.yaml:4:18: W154 limits.Stripe.rate: limits "stripe" and "Stripe" differ only by case: name them apart`},
		{"the interval of the other strategy", "refresh_interval: 1s\n", `weir.yaml:1:1: W151 refresh_interval: "refresh_interval" belongs to strategy fixed_window: remove it, or write strategy: fixed_window`},
		{"an interval out of range", head + "refresh_interval: 2m\n", `weir.yaml:2:19: W127 refresh_interval: refresh_interval "2m": out of range: use a time from 1ms to 1m, as in 30s or 1h30m`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, []string{c.want}, faults(t, c.content), "%s", c.content)
		})
	}
	assert.Equal(t, []string{
		`weir.yaml:2:7: W151 limits.l.limit: "limit" belongs to strategy fixed_window: remove it, or write strategy: fixed_window`,
		`weir.yaml:2:19: W151 limits.l.per: "per" belongs to strategy fixed_window: remove it, or write strategy: fixed_window`,
		`weir.yaml:2:28: W151 limits.l.exact: "exact" belongs to strategy fixed_window: remove it, or write strategy: fixed_window`,
	}, faults(t, "limits:\n  l: {limit: 100, per: 60, exact: true, queues: [default]}\n"))
	assert.Empty(t, faults(t, "limits:\n  stripe: {rate: 1/s, queues: [default]}\n  Stripe: {rate: 1/s, queues: [default]}\n"), "under token buckets A and a are two names")
}

// parsed reads files of which each has strategy fixed_window and these lines.
func parsed(t *testing.T, contents map[string]string) []*File {
	t.Helper()
	var files []*File
	for _, path := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		if content, there := contents[path]; there {
			f, err := Parse(path, []byte("strategy: fixed_window\n"+content))
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	return files
}

func texts(findings []Finding) []string {
	out := make([]string, len(findings))
	for i, f := range findings {
		out[i] = f.Error()
	}
	return out
}

func TestFilesOnOneDatabaseAreCompared(t *testing.T) {
	t.Parallel()
	limit := func(name, keys string) string {
		return "limits:\n  " + name + ": {" + keys + ", queues: [default]}\n"
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"the same", map[string]string{"a.yaml": limit("l", "rate: 100/m"), "b.yaml": limit("l", "limit: 100, per: 60")}, []string{}},
		{"another period", map[string]string{"a.yaml": limit("l", "rate: 100/m"), "b.yaml": limit("l", "rate: 100/h")}, []string{
			`b.yaml:3:13: W211 limits.l.rate: limit "l" is 100/h here and 100/m in a.yaml:3:13: each rolls the window they share at its own period, so it is not enforced as written: use one period, or two names`,
		}},
		{"another count", map[string]string{"a.yaml": limit("l", "rate: 100/m"), "b.yaml": limit("l", "rate: 50/m"), "c.yaml": limit("l", "rate: 100/m")}, []string{
			`b.yaml:3:13: W212 limits.l.rate: limit "l" is 50/m here and 100/m in a.yaml:3:13: they share a window, and each stops when it has counted its own number: use one count, unless a smaller share of the budget is meant`,
		}},
		{"exact in one of them", map[string]string{"a.yaml": limit("l", "rate: 100/m, exact: true"), "b.yaml": limit("l", "rate: 100/m"), "c.yaml": limit("l", "rate: 100/m, exact: true")}, []string{
			`b.yaml:3:13: W215 limits.l.rate: limit "l" is exact either here or in a.yaml:3:13: who claims without its row's lock can pass it: write exact: true in both, or in neither`,
		}},
		{"another case", map[string]string{"a.yaml": limit("Stripe", "rate: 1/m"), "b.yaml": limit("stripe", "rate: 1/m")}, []string{
			`b.yaml:3:18: W213 limits.stripe.rate: limits "stripe" and "Stripe" (a.yaml:3:18) differ only by case or accents: each is counted by itself: spell the name the same way everywhere if one is meant, else name them apart`,
		}},
		{"accents, Latin and Greek", map[string]string{"a.yaml": limit("café", "rate: 1/m"), "b.yaml": limit("Cafe", "rate: 1/m")}, []string{
			`b.yaml:3:16: W213 limits.Cafe.rate: limits "Cafe" and "café" (a.yaml:3:16) differ only by case or accents: each is counted by itself: spell the name the same way everywhere if one is meant, else name them apart`,
		}},
		{"other folds are left alone", map[string]string{"a.yaml": limit("søk", "rate: 1/m"), "b.yaml": limit("sok", "rate: 1/m")}, []string{}},
		{"another database", map[string]string{"a.yaml": "database: sqlite:/a.db\n" + limit("l", "rate: 100/m"), "b.yaml": "database: sqlite:/b.db\n" + limit("l", "rate: 100/h")}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			faults, warnings := Across(parsed(t, c.files))
			assert.Empty(t, faults)
			got := texts(warnings)
			for i := range got { // the place of a name with letters of two bytes does not matter here
				assert.Contains(t, got[i], c.want[min(i, len(c.want)-1)][20:])
			}
			assert.Len(t, got, len(c.want))
		})
	}
}

func TestTwoStrategiesOnOneDatabaseAreAFault(t *testing.T) {
	t.Parallel()
	a, err := Parse("a.yaml", []byte("strategy: fixed_window\n"))
	require.NoError(t, err)
	b, err := Parse("b.yaml", []byte("concurrency: 5\n"))
	require.NoError(t, err)
	faults, warnings := Across([]*File{a, b})
	assert.Equal(t, []string{
		"b.yaml: W155 strategy: it has strategy token_bucket, and a.yaml on the same database has fixed_window: a database has one strategy: use the same, or another database",
	}, texts(faults))
	assert.Empty(t, warnings)
}

func TestNamesThatDifferByAccentsWarnWithinAFileToo(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte("strategy: fixed_window\nlimits:\n  stripé: {rate: 1/s, queues: [default]}\n  STRIPE: {rate: 1/s, queues: [default]}\n"+
		"tasks: {t: {http: {url: \"http://127.0.0.1/t\"}}}\n"))
	require.NoError(t, err)
	warnings := texts(f.Warnings())
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], `W213 limits.STRIPE.rate: limits "STRIPE" and "stripé"`)
}

func TestManyWorkersAreAWarning(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(`
strategy: fixed_window
limits:
  small: {rate: 10/m, queues: [default]}
  large: {rate: 100/m, queues: [default]}
  exact: {rate: 10/m, queues: [default], exact: true}
  paused: {limit: 0, per: 60, queues: [default]}
`))
	require.NoError(t, err)
	assert.Empty(t, f.ForWorkers(1))
	assert.Empty(t, f.ForWorkers(2), "a tenth of N is not over it")
	assert.Equal(t, []string{
		`weir.yaml:4:17: W214 limits.small.rate: limit "small": 3 workers can start 12 in a window, 2 more than its 10: size it against the bound, use fewer workers, or write exact: true`,
	}, texts(f.ForWorkers(3)))
	assert.Len(t, f.ForWorkers(12), 2)
}
