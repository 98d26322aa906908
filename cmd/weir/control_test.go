package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

// limitKeys are the names of a limit in JSON.
const limitKeys = "name rate burst strategy source level capacity held_until next_token_at waiting deferred shed started paused"

func TestAnOverrideIsSetShownAndTakenAway(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		b.drain(t)
		assert.Equal(t, "stripe set to 50/m until it is unset\n", b.ok(t, "limits", "set", "stripe", "50/m"))
		assert.Regexp(t, `(?m)^stripe +50/m \(override\) .* until it is unset$`, b.ok(t, "limits", "list"))
		assert.Regexp(t, `(?m)^override until +until it is unset$`, b.ok(t, "limits", "show", "stripe"))
		doc := b.json(t, "limits", "show", "stripe")
		assert.Equal(t, words(limitKeys), keys(doc))
		assert.Equal(t, "override", doc["source"])

		out := b.ok(t, "limits", "set", "stripe", " 2 / 30sec ", "--burst", "3", "--for", "1h", "--reason", "their incident 4711")
		assert.Regexp(t, `^stripe set to 2/30s burst 3 until \d{4}-\d\d-\d\d [0-9:.]+ UTC \(in (1h00m|59m5\ds)\)\n$`, out)
		doc = b.json(t, "limits", "list")
		stripe := items(t, doc)[1]
		assert.Equal(t, words(limitKeys+" override_until override_reason"), keys(stripe))
		assert.Equal(t, []any{"stripe", "2/30s", "override", "their incident 4711", false},
			[]any{stripe["name"], stripe["rate"], stripe["source"], stripe["override_reason"], stripe["paused"]})
		until, err := time.Parse(time.RFC3339Nano, stripe["override_until"].(string))
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now().Add(time.Hour), until, time.Minute)
		assert.Regexp(t, `(?m)^stripe +2/30s burst 3 \(override\) .* ends in \S+: their incident 4711$`, b.ok(t, "limits", "list"))
		show := b.ok(t, "limits", "show", "stripe")
		assert.Regexp(t, `(?m)^override until +\d{4}-.* UTC \(in \S+\)$`, show)
		assert.Regexp(t, `(?m)^override reason +their incident 4711$`, show)

		assert.Equal(t, "stripe unset\n", b.ok(t, "limits", "unset", "stripe"))
		assert.Equal(t, "declared", b.json(t, "limits", "show", "stripe")["source"])
		assert.Equal(t, "declared", b.json(t, "limits", "unset", "stripe")["source"], "again")
		assert.Equal(t, "5/m", b.json(t, "limits", "set", "stripe", "5/m")["rate"])
	})
}

func TestARateThatIsNoneIsRefusedWithTheSameWordsAsEverywhere(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.drain(t)
	for rate, want := range map[string]string{
		"100/mo": `rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`,
		"100":    `rate "100": no "/": write a count and a period, as in "100/m"`,
		"0/s":    `rate "0/s": count "0" is below 1: use at least 1 and a longer period, as in "1/15m"`,
		"nan/s":  `rate "nan/s": count "nan" is not a plain decimal number: use ASCII digits alone, as in "100/m" or "1.5/s"`,
		"":       `rate "": it is empty: write a count and a period, as in "100/m"`,
	} {
		r := b.run("limits", "set", "stripe", rate)
		assert.Equal(t, exitUsage, r.code, rate)
		assert.Equal(t, `weir: limit "stripe": `+want+"\n", r.err)
		assert.Empty(t, r.out)
	}
	for _, burst := range []string{"0", "-1", "1000000001"} {
		r := b.run("limits", "set", "stripe", "1/s", "--burst", burst)
		assert.Equal(t, exitUsage, r.code)
		assert.Equal(t, `weir: limit "stripe": burst `+burst+": use a whole number from 1 to 1000000000, as in burst 20\n", r.err)
	}
	assert.Equal(t, "declared", b.json(t, "limits", "show", "stripe")["source"], "nothing was stored")

	r := b.run("limits", "set", "task@m:resize", "5/s")
	assert.Equal(t, exitUsage, r.code)
	assert.Equal(t, `weir: limit "task@m:resize": rate "5/s": one of a list of rates keeps its period: use a count per m, as in "100/m"`+"\n", r.err)
}

