package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
)

// jobKeys are the names of a job in JSON.
const jobKeys = `id task queue state priority args metadata attempt max_retries deferrals run_at first_due_at enqueued_at
	started_at finished_at expires_at unique_key replay_of last_error`

func TestJobsAreListedByStateTaskAndQueue(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		done := strings.TrimSpace(b.ok(t, "enqueue", "works", "--args", `{"n": 1}`))
		b.drain(t)
		waiting := strings.TrimSpace(b.ok(t, "enqueue", "unheard-of", "--queue", "q"))
		later := strings.TrimSpace(b.ok(t, "enqueue", "works", "--delay", "1h"))
		for _, c := range []struct {
			args []string
			want []string
		}{
			{nil, []string{later, waiting, done}},
			{[]string{"--state", "completed"}, []string{done}},
			{[]string{"--state", "waiting"}, []string{waiting}},
			{[]string{"--state", "scheduled"}, []string{later}},
			{[]string{"--state", "pending"}, []string{later, waiting}},
			{[]string{"--state", "waiting,completed"}, []string{waiting, done}},
			{[]string{"--state", "running", "--state", "cancelled"}, []string{}},
			{[]string{"--task", "works"}, []string{later, done}},
			{[]string{"--queue", "q"}, []string{waiting}},
			{[]string{"--queue", "nowhere"}, []string{}},
		} {
			doc := b.json(t, append([]string{"jobs", "list"}, c.args...)...)
			ids := []string{}
			for _, job := range items(t, doc) {
				ids = append(ids, job["id"].(string))
				assert.Equal(t, words(jobKeys), keys(job))
			}
			assert.Equal(t, c.want, ids, "%v", c.args)
			assert.Nil(t, doc["next"])
		}
		table := b.ok(t, "jobs", "list")
		rows := strings.Split(strings.TrimSpace(table), "\n")
		require.Len(t, rows, 4)
		assert.Regexp(t, `^ID +TASK +QUEUE +STATE `, rows[0])
		assert.Regexp(t, `^`+waiting+` +unheard-of +q +waiting +0 +0 +0 `, rows[2])
		assert.Equal(t, "no jobs\n", b.ok(t, "jobs", "list", "--queue", "nowhere"))
	})
}

func TestPagesOfAListFollowEachOther(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.ok(t, "enqueue", "t", "--count", "5")
	seen := map[any]bool{}
	args := []string{"jobs", "list", "--limit", "2"}
	for pages := 1; ; pages++ {
		doc := b.json(t, args...)
		for _, job := range items(t, doc) {
			seen[job["id"]] = true
		}
		next, more := doc["next"].(string)
		if !more {
			assert.Equal(t, 3, pages)
			break
		}
		args = []string{"jobs", "list", "--limit", "2", "--cursor", next}
	}
	assert.Len(t, seen, 5)
	assert.Contains(t, b.ok(t, "jobs", "list", "--limit", "2"), "\n\nmore: add --cursor ")
}

func TestAJobIsShownWithItsArguments(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	id := strings.TrimSpace(b.ok(t, "enqueue", "works", "--args", `{"n": 1}`, "--metadata", `{"by": "me"}`))
	b.drain(t)
	job := b.json(t, "jobs", "show", id)
	assert.Equal(t, words(jobKeys+" args_base64"), keys(job))
	assert.Equal(t, map[string]any{"by": "me"}, job["metadata"])
	assert.Equal(t, "eyJuIjogMX0=", job["args_base64"])
	assert.Equal(t, "completed", job["state"])
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, job["finished_at"])
	text := b.ok(t, "jobs", "show", id)
	for _, want := range []string{`id +` + id, `state +completed`, `args +\{"n": 1\}`, `metadata +\{"by":"me"\}`, `finished +\d{4}-.* UTC \(`} {
		assert.Regexp(t, want, text)
	}
}

func TestAJobThatDiedPointsToItsDeadLetter(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	id := strings.TrimSpace(b.ok(t, "enqueue", "fails"))
	b.drain(t)
	r := b.run("jobs", "show", id)
	assert.Equal(t, exitFailure, r.code)
	assert.Equal(t, "weir: job "+id+" is dead: see its dead letter, `weir dlq show 1`\n", r.err)
	r = b.run("jobs", "show", "018f2f5e-0000-7000-8000-000000000000")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "not found")
}

func TestCancelEndsWhatHasNotEndedAndSaysWhatElseThereIs(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	done := strings.TrimSpace(b.ok(t, "enqueue", "works"))
	dead := strings.TrimSpace(b.ok(t, "enqueue", "fails"))
	b.drain(t)
	waiting := strings.TrimSpace(b.ok(t, "enqueue", "t"))
	assert.Equal(t, waiting+" cancelled\n", b.ok(t, "jobs", "cancel", waiting))
	b.ok(t, "jobs", "cancel", waiting) // again: nothing to do, and no error
	other := strings.TrimSpace(b.ok(t, "enqueue", "t"))

	r := b.run("jobs", "cancel", done, other, dead, "--json")
	assert.Equal(t, exitFailure, r.code)
	outcomes := items(t, document(t, r.out))
	require.Len(t, outcomes, 3)
	assert.Equal(t, words("id state error"), keys(outcomes[0]))
	assert.Equal(t, []any{"completed", "cancelled", "dead"}, []any{outcomes[0]["state"], outcomes[1]["state"], outcomes[2]["state"]})
	assert.Nil(t, outcomes[1]["error"])
	assert.Contains(t, r.err, "only a job that has not ended can be cancelled")
	assert.Contains(t, r.err, "weir dlq show")
}
