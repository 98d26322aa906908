package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/scheduler"
)

const example = `
# What the program runs.
database: sqlite:data/weir.db
listen: 127.0.0.1:8377
strategy: token_bucket
migrate: check
concurrency: 20
lease: 1m30s
shutdown_grace: 0s
tasks:
  send_email:
    rate_limit: 100/m
    queue: emails
    exec: {command: ["./send.sh", --fast, 5, true], dir: mail}
    timeout: 30s
    max_retries: 0
    retry_backoff: 2.5
  record sample:
    rate_limit: 10 / s
    burst: 15
    on_excess: drop
    exec: {command: [/usr/bin/env, "true"]}
    retry_backoff: {base: 500ms, factor: 3, max: 10m, jitter: 0.1}
  resize:
    rate_limit: {rate: 5/30s, burst: 2}
    defer: until_token
    exec: {command: ["true"]}
  charge_card: {elsewhere: true, queue: payments}
queues:
  emails: {rate_limit: 500/m}
  slow:
  bulk: {rate_limit: 6/m, burst: 1, defer: until_token}
limits:
  stripe: {rate: 100/m, tasks: [charge_card, resize]}
  all: {rate: 1000/h, burst: 50, queues: [default, emails, payments, slow]}
`

// second has what the first example has not.
const second = `
retention: {completed: 72h, shed: 24h, failed: {age: 720h, count: 100000}}
tasks:
  call:
    http: {url: "http://127.0.0.1:9000/send?key=secret", headers: {X-Team: mail}}
    concurrency: 20
    breaker: {failures: 10, window: 2m, open: 5s, probes: 3}
    dlq_retry: {after: 1h, max: 3}
  resize:
    rate_limit: [{rate: 5/s, burst: 10}, 100/m, 1000/h]
    defer: until_token
    exec: {command: ["true"]}
    breaker: {failures: 1}
  plain: {exec: {command: ["true"]}, rate_limit: [100/m]}
queues:
  emails: {rate_limit: 500/m, concurrency: 50}
`

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestAFileSaysWhatItSays(t *testing.T) {
	t.Parallel()
	path := write(t, example)
	f, err := Load(path)
	require.NoError(t, err)
	dir := filepath.Dir(path)

	assert.Equal(t, "sqlite:"+filepath.Join(dir, "data", "weir.db"), f.Database)
	assert.Equal(t, "127.0.0.1:8377", f.Listen)
	assert.Equal(t, "check", f.Migrate)
	assert.Equal(t, 20, f.Concurrency)
	assert.Equal(t, 90*time.Second, f.Lease)
	if assert.NotNil(t, f.ShutdownGrace) {
		assert.Zero(t, *f.ShutdownGrace)
	}

	require.Len(t, f.Tasks, 4)
	email, sample, resize, card := f.Tasks[0], f.Tasks[1], f.Tasks[2], f.Tasks[3]
	assert.Equal(t, "send_email", email.Name)
	assert.Equal(t, Place{path, 11, 3, "tasks.send_email"}, email.Place)
	assert.Equal(t, "100/m", email.Rate.String())
	assert.Equal(t, "emails", email.Queue)
	assert.Equal(t, 30*time.Second, email.Timeout)
	if assert.NotNil(t, email.MaxRetries) {
		assert.Zero(t, *email.MaxRetries)
	}
	assert.Equal(t, &scheduler.Backoff{Factor: 2.5}, email.Backoff)
	assert.Equal(t, []string{filepath.Join(dir, "send.sh"), "--fast", "5", "true"}, email.Exec.Command)
	assert.Equal(t, filepath.Join(dir, "mail"), email.Exec.Dir)

	assert.Equal(t, "record sample", sample.Name)
	assert.Equal(t, "10/s burst 15", sample.Rate.String())
	assert.Equal(t, scheduler.Drop, sample.OnExcess)
	assert.Nil(t, sample.MaxRetries)
	assert.Equal(t, &scheduler.Backoff{Base: 500 * time.Millisecond, Factor: 3, Max: 10 * time.Minute, Jitter: 0.1}, sample.Backoff)
	assert.Equal(t, []string{"/usr/bin/env", "true"}, sample.Exec.Command)
	assert.Equal(t, dir, sample.Exec.Dir)

	assert.Equal(t, "5/30s burst 2", resize.Rate.String())
	assert.Equal(t, scheduler.UntilToken, resize.Rate.Defer)
	assert.Equal(t, []string{"true"}, resize.Exec.Command)

	assert.True(t, card.Elsewhere)
	assert.Nil(t, card.Exec)
	assert.Equal(t, "payments", f.Task("charge_card").Queue)
	assert.Nil(t, f.Task("unheard of"))
	assert.Equal(t, `task "charge_crad" is not in weir.yaml (did you mean "charge_card"?)`, strings.ReplaceAll(f.NoTask("charge_crad"), dir+"/", ""))
	assert.Equal(t, `task "unheard of" is not in weir.yaml`, strings.ReplaceAll(f.NoTask("unheard of"), dir+"/", ""))

	require.Len(t, f.Queues, 3)
	assert.Equal(t, "500/m", f.Queues[0].Rate.String())
	assert.True(t, f.Queues[1].Rate.IsZero())
	assert.Equal(t, scheduler.UntilToken, f.Queues[2].Rate.Defer)

	require.Len(t, f.Limits, 2)
	assert.Equal(t, []string{"charge_card", "resize"}, f.Limits[0].Tasks)
	assert.Equal(t, "1000/h burst 50", f.Limits[1].Rate.String())
	assert.Equal(t, []string{"default", "emails", "payments", "slow"}, f.Limits[1].Queues)
}