func TestALimitThatNoSchedulerDeclaredCannotBeChanged(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	for _, args := range [][]string{{"set", "strip", "1/s"}, {"unset", "strip"}, {"pause", "strip"}, {"resume", "strip"}} {
		r := b.run(append([]string{"limits"}, args...)...)
		assert.Equal(t, exitFailure, r.code, "%v", args)
		assert.Equal(t, "weir: limit \"strip\": not found: `weir limits list` shows those that a scheduler has declared\n", r.err)
	}
}

func TestTheLimitAndTheQueueThatWereProbablyMeantAreProposed(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.drain(t)
	for name, want := range map[string]string{"strip": "stripe", "sample": "task:sample", "mail": "queue:mail"} {
		for _, args := range [][]string{{"set", name, "1/s"}, {"unset", name}, {"show", name}, {"pause", name}, {"resume", name}} {
			r := b.run(append([]string{"limits"}, args...)...)
			assert.Equal(t, exitFailure, r.code, "%v", args)
			assert.Contains(t, r.err, `: did you mean "`+want+`"?`, "%v", args)
		}
	}
	before := b.ok(t, "queues", "list")
	for name, note := range map[string]string{"mial": `: did you mean "mail"?`, "somewhere": ""} {
		r := b.run("queues", "pause", name)
		assert.Equal(t, exitOK, r.code)
		assert.Equal(t, `weir: note: no task, limit or job names the queue "`+name+`" so far`+note+"\n", r.err)
		assert.Contains(t, b.ok(t, "queues", "list"), name)
		assert.Equal(t, name+" resumed\n", b.ok(t, "queues", "resume", name))
		assert.Equal(t, false, b.json(t, "queues", "resume", name)["paused"], "again")
	}
	assert.Equal(t, before, b.ok(t, "queues", "list"), "a queue that is named by nothing is gone from it")
	assert.Empty(t, b.run("queues", "pause", "mail").err)
}

func TestWhatIsPausedWaitsAndIsShownAsSuch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		b.drain(t)
		assert.Equal(t, "stripe paused\n", b.ok(t, "limits", "pause", "stripe"))
		assert.Equal(t, "mail paused\n", b.ok(t, "queues", "pause", "mail"))
		assert.Equal(t, true, b.json(t, "limits", "pause", "stripe")["paused"], "again")
		doc := document(t, b.run("queues", "pause", "nobody's", "--json").out)
		assert.Equal(t, []any{"nobody's", true}, []any{doc["name"], doc["paused"]}, "a queue that nothing is in yet")
		assert.Regexp(t, `(?m)^stripe +5/h burst 7 +7 of 7 +paused +0 `, b.ok(t, "limits", "list"))
		assert.Regexp(t, `(?m)^paused +yes$`, b.ok(t, "limits", "show", "stripe"))
		assert.Regexp(t, `(?m)^mail +0 +0 +0 +- +yes$`, b.ok(t, "queues", "list"))

		byQueue := strings.TrimSpace(b.ok(t, "enqueue", "fails", "--queue", "mail"))
		byLimit := strings.TrimSpace(b.ok(t, "enqueue", "works", "--queue", "other"))
		b.drain(t)
		for _, id := range []string{byQueue, byLimit} {
			assert.Equal(t, "waiting", b.json(t, "jobs", "show", id)["state"])
		}
		assert.Equal(t, "stripe resumed\n", b.ok(t, "limits", "resume", "stripe"))
		b.drain(t)
		assert.Equal(t, "waiting", b.json(t, "jobs", "show", byQueue)["state"])
		assert.Equal(t, "completed", b.json(t, "jobs", "show", byLimit)["state"])
		assert.Equal(t, false, b.json(t, "queues", "resume", "mail")["paused"])
		b.drain(t)
		assert.Equal(t, exitFailure, b.run("jobs", "show", byQueue).code, "it is dead by now")
	})
}

