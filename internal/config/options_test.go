package config

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// runs makes a scheduler of a file on a database of its own.
func runs(t *testing.T, path string) (*queue.Client, *scheduler.Scheduler) {
	t.Helper()
	f, err := Load(path)
	require.NoError(t, err)
	client, err := queue.Open(t.Context(), storetest.SQLite(t).DSN)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	log := slog.New(slog.DiscardHandler)
	s, err := scheduler.New(client, append(f.Options(), scheduler.Logger(log))...)
	require.NoError(t, err)
	require.NoError(t, f.Register(s, log))
	require.NoError(t, s.Validate())
	return client, s
}

func TestAFileRunsAsItIsWritten(t *testing.T) {
	t.Parallel()
	path := write(t, `
concurrency: 3
lease: 10s
shutdown_grace: 1s
tasks:
  greet:
    rate_limit: {rate: 100/h, burst: 7}
    queue: mail
    timeout: 1m
    max_retries: 0
    retry_backoff: {base: 1s, factor: 2, max: 10s, jitter: 0.5}
    exec: {command: [/bin/sh, greet.sh]}
  sample:
    rate_limit: 2/h
    defer: until_token
    on_excess: drop
    exec: {command: ["true"]}
  fails:
    max_retries: 0
    exec: {command: [/bin/sh, -c, "echo no luck >&2; exit 3"]}
  other: {elsewhere: true, queue: mail}
queues:
  mail: {rate_limit: 50/h, burst: 9}
limits:
  stripe: {rate: 5/h, tasks: [greet, other], queues: [mail]}
`)
	dir := filepath.Dir(path)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "greet.sh"), []byte(`printf '%s %s %s: ' "$WEIR_TASK" "$WEIR_QUEUE" "$WEIR_ATTEMPT" > out; cat >> out`), 0o600))
	client, s := runs(t, path)

	_, err := client.EnqueueMany(t.Context(), []queue.NewJob{
		{Task: "greet", Queue: "mail", Args: []byte(`{"name": "Ada"}`)},
		{Task: "fails"},
		{Task: "sample"},
		{Task: "sample"},
		{Task: "sample"},
	})
	require.NoError(t, err)
	require.NoError(t, s.Drain(t.Context()))

	out, err := os.ReadFile(filepath.Join(dir, "out"))
	require.NoError(t, err)
	assert.Equal(t, `greet mail 1: {"name": "Ada"}`, string(out))
	stats := s.Stats()
	assert.Equal(t, []int64{3, 1, 1, 3}, []int64{stats.Completed, stats.Failed, stats.Shed, stats.Free})

	limits, err := client.Limits(t.Context())
	require.NoError(t, err)
	var names []string
	for _, l := range limits {
		names = append(names, l.Name+" "+l.Rate)
	}
	assert.Equal(t, []string{"queue:mail 50/h", "stripe 5/h", "task:greet 100/h", "task:sample 2/h"}, names)
	tasks, err := client.Tasks(t.Context())
	require.NoError(t, err)
	require.Len(t, tasks, 3)
	assert.Equal(t, "mail", tasks[1].Queue)
}

func TestAJobIsPostedToTheURLOfItsTask(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Weir-Task")] = fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("X-Team"), " ", r.Header.Get("Weir-Attempt"), " ", string(body))
		switch r.URL.Path {
		case "/busy":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no luck")
		}
	}))
	t.Cleanup(server.Close)
	client, s := runs(t, write(t, fmt.Sprintf(`
tasks:
  call: {http: {url: "%[1]s/call?a=b", headers: {X-Team: mail}}}
  busy: {http: {url: "%[1]s/busy"}, retry_backoff: {base: 1ms}}
  broken: {http: {url: "%[1]s/broken"}, max_retries: 0}
`, server.URL)))
	receipts, err := client.EnqueueMany(t.Context(), []queue.NewJob{{Task: "call", Args: []byte(`{"n": 1}`)}, {Task: "busy"}, {Task: "broken"}})
	require.NoError(t, err)
	require.NoError(t, s.Drain(t.Context()))
	assert.Equal(t, map[string]string{"call": `POST /call?a=b mail 1 {"n": 1}`, "busy": "POST /busy  1 ", "broken": "POST /broken  1 "}, got)

	job, err := client.Get(t.Context(), receipts[0].ID)
	require.NoError(t, err)
	assert.Equal(t, queue.StateCompleted, job.State)
	job, err = client.Get(t.Context(), receipts[1].ID)
	require.NoError(t, err)
	assert.Equal(t, queue.StateScheduled, job.State)
	assert.Regexp(t, `^POST http://127\.0\.0\.1:\d+[^?]*: answer 503 Service Unavailable$`, job.LastError)
	assert.InDelta(t, time.Hour, job.RunAt.Sub(job.StartedAt), float64(time.Minute), "when the answer asked for it, not after the back-off")
	entry, err := dlq.From(client).Get(t.Context(), receipts[2].ID)
	require.NoError(t, err)
	assert.Regexp(t, `^POST http://127\.0\.0\.1:\d+[^?]*: answer 500 Internal Server Error\nno luck$`, entry.Reason)
}

func TestTheFilesCapsBreakersAndListsOfRatesAreInForce(t *testing.T) {
	t.Parallel()
	client, s := runs(t, write(t, `
retention: {completed: 0}
tasks:
  fails:
    max_retries: 0
    concurrency: 1
    breaker: {failures: 2, open: 1h}
    exec: {command: ["false"]}
  alone: &alone
    queue: narrow
    max_retries: 0
    exec: {command: [/bin/sh, -c, "mkdir lock && sleep 0.02 && rmdir lock"]}
  alone too: *alone
  listed:
    rate_limit: [{rate: 1/s, burst: 4}, 3/h]
    exec: {command: ["true"]}
queues:
  narrow: {concurrency: 1}
`))
	jobs := slices.Concat(
		slices.Repeat([]queue.NewJob{{Task: "fails"}}, 5),
		slices.Repeat([]queue.NewJob{{Task: "alone", Queue: "narrow"}, {Task: "alone too", Queue: "narrow"}}, 4),
		slices.Repeat([]queue.NewJob{{Task: "listed"}}, 9),
	)
	_, err := client.EnqueueMany(t.Context(), jobs)
	require.NoError(t, err)
	require.NoError(t, s.Drain(t.Context()))
	left := map[string]int{}
	page, err := client.List(t.Context(), queue.Filter{States: []queue.State{queue.StateWaiting}})
	require.NoError(t, err)
	for _, j := range page.Items {
		left[j.Task]++
	}
	assert.Equal(t, map[string]int{"fails": 3, "listed": 6}, left)
	stats := s.Stats()
	assert.Equal(t, []int64{11, 2}, []int64{stats.Completed, stats.Failed})

	limits, err := client.Limits(t.Context())
	require.NoError(t, err)
	var names []string
	for _, l := range limits {
		names = append(names, l.Name+" "+l.Rate)
	}
	assert.Equal(t, []string{"task@h:listed 3/h", "task@s:listed 1/s"}, names)
}

func TestARetentionIsAnOptionWhereTheFileGivesOne(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]int{"retention: {completed: 24h}\n": 1, "retention: {completed: 0}\n": 1, "retention:  {}\n": 0, "retention: {shed: 24h, failed: {count: 9}}\n": 2} {
		f, err := Parse("weir.yaml", []byte(content))
		require.NoError(t, err)
		assert.Len(t, f.Options(), want)
	}
}
