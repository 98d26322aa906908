package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

// serving is a running serve.
type serving struct {
	call

	done chan result
	path string // of its file
	dir  string
}

// start runs serve with a file that names the database, until the test stops
// it.
func start(t *testing.T, dsn, content string, c call, args ...string) *serving {
	t.Helper()
	s := &serving{call: c, done: make(chan result, 1)}
	s.path = file(t, fmt.Sprintf("database: %q\n%s", dsn, content))
	s.dir = filepath.Dir(s.path)
	s.signals, s.exited, s.stderr = make(chan os.Signal, 2), make(chan int, 1), &screen{}
	go func() { s.done <- s.run(append([]string{"serve", "-c", s.path}, args...)...) }()
	return s
}

// wait returns what serve ended with.
func (s *serving) wait(t *testing.T) result {
	t.Helper()
	select {
	case r := <-s.done:
		return r
	case <-time.After(patience):
		t.Fatalf("serve did not end; it said:\n%s", s.stderr)
		return result{}
	}
}

// ready waits until serve has said that it serves.
func (s *serving) ready(t *testing.T) {
	t.Helper()
	require.Eventually(t, s.stderr.shows("serving"), patience, time.Millisecond, "%s", s.stderr)
}

func (b *bundle) reaches(t *testing.T, id string, state queue.State) {
	t.Helper()
	require.Eventually(t, func() bool {
		job, err := b.client.Get(context.Background(), id)
		return err == nil && job.State == state
	}, patience, 10*time.Millisecond)
}

const serveFile = `
concurrency: 5
listen: 127.0.0.1:8377
tasks:
  greet:
    rate_limit: 100/m
    queue: mail
    exec: {command: [/bin/sh, -c, "cat > greeted"]}
  sample:
    rate_limit: {rate: 2/h, burst: 2}
    on_excess: drop
    exec: {command: ["true"]}
  other: {elsewhere: true}
queues:
  mail: {rate_limit: 500/m}
limits:
  stripe: {rate: 100/m, tasks: [greet, other]}
`

func TestServeRunsTheFilesTasksUntilItIsAskedToStop(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		s := start(t, db.DSN, serveFile, call{}) // it makes the database
		s.ready(t)
		b := setup(t, db)
		args := `{"name": "Ada"}`
		id := strings.TrimSpace(b.ok(t, "enqueue", "greet", "--args", args))
		b.ok(t, "enqueue", "sample", "--count", "5")
		b.reaches(t, id, queue.StateCompleted)
		require.Eventually(t, func() bool { return len(items(t, b.json(t, "dlq", "list", "--kind", "shed"))) == 3 }, patience, 10*time.Millisecond)
		s.signals <- syscall.SIGTERM
		r := s.wait(t)
		assert.Equal(t, exitOK, r.code, r.err)
		got, err := os.ReadFile(filepath.Join(s.dir, "greeted"))
		require.NoError(t, err)
		assert.Equal(t, args, string(got))

		assert.Regexp(t, `(?m)^database +(sqlite:|postgres://)`, r.out)
		assert.Regexp(t, `(?m)^concurrency +5$`, r.out)
		assert.Regexp(t, `(?m)^greet +mail +100/m +defer +/bin/sh -c cat > greeted$`, r.out)
		assert.Regexp(t, `(?m)^sample +default +2/h burst 2 +drop +true$`, r.out)
		assert.Regexp(t, `(?m)^queue:mail +500/m +queues mail$`, r.out)
		assert.Regexp(t, `(?m)^stripe +100/m +tasks greet, other$`, r.out)
		assert.Contains(t, r.out, `:4:9: W208 listen: listen "127.0.0.1:8377" is ignored: this version has no HTTP server: leave it out`+"\n")
		assert.Contains(t, r.err, "msg=stopping cause=terminated")
		assert.Contains(t, r.err, "msg=stopped started=3 completed=3 failed=0")
	})
}