func TestAScheduledJobIsBroughtIntoLine(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		id := strings.TrimSpace(b.ok(t, "enqueue", "works", "--delay", "1h"))
		other := strings.TrimSpace(b.ok(t, "enqueue", "works", "--delay", "1h"))
		assert.Equal(t, id+" brought into line\n", b.ok(t, "jobs", "retry", id))
		assert.Equal(t, "waiting", b.json(t, "jobs", "show", id)["state"])
		b.drain(t)
		assert.Equal(t, "completed", b.json(t, "jobs", "show", id)["state"])

		r := b.run("jobs", "retry", id, other, "--json")
		assert.Equal(t, exitFailure, r.code)
		outcomes := items(t, document(t, r.out))
		assert.Equal(t, map[string]any{
			"id": id, "state": "completed",
			"error": "job " + id + " is completed: only a scheduled job, or one that waits for its next attempt, can be brought into line",
		}, outcomes[0])
		assert.Equal(t, map[string]any{"id": other, "state": "waiting", "error": nil}, outcomes[1], "one that cannot does not keep the others")
	})
}

func TestADeadJobIsNotRetriedButReplayed(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	id := strings.TrimSpace(b.ok(t, "enqueue", "fails"))
	b.drain(t)
	r := b.run("jobs", "retry", id)
	assert.Equal(t, exitFailure, r.code)
	assert.Equal(t, "weir: job "+id+" is dead: make a new job of it with `weir dlq replay 1`\n", r.err)
	r = b.run("jobs", "retry", id, "--json")
	assert.Equal(t, "dead", items(t, document(t, r.out))[0]["state"])
	b.ok(t, "dlq", "replay", "1")

	r = b.run("jobs", "retry", "018f2f5e-0000-7000-8000-000000000000")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "not found: it never was")
	r = b.run("jobs", "retry", "7")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, `job "7": not a UUID`)
}

func TestAnEnqueueSaysByWhenAJobMustHaveStarted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		job := b.get(t, b.ok(t, "enqueue", "works", "--start-within", "90s"))
		assert.Equal(t, 90*time.Second, job.ExpiresAt.Sub(job.EnqueuedAt))
		job = b.get(t, b.ok(t, "enqueue", "works", "--start-before", "2222-03-01T09:00:00+01:00"))
		assert.Equal(t, "2222-03-01T08:00:00Z", job.ExpiresAt.Format(time.RFC3339))
		assert.Regexp(t, `(?m)^start before +2222-03-01 08:00:00\.000 UTC \(in `, b.ok(t, "jobs", "show", job.ID))
		assert.Equal(t, "2222-03-01T08:00:00.000000Z", b.json(t, "jobs", "show", job.ID)["expires_at"])

		r := b.call(call{stdin: `{"task": "works", "start_before": "2222-03-01T08:00:00Z"}` + "\n" + `{"task": "works", "start_within": "90s"}`}, "enqueue", "--stdin", "--json")
		require.Equal(t, exitOK, r.code, r.err)
		receipts := lines(t, r.out)
		assert.Equal(t, job.ExpiresAt, b.get(t, receipts[0].ID+"\n").ExpiresAt)
		job = b.get(t, receipts[1].ID+"\n")
		assert.Equal(t, 90*time.Second, job.ExpiresAt.Sub(job.EnqueuedAt))

		late := strings.TrimSpace(b.ok(t, "enqueue", "works", "--start-before", "2020-03-01T09:00:00Z"))
		b.drain(t)
		_, err := b.client.Get(t.Context(), late)
		var dead *queue.DeadError
		require.ErrorAs(t, err, &dead)
		letter := b.json(t, "dlq", "show", late)
		assert.Equal(t, "expired", letter["kind"])
		assert.Contains(t, letter["reason"], "expired: not started by 2020-03-01T09:00:00")
	})
}

func TestTheExamplesFilesHaveNothingToComplainAbout(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"quickstart", "multiprocess"} {
		r := call{}.run("check", "--strict", "../../examples/"+name+"/weir.yaml")
		assert.Equal(t, exitOK, r.code, "%s%s", r.out, r.err)
	}
}
