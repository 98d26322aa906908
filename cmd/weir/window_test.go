package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

const windowFile = `
strategy: fixed_window
tasks:
  send: {rate_limit: 100/m, exec: {command: ["true"]}}
limits:
  stripe: {limit: 30, per: 90s, tasks: [send]}
  exact: {rate: 50/m, tasks: [send], exact: true}
  paused: {limit: 0, per: 60, queues: [default]}
`

func TestCheckPrintsTheBoundsOfWindowsAndBothSizingRules(t *testing.T) {
	t.Parallel()
	path := file(t, windowFile)
	r := call{}.run("check", "-c", path)
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Regexp(t, `(?m)^task:send +100/m +100 \+ W - 1 \+ U +2 x \(100 \+ W - 1 \+ U\) +100 - \(W - 1\) +100 // 2 - \(W - 1\)$`, r.out)
	assert.Regexp(t, `(?m)^exact +50/m +50 \(exact\) +100 +50 +25$`, r.out)
	assert.Regexp(t, `(?m)^paused +0/m +0 \(a pause\) +0 +0 +0$`, r.out)

	r = call{}.run("check", "-c", path, "--workers", "4")
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Regexp(t, `(?m)^task:send +100/m +100 \+ 4 - 1 \+ U = 103 \+ U +206 \+ 2U +100 - 3 = 97 +100 // 2 - 3 = 47$`, r.out)
	assert.Regexp(t, `(?m)^stripe +30/90s +30 \+ 4 - 1 \+ U = 33 \+ U +66 \+ 2U +30 - 3 = 27 +30 // 2 - 3 = 12$`, r.out)
	assert.NotContains(t, r.out, "W214")

	r = call{}.run("check", "-c", path, "--workers", "5", "--strict")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.out, `W214 limits.stripe.limit: limit "stripe": 5 workers can start 34 in a window, 4 more than its 30: size it against the bound, use fewer workers, or write exact: true`)
	assert.Equal(t, "weir: check: 0 faults, 1 warning\n", r.err)

	doc := document(t, call{}.run("check", path, "--workers", "4", "--json").out)
	one := doc["files"].([]any)[0].(map[string]any)
	assert.Equal(t, words("file ok findings limits windows schedules"), keys(one))
	window := one["windows"].([]any)[1].(map[string]any)
	assert.Equal(t, words("name rate limit per exact workers in_window in_period limit_for_window limit_for_period tasks queues"), keys(window))
	for key, want := range map[string]string{"limit": "30", "workers": "4", "in_window": "33", "in_period": "66", "limit_for_window": "27", "limit_for_period": "12"} {
		assert.Equal(t, want, window[key].(interface{ String() string }).String(), key)
	}

	for _, workers := range []string{"0", "-1", "1000001"} {
		assert.Equal(t, exitUsage, call{}.run("check", path, "--workers="+workers).code)
	}
}

func TestCheckComparesFilesOnOneDatabase(t *testing.T) {
	t.Parallel()
	one := file(t, windowFile)
	other := file(t, strings.Replace(windowFile, "per: 90s", "per: 30s", 1))
	r := call{}.run("check", "-c", one, "-c", other)
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Contains(t, r.out, "warning: "+other+":6:12: W211 limits.stripe.limit: ")
	assert.Equal(t, 1, strings.Count(r.out, "warning: "))
	assert.Equal(t, exitFailure, call{}.run("check", "-c", one, "-c", other, "--strict").code)

	buckets := file(t, goodFile)
	r = call{}.run("check", one, buckets)
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.out, "error: "+buckets+": W155 strategy: it has strategy token_bucket, and "+one+" on the same database has fixed_window")
	assert.NotContains(t, r.out, buckets+": no faults")
	assert.NotContains(t, call{}.run("check", one, one).out, "warning", "the same file is no other")
}

