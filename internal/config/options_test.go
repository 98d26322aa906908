package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

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

	_, err = client.EnqueueMany(t.Context(), []queue.NewJob{
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
