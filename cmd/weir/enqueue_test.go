package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

// get returns the job that a call printed the id of.
func (b *bundle) get(t *testing.T, printed string) *queue.JobInfo {
	t.Helper()
	require.Regexp(t, `^[0-9a-f-]{36}\n$`, printed)
	job, err := b.client.Get(t.Context(), strings.TrimSpace(printed))
	require.NoError(t, err)
	return job
}

func TestEnqueuePrintsTheIDOfAJobThatHasAllThatTheFlagsSay(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		args := `{"to": "ada"}`
		job := b.get(t, b.ok(t, "enqueue", "send_email", "--args", args, "--queue", "mail", "--priority", "-7",
			"--delay", "1h", "--unique-key", "k", "--metadata", `{"from": "test"}`, "--timeout", "5s", "--max-retries", "0",
			"--id", "018f2f5e-0000-7000-8000-000000000001"))
		assert.Equal(t, "018f2f5e-0000-7000-8000-000000000001", job.ID)
		assert.Equal(t, "send_email", job.Task)
		assert.Equal(t, "mail", job.Queue)
		assert.Equal(t, -7, job.Priority)
		assert.Equal(t, args, string(job.RawArgs))
		assert.JSONEq(t, `{"from": "test"}`, string(job.Metadata))
		assert.Equal(t, "k", job.UniqueKey)
		assert.Equal(t, queue.StateScheduled, job.State)
		assert.Equal(t, time.Hour, job.RunAt.Sub(job.EnqueuedAt))
		assert.Equal(t, 5*time.Second, job.Timeout)
		if assert.NotNil(t, job.MaxRetries) {
			assert.Zero(t, *job.MaxRetries)
		}

		job = b.get(t, b.ok(t, "enqueue", "plain"))
		assert.Equal(t, "default", job.Queue)
		assert.Empty(t, job.RawArgs)
		assert.Nil(t, job.MaxRetries)
		assert.Equal(t, queue.StateWaiting, job.State)

		job = b.get(t, b.ok(t, "enqueue", "plain", "--at", "2222-03-01T09:00:00+01:00"))
		assert.Equal(t, "2222-03-01T08:00:00Z", job.RunAt.Format(time.RFC3339))
	})
}

func TestArgumentsOfAFileAndOfStandardInputAreTakenByteForByte(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	path := filepath.Join(t.TempDir(), "args")
	require.NoError(t, os.WriteFile(path, []byte("any \xff bytes\n"), 0o600))
	assert.Equal(t, "any \xff bytes\n", string(b.get(t, b.ok(t, "enqueue", "t", "--args", "@"+path)).RawArgs))

	r := b.call(call{stdin: "{}\n\x00"}, "enqueue", "t", "--args", "-")
	require.Equal(t, exitOK, r.code, r.err)
	assert.Equal(t, "{}\n\x00", string(b.get(t, r.out).RawArgs))

	r = b.call(call{stdin: strings.Repeat("x", queue.DefaultMaxArgs+10)}, "enqueue", "t", "--args", "-")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "at most 1048576 are allowed: store them elsewhere and pass their name")

	r = b.run("enqueue", "t", "--args", "@/nowhere/args")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "weir: enqueue: --args: open /nowhere/args: no such file or directory")
}

func TestAnEnqueueCanBeRepeated(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	const id = "018f2f5e-0000-7000-8000-000000000002"
	b.ok(t, "enqueue", "t", "--id", id)
	r := b.run("enqueue", "t", "--id", id)
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, id+"\n", r.out)
	assert.Equal(t, "weir: 1 job not stored: a job with that id was there already\n", r.err)
	doc := b.json(t, "enqueue", "t", "--id", id)
	assert.Equal(t, map[string]any{"id": id, "duplicate": false, "existed": true}, doc)
}

func TestASecondJobWithTheUniqueKeyAnswersWithTheFirst(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	first := b.ok(t, "enqueue", "t", "--unique-key", "k")
	r := b.run("enqueue", "t", "--unique-key", "k")
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, first, r.out)
	assert.Contains(t, r.err, "1 job not stored: a live job holds the unique key")
	assert.Equal(t, true, b.json(t, "enqueue", "t", "--unique-key", "k")["duplicate"])
}

func TestCountEnqueuesManyAlike(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	ids := strings.Fields(b.ok(t, "enqueue", "t", "--count", "250", "--args", "1"))
	assert.Len(t, ids, 250)
	page, err := b.client.List(t.Context(), queue.Filter{Task: "t", Limit: 1000})
	require.NoError(t, err)
	assert.Len(t, page.Items, 250)

	receipts := items(t, b.json(t, "enqueue", "t", "--count", "3"))
	require.Len(t, receipts, 3)
	assert.Equal(t, words("id duplicate existed"), keys(receipts[0]))
	assert.Len(t, items(t, b.json(t, "enqueue", "t", "--count", "1")), 1)

	r := b.run("enqueue", "t", "--count", "5", "--unique-key", "k")
	assert.Equal(t, exitOK, r.code)
	assert.Contains(t, r.err, "4 jobs not stored")
}

func TestTheQueueComesFromTheFlagThenTheFileThenTheDatabase(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.drain(t) // registers "works" in "mail"
	path := file(t, "tasks:\n  works: {elsewhere: true, queue: of-file}\n  fails: {elsewhere: true}\n")
	assert.Equal(t, "of-flag", b.get(t, b.ok(t, "enqueue", "works", "-c", path, "--queue", "of-flag")).Queue)
	assert.Equal(t, "of-file", b.get(t, b.ok(t, "enqueue", "works", "-c", path)).Queue)
	assert.Equal(t, "mail", b.get(t, b.ok(t, "enqueue", "works")).Queue)
	assert.Equal(t, "default", b.get(t, b.ok(t, "enqueue", "fails", "-c", path)).Queue)

	r := b.run("enqueue", "wroks", "-c", path)
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, `weir: note: task "wroks" is not in `+path+` (did you mean "works"?): its jobs wait until a process runs it`+"\n", r.err)
	assert.Equal(t, "default", b.get(t, r.out).Queue)
	r = b.call(call{stdin: "{\"task\": \"quite_another\"}\n{\"task\": \"quite_another\"}\n"}, "enqueue", "--stdin", "-c", path)
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, `weir: note: task "quite_another" is not in `+path+`: its jobs wait until a process runs it`+"\n", r.err)

	r = b.call(call{stdin: `{"task": "works"}`}, "enqueue", "--stdin", "--json", "-c", path)
	require.Equal(t, exitOK, r.code, r.err)
	id, ok := document(t, r.out)["id"].(string)
	require.True(t, ok)
	assert.Equal(t, "of-file", b.get(t, id+"\n").Queue)
}