// The page lists each rule with the test that shows it: none of them may be gone.
func TestEveryRuleOfFixedWindowsNamesATestThatIsThere(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/fixed-window.md")
	require.NoError(t, err)
	rules := regexp.MustCompile("(?m)^\\| \\d+ \\| [^|]+ \\| `([^`]+)` \\| ([^|]+) \\|$").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(rules), 60)
	sources := map[string]string{}
	for _, rule := range rules {
		folder := "../../" + rule[1]
		if _, read := sources[folder]; !read {
			files, err := filepath.Glob(folder + "/*_test.go")
			require.NoError(t, err)
			for _, f := range files {
				text, err := os.ReadFile(f)
				require.NoError(t, err)
				sources[folder] += string(text)
			}
		}
		for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(rule[2], -1) {
			assert.Contains(t, sources[folder], "func "+name+"(", "%s: %s", rule[1], name)
		}
	}
}

// drainWindows is drain under fixed windows: three starts an hour.
func (b *bundle) drainWindows(t *testing.T) error {
	t.Helper()
	s, err := scheduler.New(b.client, scheduler.Logger(slog.New(slog.DiscardHandler)), scheduler.Strategy(scheduler.FixedWindow),
		scheduler.WindowLimit("stripe", 3, time.Hour, scheduler.Tasks("works")), scheduler.WindowLimit("odd", 5, 1500*time.Millisecond, scheduler.Queues("none")),
		scheduler.WindowLimit("zero", 0, time.Hour, scheduler.Queues("none")))
	require.NoError(t, err)
	require.NoError(t, scheduler.Register(s, queue.Task[[]byte]("works"), func(context.Context, *queue.Job[[]byte]) error { return nil }))
	return s.Drain(t.Context())
}

func TestWindowsAreShownAndTheirCountsOverridden(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		b.ok(t, "enqueue", "works", "--count", "2")
		require.NoError(t, b.drainWindows(t))
		b.ok(t, "enqueue", "works", "--count", "4")
		stripe := items(t, b.json(t, "limits", "list"))[1]
		assert.Equal(t, words(limitKeys), keys(stripe))
		assert.Equal(t, []any{"stripe", "3/h", "fixed_window", "declared", nil, nil}, []any{stripe["name"], stripe["rate"], stripe["strategy"], stripe["source"], stripe["burst"], stripe["held_until"]})
		assert.Regexp(t, `(?m)^stripe +3/h +1 of 3 +- +4 +2 +0 +0 +-$`, b.ok(t, "limits", "list"))
		assert.Regexp(t, `(?m)^next window +at the next start$`, b.ok(t, "limits", "show", "odd"))
		assert.Regexp(t, `(?m)^next window +none: a limit of 0 lets nothing start$`, b.ok(t, "limits", "show", "zero"))

		require.NoError(t, b.drainWindows(t))
		show := b.ok(t, "limits", "show", "stripe")
		assert.Regexp(t, `(?m)^level +0 of 3 left$`, show)
		assert.Regexp(t, `(?m)^held until +\d{4}-.*\(in 59m`, show)
		assert.Regexp(t, `(?m)^next window +\d{4}-`, show)

		assert.Equal(t, "stripe set to 5/h until it is unset\n", b.ok(t, "limits", "set", "stripe", "5/h"))
		assert.Equal(t, "odd set to 8/1.5s until it is unset\n", b.ok(t, "limits", "set", "odd", "8/1.5s"))
		require.NoError(t, b.drainWindows(t))
		assert.Regexp(t, `(?m)^stripe +5/h \(override\) +0 of 5 +\S+( \S+)? +1 +5 +0 +0 +until it is unset$`, b.ok(t, "limits", "list"))
		for args, want := range map[string]struct {
			code int
			says string
		}{
			"stripe 5/m":           {exitUsage, `limit "stripe": rate "5/m": the period of a window stays: use a count per h, as in "100/h"`},
			"stripe 0/h":           {exitUsage, `limit "stripe": rate "0/h": count "0" is below 1: to let nothing start, use "weir limits pause", or an entry under "limits" with a limit of 0 and a per`},
			"stripe 1.5/h":         {exitUsage, `limit "stripe": rate "1.5/h": fixed windows count whole starts: use a whole number, as in "1/h"`},
			"stripe 5/h --burst 7": {exitUsage, `limit "stripe": burst 7: a fixed window has none: leave it out`},
			"strip 5/h":            {exitFailure, "limit \"strip\": not found: `weir limits list` shows those that a scheduler has declared: did you mean \"stripe\"?"},
		} {
			r := b.run(append([]string{"limits", "set"}, strings.Fields(args)...)...)
			assert.Equal(t, want.code, r.code)
			assert.Equal(t, "weir: "+want.says+"\n", r.err)
		}
		assert.Equal(t, "3/h", b.json(t, "limits", "unset", "stripe")["rate"])
	})
}