func TestServeWaitsForWhatRunsAndASecondSignalDoesNot(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	s := start(t, b.dsn, `
shutdown_grace: 1500ms
tasks:
  stubborn: {exec: {command: [/bin/sh, -c, "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done"]}}
`, call{})
	s.ready(t)
	id := strings.TrimSpace(b.ok(t, "enqueue", "stubborn"))
	b.reaches(t, id, queue.StateRunning)
	s.signals <- syscall.SIGINT
	require.Eventually(t, s.stderr.shows("msg=stopping"), patience, time.Millisecond)
	s.signals <- syscall.SIGINT
	assert.Equal(t, exitFailure, <-s.exited, "in the program this is the end")

	// Here it goes on: the command is killed, and the job given back.
	r := s.wait(t)
	assert.Equal(t, exitOK, r.code, r.err)
	job, err := b.client.Get(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, queue.StateWaiting, job.State)
}

func TestAJobOfACommandThatFailsIsTriedAgainAndThenADeadLetter(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	s := start(t, b.dsn, `
tasks:
  flaky:
    max_retries: 1
    retry_backoff: {base: 1ms}
    exec: {command: [/bin/sh, -c, "echo attempt $WEIR_ATTEMPT went wrong >&2; exit 4"]}
  slow:
    timeout: 100ms
    max_retries: 0
    exec: {command: [sleep, "60"]}
`, call{}, "--log-format", "json", "--log-level", "debug")
	s.ready(t)
	b.ok(t, "enqueue", "flaky")
	b.ok(t, "enqueue", "slow")
	var reasons map[any]any
	require.Eventually(t, func() bool {
		reasons = map[any]any{}
		for _, l := range items(t, b.json(t, "dlq", "list")) {
			reasons[l["task"]] = l["reason"]
		}
		return len(reasons) == 2
	}, patience, 10*time.Millisecond)
	assert.Equal(t, map[any]any{"flaky": "exit status 4: attempt 2 went wrong", "slow": "stopped: timed out after 100ms (signal: terminated)"}, reasons)
	s.signals <- syscall.SIGTERM
	r := s.wait(t)
	assert.Equal(t, exitOK, r.code)
	assert.Contains(t, r.err, `"msg":"stopping","cause":"terminated","running":0,"grace":"30s"`)
	for line := range strings.Lines(r.err) {
		assert.True(t, json.Valid([]byte(line)), "%q", line)
	}
	assert.Contains(t, r.err, `"msg":"command_output"`)
}

func TestProgressIsShownAtATerminalWhileThereIsWork(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	s := start(t, b.dsn, `
tasks:
  nap: {exec: {command: [sleep, "0.01"]}}
`, call{terminal: true})
	b.ok(t, "enqueue", "nap", "--count", "20")
	require.Eventually(t, s.stderr.shows("done 20"), patience, 10*time.Millisecond)
	s.signals <- syscall.SIGINT
	r := s.wait(t)
	assert.Equal(t, exitOK, r.code)
	assert.Contains(t, r.err, eraseLine+"running ")
	assert.Contains(t, r.err, "weir: interrupt: stopping; 0 running jobs may take up to 30s; a second signal ends it at once\n")
	assert.Contains(t, r.err, "\nweir: stopped: 20 started, 20 completed, 0 failed\n")
	assert.NotContains(t, r.err, "level=INFO")
}

func TestASecondSignalLeavesTheTerminalOnALineOfItsOwn(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	s := start(t, b.dsn, `
shutdown_grace: 1s
tasks:
  long: {exec: {command: [sleep, "60"]}}
`, call{terminal: true})
	b.ok(t, "enqueue", "long")
	require.Eventually(t, s.stderr.shows("running 1"), patience, 10*time.Millisecond)
	s.signals <- syscall.SIGINT
	s.signals <- syscall.SIGINT
	assert.Equal(t, exitFailure, <-s.exited, "in the program this is the end")
	assert.Regexp(t, `weir: interrupt: ended at once; [^\n]*\n[^\n]*running 1[^\n]*\n$`, s.stderr)
	s.wait(t)
}