func TestAFileSaysWhereToPostHowManyAtOnceAndSeveralRates(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(second))
	require.NoError(t, err)
	if assert.NotNil(t, f.Retention) {
		assert.Equal(t, 72*time.Hour, *f.Retention)
	}
	require.Len(t, f.Tasks, 3)
	call, resize, plain := f.Tasks[0], f.Tasks[1], f.Tasks[2]
	assert.Equal(t, &HTTP{
		URL: "http://127.0.0.1:9000/send?key=secret", Headers: map[string]string{"X-Team": "mail"},
		Place: Place{"weir.yaml", 5, 11, "tasks.call.http"},
	}, call.HTTP)
	assert.Equal(t, "http://127.0.0.1:9000/send?...", call.HTTP.String())
	assert.Equal(t, 30*time.Second, call.Timeout)
	assert.Equal(t, 20, call.Concurrency)
	assert.Equal(t, []DeadRetention{
		{dlq.Shed, scheduler.Keep{Age: 24 * time.Hour}}, {dlq.Failed, scheduler.Keep{Age: 720 * time.Hour, Count: 100_000}},
	}, f.DeadRetention)
	assert.Equal(t, &DLQRetry{After: time.Hour, Max: 3}, call.DLQRetry)
	assert.Equal(t, &scheduler.Breaker{Failures: 10, Window: 2 * time.Minute, Open: 5 * time.Second, Probes: 3}, call.Breaker)

	assert.True(t, resize.Rate.IsZero())
	var rates []string
	for _, r := range resize.Rates {
		rates = append(rates, r.String()+" "+string(r.Defer)+" "+r.Place.Key)
	}
	assert.Equal(t, []string{
		"5/s burst 10 until_token tasks.resize.rate_limit[0].rate", "100/m until_token tasks.resize.rate_limit[1]", "1000/h until_token tasks.resize.rate_limit[2]",
	}, rates)
	assert.Equal(t, &scheduler.Breaker{Failures: 1}, resize.Breaker)
	assert.Len(t, plain.Rates, 1)
	assert.Equal(t, 50, f.Queues[0].Concurrency)

	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "1m": time.Minute, "876000h": 876_000 * time.Hour} {
		f, err := Parse("weir.yaml", []byte("retention: {completed: "+text+"}\n"))
		if assert.NoError(t, err, text) {
			assert.Equal(t, want, *f.Retention)
		}
	}
	f, err = Parse("weir.yaml", []byte("retention: {}\n"))
	require.NoError(t, err)
	assert.Nil(t, f.Retention)
}

