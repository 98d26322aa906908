package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
)

// letterKeys are the names of a dead letter in JSON.
const letterKeys = `id job_id task queue kind reason metadata job_metadata args attempts errors priority unique_key max_retries timeout
	deferrals enqueued_at first_due_at dead_at replays`

// graves makes two dead letters of "fails" and three sheds of "sample".
func graves(t *testing.T, b *bundle) {
	t.Helper()
	b.ok(t, "enqueue", "fails", "--count", "2", "--args", `{"n": 1}`, "--metadata", `{"by": "me"}`)
	b.drain(t) // so that they are the entries 1 and 2
	b.ok(t, "enqueue", "sample", "--count", "5")
	b.drain(t)
}

func TestDeadLettersAreListedShownAndCounted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		assert.Equal(t, "no dead letters\n", b.ok(t, "dlq", "list"))
		graves(t, b)
		for _, c := range []struct {
			args []string
			want int
		}{
			{nil, 5},
			{[]string{"--kind", "failed"}, 2},
			{[]string{"--kind", "shed"}, 3},
			{[]string{"--kind", "expired"}, 0},
			{[]string{"--task", "sample"}, 3},
			{[]string{"--queue", "default", "--task", "fails"}, 2},
			{[]string{"--queue", "nowhere"}, 0},
			{[]string{"--limit", "1"}, 1},
			{[]string{"--reason", "rate_limit: task:sample", "--newer-than", "1h"}, 3},
			{[]string{"--older-than", "1h"}, 0},
			{[]string{"--text", "second"}, 2},
		} {
			letters := items(t, b.json(t, append([]string{"dlq", "list"}, c.args...)...))
			assert.Len(t, letters, c.want, "%v", c.args)
			for _, l := range letters {
				assert.Equal(t, words(letterKeys), keys(l))
			}
		}
		shed := items(t, b.json(t, "dlq", "list", "--kind", "shed"))[0]
		assert.Equal(t, "rate_limit: task:sample 2/h", shed["reason"])
		assert.Equal(t, map[string]any{"shed": "rate_limit"}, shed["metadata"])

		failed := items(t, b.json(t, "dlq", "list", "--kind", "failed"))[0]
		id, ok := failed["id"].(string)
		require.True(t, ok)
		entry := b.json(t, "dlq", "show", id)
		assert.Equal(t, words(letterKeys+" args_base64"), keys(entry))
		assert.Equal(t, map[string]any{"by": "me"}, entry["job_metadata"])
		errs, ok := entry["errors"].([]any)
		require.True(t, ok)
		require.Len(t, errs, 1)
		assert.Equal(t, words("attempt at error"), keys(errs[0].(map[string]any)))
		jobID, ok := entry["job_id"].(string)
		require.True(t, ok)
		assert.Equal(t, entry, b.json(t, "dlq", "show", jobID))

		text := b.ok(t, "dlq", "show", id)
		assert.Contains(t, text, "\nreason        first line\n              second \\x1b[31mline "+strings.Repeat("x", 100)+"\n", "all of it, and no control characters")
		assert.Contains(t, text, "\nargs          {\n                \"n\": 1\n              }\n")
		assert.Contains(t, text, "attempt 1 failed ")
		assert.Contains(t, text, "  first line\n  second \\x1b[31mline ")
		assert.Contains(t, text, "a replay makes a new job of it, with up to 1 start:\n  weir dlq replay "+id+" --database ")
		assert.Equal(t, `{"n": 1}`, b.ok(t, "dlq", "show", id, "--raw"))
		assert.Contains(t, b.ok(t, "dlq", "show", shed["id"].(string)), "with up to 4 starts, under task:sample 2/h:\n")
		assert.Regexp(t, `(?m)^\d+ +failed +fails +default +1 .* first line \.\.\.$`, b.ok(t, "dlq", "list"))
		oldest := items(t, b.json(t, "dlq", "list", "--oldest", "--limit", "1"))[0]
		assert.Equal(t, "1", oldest["id"])
		assert.Equal(t, "3\n", b.ok(t, "dlq", "list", "--count", "--kind", "shed"))
		assert.Equal(t, map[string]any{"count": json.Number("2")}, b.json(t, "dlq", "list", "--count", "--text", "second"))

		stats := b.json(t, "dlq", "stats")
		assert.Equal(t, words("groups hours removed"), keys(stats))
		groups, ok := stats["groups"].([]any)
		require.True(t, ok)
		require.Len(t, groups, 2)
		assert.Equal(t, words("kind task reason count"), keys(groups[0].(map[string]any)))
		text = b.ok(t, "dlq", "stats", "--recount")
		assert.Regexp(t, `(?m)^shed +sample +3 +rate_limit: task:sample 2/h$`, text)
		assert.Regexp(t, `(?m)^failed +[·█]{24}  2, at most [12] in an hour$`, text)
	})
}