func TestTheStrategyIsShownAndSwitchedWhenNoProcessIsLive(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		assert.Equal(t, "no strategy: the first process that runs jobs stores its own\n", b.ok(t, "migrate", "strategy"))
		assert.Equal(t, map[string]any{"strategy": nil, "was": nil, "overrides_unset": b.json(t, "migrate", "strategy")["overrides_unset"]}, b.json(t, "migrate", "strategy"))
		b.drain(t)
		assert.Equal(t, "strategy token_bucket\n", b.ok(t, "migrate", "strategy"))
		b.ok(t, "limits", "set", "stripe", "1/m")
		require.ErrorIs(t, b.drainWindows(t), scheduler.ErrStrategy)

		r := b.run("migrate", "strategy", "fixed_window")
		assert.Equal(t, exitFailure, r.code)
		assert.Regexp(t, `^weir: switch \S+ to fixed_window: processes are running jobs: \S+ \(process \d+\): stop them; one that was killed counts for another \d+s at most\n$`, r.err)
		_, err := db.SQL(t).ExecContext(t.Context(), `delete from weir_processes`)
		require.NoError(t, err)
		assert.Equal(t, "strategy fixed_window, it was token_bucket\n1 override unset\n", b.ok(t, "migrate", "strategy", "fixed_window"))
		assert.Equal(t, "strategy fixed_window\n", b.ok(t, "migrate", "strategy", "fixed_window"))
		require.NoError(t, b.drainWindows(t))

		r = b.run("migrate", "strategy", "leaky")
		assert.Equal(t, exitUsage, r.code)
		assert.Equal(t, "weir: strategy \"leaky\": use \"token_bucket\" or \"fixed_window\"\n", r.err)
	})
}

func TestServeRunsAFileOfFixedWindowsAndRefusesAnotherStrategy(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		for range 5 {
			b.ok(t, "enqueue", "send")
		}
		s := start(t, db.DSN, "strategy: fixed_window\ntasks:\n  send: {rate_limit: 3/h, exec: {command: [\"true\"]}}\nlimits:\n  slow: {limit: 5, per: 1d, tasks: [send], exact: true}\n", call{})
		s.ready(t)
		require.Eventually(t, func() bool { return len(items(t, b.json(t, "jobs", "list", "--state", "completed"))) == 3 }, patience, 10*time.Millisecond)
		r := call{signals: nil, exited: make(chan int, 1)}.run("serve", "-c", file(t, "database: "+db.DSN+"\ntasks:\n  send: {exec: {command: [\"true\"]}}\n"))
		assert.Equal(t, exitFailure, r.code)
		assert.Contains(t, r.err, "another strategy: its jobs run under fixed_window, and this process comes with token_bucket")
		s.signals <- syscall.SIGTERM
		r = s.wait(t)
		assert.Equal(t, exitOK, r.code)
		assert.Regexp(t, `(?m)^slow +5/d \(exact\) +tasks send$`, r.out)
		assert.Equal(t, "strategy token_bucket, it was fixed_window\n", b.ok(t, "migrate", "strategy", "token_bucket"), "it left when it stopped")
		assert.Len(t, items(t, b.json(t, "jobs", "list", "--state", "waiting")), 2)
	})
}