func TestAFileThatSaysNothingLeavesAllToTheDefaults(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "\n\n", "# nothing\n", "{}\n", "tasks:\nqueues:\nlimits:\n", "\xef\xbb\xbftasks: {}\n", "---\n"} {
		f, err := Parse("weir.yaml", []byte(content))
		require.NoError(t, err, "%q", content)
		assert.Empty(t, f.Tasks)
		assert.Empty(t, f.Database)
		assert.Empty(t, f.Options())
		if warnings := f.Warnings(); assert.Len(t, warnings, 1) {
			assert.Equal(t, NothingRuns, warnings[0].Code)
		}
	}
}

func TestLineEndsOfOtherSystemsChangeNothing(t *testing.T) {
	t.Parallel()
	a, err := Parse("weir.yaml", []byte(example))
	require.NoError(t, err)
	b, err := Parse("weir.yaml", []byte(strings.ReplaceAll(example, "\n", "\r\n")))
	require.NoError(t, err)
	assert.Equal(t, a.Tasks, b.Tasks)
	assert.Equal(t, a.Limits, b.Limits)
}

func TestAnchorsAndMergesSpareRepetition(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(`
tasks:
  a: &base
    rate_limit: &rate 100/m
    timeout: 30s
    exec: {command: ["true"]}
  b:
    <<: *base
    timeout: 5s
  c: {<<: [*base], rate_limit: *rate, queue: q}
`))
	require.NoError(t, err)
	require.Len(t, f.Tasks, 3)
	assert.Equal(t, 30*time.Second, f.Tasks[0].Timeout)
	assert.Equal(t, 5*time.Second, f.Tasks[1].Timeout)
	assert.Equal(t, "100/m", f.Tasks[1].Rate.String())
	assert.Equal(t, "100/m", f.Tasks[2].Rate.String())
	assert.Equal(t, "q", f.Tasks[2].Queue)
}

func TestADatabaseIsFoundFromTheFilesFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for dsn, want := range map[string]string{
		"sqlite:weir.db":                             "sqlite:" + dir + "/weir.db",
		"sqlite:./sub/weir.db":                       "sqlite:" + dir + "/sub/weir.db",
		"sqlite:../weir.db":                          "sqlite:" + filepath.Dir(dir) + "/weir.db",
		"sqlite:/var/lib/weir.db":                    "sqlite:/var/lib/weir.db",
		"sqlite:///var/lib/weir.db":                  "sqlite:/var/lib/weir.db",
		"sqlite:weir.db?_pragma=synchronous(1)":      "sqlite:" + dir + "/weir.db?_pragma=synchronous(1)",
		"sqlite:what?.db":                            "sqlite:" + dir + "/what?.db",
		"sqlite:file:a%20b.db?_pragma=cache_size(1)": "sqlite:" + dir + "/a b.db?_pragma=cache_size(1)",
		"postgres://weir@db/weir?schema=weir":        "postgres://weir@db/weir?schema=weir",
		"postgresql:///weir?host=/var/run/postgre":   "postgresql:///weir?host=/var/run/postgre",
	} {
		f, err := Parse(filepath.Join(dir, "weir.yaml"), []byte("database: \""+dsn+"\"\n"))
		if assert.NoError(t, err, dsn) {
			assert.Equal(t, want, f.Database, dsn)
		}
	}
}

func TestNamesMayHoldWhateverPeopleWrite(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(`
tasks:
  "a:b/c d'é🌊": {elsewhere: true, queue: "b:c"}
  42: {elsewhere: true}
  true: {elsewhere: true}
  Stripe: {elsewhere: true}
  stripe: {elsewhere: true}
  queue:x: {elsewhere: true}
queues: {x: {rate_limit: 1/s}}
limits: {"task": {rate: 1/s, tasks: [42, "true", "a:b/c d'é🌊"]}}
`))
	require.NoError(t, err)
	assert.Equal(t, []string{"a:b/c d'é🌊", "42", "true", "Stripe", "stripe", "queue:x"}, f.taskNames())
}