func TestAListGoesOnUntilItsPageIsFull(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	graves(t, b)
	first := b.json(t, "dlq", "list", "--limit", "3")
	require.Len(t, items(t, first), 3)
	next, ok := first["next"].(string)
	require.True(t, ok)
	second := b.json(t, "dlq", "list", "--limit", "3", "--cursor", next)
	require.Len(t, items(t, second), 2)
	assert.Nil(t, second["next"])
}

func TestAnExportIsALineForEachWithAllOfIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		graves(t, b)
		out := strings.Split(strings.TrimSpace(b.ok(t, "dlq", "export")), "\n")
		require.Len(t, out, 5)
		first := document(t, out[0])
		assert.Equal(t, words(letterKeys+" args_base64"), keys(first))
		assert.Equal(t, "1", first["id"])
		assert.Empty(t, b.ok(t, "dlq", "export", "--task", "nobody's"))
	})
}

func TestADeadLetterThatIsNotThereIsAFailure(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	for _, args := range [][]string{{"dlq", "show", "7"}, {"dlq", "replay", "7"}, {"dlq", "purge", "7"}} {
		r := b.run(args...)
		assert.Equal(t, exitFailure, r.code, "%v", args)
		assert.Contains(t, r.err, "dead letter 7: not found", "%v", args)
	}
}

func TestReplayMakesNewJobs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		graves(t, b)
		ids := []string{}
		for _, l := range items(t, b.json(t, "dlq", "list", "--kind", "failed")) {
			ids = append(ids, l["id"].(string))
		}
		assert.Equal(t, ids[0]+" would be replayed\n"+ids[1]+" would be replayed\n", b.ok(t, "dlq", "replay", ids[0], ids[1], "--dry-run"))
		out := b.ok(t, "dlq", "replay", ids[0])
		require.Regexp(t, `^\d+ replayed as [0-9a-f-]{36}\n$`, out)
		job := b.get(t, out[strings.LastIndex(out, " ")+1:])
		assert.Equal(t, "fails", job.Task)
		assert.NotEmpty(t, job.ReplayOf)
		assert.JSONEq(t, `{"by": "me"}`, string(job.Metadata))

		r := b.run("dlq", "replay", ids[0], ids[1], "--json") // the first is gone
		assert.Equal(t, exitFailure, r.code)
		replayed := items(t, document(t, r.out))
		require.Len(t, replayed, 1)
		assert.Equal(t, words("id job_id new_id skipped"), keys(replayed[0]))
		assert.Contains(t, r.err, "dead letter "+ids[0]+": not found")

		r = b.run("dlq", "replay", "--task", "sample", "--yes")
		assert.Equal(t, "0 dead letters replayed, 0 skipped\n", r.out, "what was shed wants --kind shed")
		assert.Regexp(t, `^weir: note: kind shed is left out, \d+: add --kind shed to replay it\n$`, r.err)
		assert.Equal(t, "3 dead letters would be replayed, 0 skipped\n", b.ok(t, "dlq", "replay", "--kind", "shed", "--dry-run"))
		doc := b.json(t, "dlq", "replay", "--kind", "shed", "--yes", "--rate", "1000/s")
		assert.Equal(t, words("replayed skipped first_skipped"), keys(doc))
		assert.Equal(t, "3", doc["replayed"].(interface{ String() string }).String())
		assert.Empty(t, items(t, b.json(t, "dlq", "list")))
	})
}

func TestAReplayIsSkippedWhereALiveJobHoldsTheUniqueKey(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.ok(t, "enqueue", "fails", "--unique-key", "k")
	b.drain(t)
	live := strings.TrimSpace(b.ok(t, "enqueue", "fails", "--unique-key", "k"))
	assert.Equal(t, "1 skipped: duplicate of "+live+"\n", b.ok(t, "dlq", "replay", "1"))
	assert.Equal(t, "1 skipped: duplicate of "+live+"\n0 dead letters replayed, 1 skipped\n", b.ok(t, "dlq", "replay", "--kind", "failed", "--yes"))
	assert.Len(t, items(t, b.json(t, "dlq", "list")), 1)
}

func TestPurgeDeletesWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	graves(t, b)
	assert.Equal(t, "2 dead letters would be deleted\n", b.ok(t, "dlq", "purge", "1", "2", "--dry-run"))
	assert.Equal(t, "1 dead letter deleted\n", b.ok(t, "dlq", "purge", "1"))
	assert.Equal(t, "3 dead letters would be deleted\n", b.ok(t, "dlq", "purge", "--kind", "shed", "--dry-run"))
	doc := b.json(t, "dlq", "purge", "--kind", "shed", "--queue", "default", "--yes")
	assert.Equal(t, []string{"purged"}, keys(doc))
	assert.Len(t, items(t, b.json(t, "dlq", "list")), 1)
	assert.Equal(t, "1 dead letter deleted\n", b.ok(t, "dlq", "purge", "--task", "fails", "-y"))
}