func TestServeSaysInOneDocumentWhatItRuns(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	s := start(t, b.dsn, serveFile, call{}, "--json")
	s.ready(t)
	s.signals <- syscall.SIGTERM
	r := s.wait(t)
	require.Equal(t, exitOK, r.code, r.err)
	doc := document(t, r.out)
	assert.Equal(t, words("database concurrency tasks limits schedules warnings"), keys(doc))
	tasks, ok := doc["tasks"].([]any)
	require.True(t, ok)
	first, ok := tasks[0].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, words("name queue rate_limit on_excess max_retries timeout command url"), keys(first))
	limits, err := json.Marshal(doc["limits"])
	require.NoError(t, err)
	assert.JSONEq(t, `[
		{"name": "task:greet", "rate": "100/m", "burst": null, "exact": false, "tasks": ["greet"], "queues": []},
		{"name": "task:sample", "rate": "2/h", "burst": 2, "exact": false, "tasks": ["sample"], "queues": []},
		{"name": "queue:mail", "rate": "500/m", "burst": null, "exact": false, "tasks": [], "queues": ["mail"]},
		{"name": "stripe", "rate": "100/m", "burst": null, "exact": false, "tasks": ["greet", "other"], "queues": []}
	]`, string(limits))
}

func TestServePostsTheJobsOfATaskWithAURL(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- fmt.Sprint(r.URL, " ", r.Header.Get("X-Team"), " ", r.Header.Get("Weir-Job-Id"), " ", string(body))
	}))
	t.Cleanup(web.Close)
	b := sqlite(t)
	s := start(t, b.dsn, fmt.Sprintf(`
tasks:
  call:
    http: {url: "%s/send?key=secret", headers: {X-Team: mail}}
    rate_limit: [{rate: 5/s, burst: 10}, 100/m]
    concurrency: 3
    breaker: {failures: 3}
`, web.URL), call{})
	s.ready(t)
	id := strings.TrimSpace(b.ok(t, "enqueue", "call", "--args", `{"n": 1}`))
	b.reaches(t, id, queue.StateCompleted)
	assert.Equal(t, `/send?key=secret mail `+id+` {"n": 1}`, <-asked)
	s.signals <- syscall.SIGTERM
	r := s.wait(t)
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Regexp(t, `(?m)^call +default +5/s burst 10, 100/m +defer +POST `+web.URL+`/send\?\.\.\.$`, r.out)
	assert.NotContains(t, r.out+r.err, "secret")
	assert.NotContains(t, r.out, "task@")
}

func TestServeThatIsAskedToStopBeforeItBeganStops(t *testing.T) {
	t.Parallel()
	for range 10 {
		b := sqlite(t)
		s := start(t, b.dsn, serveFile, call{})
		s.signals <- syscall.SIGTERM
		r := s.wait(t)
		assert.Equal(t, exitOK, r.code, r.err)
		assert.Contains(t, r.err, "msg=stopped")
	}
}

func TestServeRefusesWhatItCannotRun(t *testing.T) {
	t.Parallel()
	dsn := storetest.SQLite(t).DSN
	for _, c := range []struct {
		name, content, want string
		code                int
		args                []string
	}{
		{"no tasks", "tasks: {other: {elsewhere: true}}\n", "no task runs here: add one", exitFailure, nil},
		{"a folder that is not there", "tasks: {t: {exec: {command: [\"true\"]}}}\n", "there is no folder /nowhere/at/all: make it", exitFailure, []string{"--database", "sqlite:/nowhere/at/all/weir.db"}},
		{"a schema that is not there", "migrate: check\ntasks: {t: {exec: {command: [\"true\"]}}}\n", "weir migrate up", exitFailure, nil},
		{"a log level", "tasks: {t: {exec: {command: [\"true\"]}}}\n", `--log-level "loud": use debug, info, warn or error`, exitUsage, []string{"--log-level", "loud"}},
		{"a log format", "tasks: {t: {exec: {command: [\"true\"]}}}\n", `--log-format "xml": use text or json`, exitUsage, []string{"--log-format", "xml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, dsn, c.content, call{}, c.args...).wait(t)
			assert.Equal(t, c.code, r.code)
			assert.Contains(t, r.err, c.want)
			assert.Empty(t, r.out)
		})
	}
}