func TestSomebodyAtATerminalIsAskedBeforeManyAreTouched(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	graves(t, b)
	left := func() int { return len(items(t, b.json(t, "dlq", "list"))) }

	r := b.call(call{terminal: true, stdin: "\n"}, "dlq", "purge", "--kind", "shed")
	assert.Equal(t, exitFailure, r.code)
	assert.Equal(t, "delete 3 dead letters? [y/N] weir: nothing was done\n", r.err)
	assert.Equal(t, 5, left())

	r = b.call(call{terminal: true}, "dlq", "replay", "1", "2")
	assert.Equal(t, exitFailure, r.code, "no answer is no yes")
	assert.Contains(t, r.err, "replay 2 dead letters? [y/N] ")

	r = b.call(call{terminal: true, stdin: "yes\n"}, "dlq", "purge", "--kind", "shed")
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Equal(t, 2, left())

	r = b.call(call{terminal: true}, "dlq", "replay", "1")
	assert.Equal(t, exitOK, r.code, "one is not asked for")
	assert.Empty(t, r.err)

	r = b.call(call{terminal: true}, "dlq", "purge", "--task", "fails", "--yes")
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, 0, left())
}

func TestAnInterruptedReplayTellsWhatItDidAndIsGoneOnWith(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	graves(t, b)
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	r := b.call(call{signals: signals}, "dlq", "replay", "--kind", "shed", "--yes", "--rate", "1/h")
	assert.Equal(t, exitFailure, r.code)
	assert.Regexp(t, `^(1 dead letter replayed, 0 skipped\n)?$`, r.out)
	assert.Equal(t, "weir: interrupted: make the same call again to go on with the rest\n", r.err)
	doc := b.json(t, "dlq", "replay", "--kind", "shed", "--yes")
	assert.Contains(t, []string{"2", "3"}, doc["replayed"].(json.Number).String())
	assert.Len(t, items(t, b.json(t, "jobs", "list", "--task", "sample", "--state", "waiting")), 3)
}

func TestWhatOperatorsDidIsListed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		graves(t, b)
		assert.Equal(t, "no acts of operators\n", b.ok(t, "audit"))
		ada := call{env: map[string]string{"WEIR_ACTOR": "ada \x1b"}}
		for _, args := range [][]string{
			{"dlq", "replay", "--kind", "shed", "--task", "sample", "--yes"},
			{"dlq", "purge", "1"},
			{"limits", "set", "stripe", "50/m", "--reason", "why"},
			{"queues", "pause", "mail"},
		} {
			r := b.call(ada, args...)
			require.Equal(t, exitOK, r.code, r.err)
		}
		b.ok(t, "limits", "pause", "stripe")
		page := b.json(t, "audit")
		acts := items(t, page)
		require.Len(t, acts, 5)
		assert.Equal(t, words("id at actor action subject detail count"), keys(acts[0]))
		var got []string
		for _, act := range acts[1:] {
			got = append(got, fmt.Sprint(act["actor"], "|", act["action"], "|", act["subject"], "|", act["detail"], "|", act["count"]))
		}
		assert.Equal(t, []string{
			"ada \x1b|queues pause|mail|<nil>|1",
			"ada \x1b|limits set|stripe|50/m: why|1",
			"ada \x1b|dlq purge|1|<nil>|1",
			"ada \x1b|dlq replay|kind=shed task=sample|<nil>|3",
		}, got)
		assert.Regexp(t, `^\S+@\S+$`, acts[0]["actor"], "the user and the host")
		assert.Regexp(t, `(?m) ada \\x1b +limits set +1 +stripe \(50/m: why\)$`, b.ok(t, "audit"))
		assert.Len(t, items(t, b.json(t, "audit", "--actor", "ada \x1b", "--action", "dlq purge")), 1)
		first := b.json(t, "audit", "--limit", "4")
		assert.Len(t, items(t, b.json(t, "audit", "--limit", "4", "--cursor", first["next"].(string))), 1)
	})
}

func TestTheCommandToTypeNamesTheDatabaseAsItWasNamed(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]*app{
		"weir x":              {},
		"weir x -c weir.yaml": {files: []string{"weir.yaml"}},
		"weir x -c 'my file'": {files: []string{"my file"}},
		"weir x --database 'postgres://me:xxxxx@host/db?a=b'": {database: "postgres://me:secret@host/db?a=b"},
		`weir x --database 'sqlite:it'\''s'`:                  {database: "sqlite:it's"},
	} {
		assert.Equal(t, want, a.again("x"))
	}
}
