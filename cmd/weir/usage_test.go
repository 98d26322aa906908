package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWrongUsageEndsWithTwoAndSaysWhatIsRight(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"frobnicate"}, `weir: unknown command "frobnicate": use one of audit, bench, `},
		{[]string{"serv"}, `weir: unknown command "serv": did you mean "serve"?`},
		{[]string{"jobs"}, "weir: jobs: name a command: cancel, list, retry, show"},
		{[]string{"jobs", "lst"}, `weir: jobs: unknown command "lst": did you mean "list"?`},
		{[]string{"jobs", "list", "--stat", "running"}, "weir: jobs list: unknown flag --stat: did you mean --state?"},
		{[]string{"jobs", "list", "--nonsense"}, "weir: jobs list: unknown flag --nonsense: see weir jobs list --help"},
		{[]string{"jobs", "list", "-z"}, "weir: jobs list: unknown shorthand flag: 'z' in -z: see weir jobs list --help"},
		{[]string{"jobs", "list", "--databse", "x"}, "weir: jobs list: unknown flag --databse: did you mean --database?"},
		{[]string{"jobs", "list", "--json=maybe"}, `weir: jobs list: --json "maybe": use true or false`},
		{[]string{"jobs", "list", "--state", ""}, "weir: jobs list: --state is empty: give it a value, or leave it out"},
		{[]string{"jobs", "list", "--state", "running,"}, `state "": use pending`},
		{[]string{"jobs", "list", "-c", ""}, "weir: jobs list: -c is empty: name a file, or leave it out"},
		{[]string{"jobs", "list", "weir.yaml"}, `weir: jobs list: "weir.yaml" is one argument too many: name a file by -c, as in: weir jobs list -c weir.yaml`},
		{[]string{"serve", "a.yml"}, `weir: serve: "a.yml" is one argument too many: name a file by -c, as in: weir serve -c a.yml`},
		{[]string{"help", "enqeue"}, `weir: unknown command "enqeue": did you mean "enqueue"?`},
		{[]string{"help", "jobs", "lst"}, `weir: jobs: unknown command "lst": did you mean "list"?`},
		{[]string{"help", "jobs", "list", "all"}, `weir: jobs list: "all" is one argument too many: it has no commands of its own`},
		{[]string{"jobs", "list", "extra"}, `weir: jobs list: "extra" is one argument too many`},
		{[]string{"jobs", "list", "--limit", "0"}, "weir: jobs list: --limit 0: use 1 to 10000"},
		{[]string{"jobs", "list", "--limit", "10001"}, "weir: jobs list: --limit 10001: use 1 to 10000"},
		{[]string{"jobs", "list", "--limit", "ten"}, `weir: jobs list: --limit "ten": use a whole number, in plain digits`},
		{[]string{"jobs", "list", "--state", "dead"}, "weir: state \"dead\": dead jobs are no jobs any more but dead letters: see `weir dlq list`"},
		{[]string{"jobs", "list", "--task", ""}, "weir: jobs list: --task is empty: give it a value, or leave it out"},
		{[]string{"jobs", "list", "--cursor", "xyz"}, `cursor "xyz"`},
		{[]string{"jobs", "show"}, "weir: jobs show: name one job's id, as in: weir jobs show ID"},
		{[]string{"jobs", "show", "a", "b"}, `weir: jobs show: "b" is one argument too many`},
		{[]string{"jobs", "show", "17"}, `job "17": not a UUID`},
		{[]string{"jobs", "cancel", "17"}, `job "17": not a UUID`},
		{[]string{"dlq", "list", "--kind", "cancelled"}, `kind "cancelled": use shed, failed or expired`},
		{[]string{"dlq", "show", "x"}, `dead letter "x": use the number of an entry or the id of its job`},
		{[]string{"dlq", "list", "--older-than", "0s"}, "weir: dlq list: --older-than 0s: use a time above 0, as in 24h"},
		{[]string{"dlq", "list", "--newer-than", "7d"}, `weir: dlq list: --newer-than "7d": write a time with its unit`},
		{[]string{"dlq", "list", "--newer-than", "1h", "--older-than", "2h"}, "newer than 1h0m0s: nothing is newer than that and older than 2h0m0s: use more"},
		{[]string{"dlq", "list", "--text", ""}, "weir: dlq list: --text is empty"},
		{[]string{"dlq", "list", "--limit", "0"}, "weir: dlq list: --limit 0: use 1 to 10000"},
		{[]string{"dlq", "show", "1", "--raw", "--json"}, "weir: dlq show: --raw with --json: give one of the two"},
		{[]string{"dlq", "export", "--kind", "x"}, `weir: dlq export: kind "x": use shed, failed or expired`},
		{[]string{"dlq", "replay"}, "weir: dlq replay: name dead letters by their ids, or by --kind or --task"},
		{[]string{"dlq", "replay", "--kind", "shedd", "--yes"}, `weir: dlq replay: kind "shedd": use shed, failed or expired`},
		{[]string{"dlq", "replay", "--kind", "shed", "--rate", "20"}, `weir: dlq replay: --rate: rate "20": no "/"`},
		{[]string{"dlq", "replay", "1", "--rate", "20/s"}, "--rate is for what a filter selects"},
		{[]string{"dlq", "replay", "--kind", "shed"}, "weir: dlq replay: nobody is there to be asked: add --yes to replay what the filter selects, or --dry-run"},
		{[]string{"dlq", "purge", "--task", "a"}, "weir: dlq purge: nobody is there to be asked: add --yes to delete what the filter selects, or --dry-run"},
		{[]string{"dlq", "purge", "--queue", "q", "--yes"}, "weir: dlq purge: that would select too much to be meant: name --kind or --task as well"},
		{[]string{"dlq", "purge", "--older-than", "1h", "--yes"}, "weir: dlq purge: that would select too much to be meant"},
		{[]string{"audit", "--limit", "0"}, "weir: audit: --limit 0: use 1 to 10000"},
		{[]string{"audit", "--actor", ""}, "weir: audit: --actor is empty"},
		{[]string{"dlq", "replay", "1", "--kind", "shed"}, "weir: dlq replay: name dead letters by their ids or by a filter, not by both"},
		{[]string{"dlq", "replay", "--queue", "q"}, "name --kind or --task as well"},
		{[]string{"dlq", "purge"}, "weir: dlq purge: name dead letters"},
		{[]string{"dlq", "purge", "--task", ""}, "--task is empty"},
		{[]string{"enqueue"}, "weir: enqueue: name one task, as in: weir enqueue TASK"},
		{[]string{"enqueue", "a", "b"}, `"b" is one argument too many`},
		{[]string{"enqueue", "t", "--args", "{to: me}"}, "--args \"{to: me}\" is not JSON: quote it for the shell"},
		{[]string{"enqueue", "t", "--priority", "101"}, `task "t": priority 101: use -100 (last) to 100 (first)`},
		{[]string{"enqueue", "t", "--delay", "30"}, `weir: enqueue: --delay "30": write a time with its unit (s, m or h), as in 30s or 1h30m`},
		{[]string{"enqueue", "t", "--count", "1e3"}, `weir: enqueue: --count "1e3": use a whole number, in plain digits`},
		{[]string{"enqueue", "t", "--count", "99999999999999999999"}, `weir: enqueue: --count "99999999999999999999": it is too great`},
		{[]string{"enqueue", "t", "--delay", "-5s"}, "--delay -5s: use 0 or more"},
		{[]string{"enqueue", "t", "--delay", "5s", "--at", "2026-03-01T09:00:00Z"}, "--delay with --at: give one of the two"},
		{[]string{"enqueue", "t", "--at", "tomorrow"}, `--at "tomorrow": write the time in RFC 3339`},
		{[]string{"enqueue", "t", "--start-within", "0s"}, "--start-within 0s: use a time above 0"},
		{[]string{"enqueue", "t", "--start-within", "-5s"}, "--start-within -5s: use a time above 0"},
		{[]string{"enqueue", "t", "--start-within", "5s", "--start-before", "2026-03-01T09:00:00Z"}, "--start-before with --start-within: give one of the two"},
		{[]string{"enqueue", "t", "--start-before", "soon"}, `--start-before "soon": write the time in RFC 3339`},
		{[]string{"enqueue", "t", "--start-before", ""}, "--start-before is empty"},
		{[]string{"enqueue", "t", "--start-before", "0001-01-01T00:00:00Z"}, "time to start before: use one from the year 1970 to 9999"},
		{[]string{"enqueue", "--stdin", "--start-within", "5s"}, "--start-within with --stdin: write it in each line"},
		{[]string{"limits", "set", "stripe"}, "limits set: name a limit and a rate, as in: weir limits set NAME RATE"},
		{[]string{"limits", "set", "stripe", "1/s", "2/s"}, `"2/s" is one argument too many`},
		{[]string{"limits", "set", "stripe", "1/s", "--for", "0"}, "--for 0s: use a time above 0, or leave it out for one without an end"},
		{[]string{"limits", "set", "stripe", "1/s", "--for", "1d"}, `limits set: --for "1d": write a time with its unit (s, m or h)`},
		{[]string{"limits", "set", "stripe", "1/mo"}, `limit "stripe": rate "1/mo": unknown period "mo"`},
		{[]string{"limits", "set", "stripe", "1/s", "--burst", "0"}, `limit "stripe": burst 0: use a whole number from 1 to 1000000000`},
		{[]string{"limits", "set", "stripe", "1/s", "--for", "900000h"}, `limit "stripe": for 900000h0m0s: use up to a hundred years`},
		{[]string{"limits", "set", "stripe", "1/s", "--burst", "many"}, `limits set: --burst "many": use a whole number, in plain digits`},
		{[]string{"limits", "set", "stripe", "1/s", "--reason", ""}, "--reason is empty"},
		{[]string{"limits", "set", "stripe", "1/s", "--reason", strings.Repeat("x", 1001)}, "reason of 1001 bytes: use up to 1000 bytes"},
		{[]string{"limits", "pause"}, "limits pause: name one limit, as limits list shows it, as in: weir limits pause NAME"},
		{[]string{"queues", "pause", ""}, `queue "": it is empty`},
		{[]string{"queues", "resume"}, "queues resume: name one queue, as in: weir queues resume NAME"},
		{[]string{"jobs", "retry"}, "jobs retry: name the jobs' ids, as in: weir jobs retry ID..."},
		{[]string{"enqueue", "t", "--count", "0"}, "--count 0: use 1 to 1000000"},
		{[]string{"enqueue", "t", "--count", "2", "--id", "018f2f5e-0000-7000-8000-000000000000"}, "--id with --count"},
		{[]string{"enqueue", "t", "--id", "7"}, `id "7": not a UUID`},
		{[]string{"enqueue", "t", "--unique-key", ""}, "--unique-key is empty"},
		{[]string{"enqueue", "t", "--metadata", "[1]"}, "it is not a JSON object"},
		{[]string{"enqueue", "", "--queue", "q"}, `task "": it is empty`},
		{[]string{"enqueue", "t\n"}, "control character"},
		{[]string{"enqueue", "t", "--stdin"}, "a task with --stdin: each line names its own"},
		{[]string{"enqueue", "--stdin", "--queue", "q"}, "--queue with --stdin: write it in each line"},
		{[]string{"check"}, "weir: check: name a file, as in: weir check -c weir.yaml"},
		{[]string{"serve"}, "weir: serve: name a file, as in: weir serve -c weir.yaml"},
		{[]string{"tasks", "list", "-c", "a.yaml", "-c", "b.yaml"}, "weir: -c: only check takes several files: name one"},
		{[]string{"migrate", "down"}, "weir: migrate down: it deletes what is stored: add --yes if that is meant"},
		{[]string{"bench", "--jobs", "9"}, "weir: bench: --jobs 9: use 10 to 1000000"},
		{[]string{"bench", "--workers", "0"}, "weir: bench: --workers 0: use 1 to 100000"},
		{[]string{"bench", "--runs", "101"}, "weir: bench: --runs 101: use 1 to 100"},
		{[]string{"version", "now"}, `"now" is one argument too many`},
	} {
		r := b.run(c.args...)
		assert.Equal(t, exitUsage, r.code, "%v: %s", c.args, r.err)
		assert.Contains(t, r.err, c.want, "%v", c.args)
		assert.Regexp(t, `^weir: [^\n]+\n$`, r.err, "%v: one line", c.args)
		assert.Empty(t, r.out, "%v: no usage dump", c.args)
	}
}

// A database that the call names in no known way is wrong usage of every
// command that takes one; where a file names it, the file has a fault.
func TestADatabaseOfNoKnownFormIsWrongUsageOfEveryCommand(t *testing.T) {
	t.Parallel()
	const id = "018f2f5e-0000-7000-8000-000000000000"
	for _, args := range [][]string{
		{"enqueue", "t"},
		{"enqueue", "--stdin"},
		{"jobs", "list"},
		{"jobs", "show", id},
		{"jobs", "cancel", id},
		{"jobs", "retry", id},
		{"dlq", "list"},
		{"dlq", "show", "1"},
		{"dlq", "stats"},
		{"dlq", "replay", "1"},
		{"dlq", "purge", "1"},
		{"limits", "list"},
		{"limits", "show", "l"},
		{"limits", "set", "l", "1/s"},
		{"limits", "unset", "l"},
		{"limits", "pause", "l"},
		{"limits", "resume", "l"},
		{"queues", "list"},
		{"queues", "pause", "q"},
		{"queues", "resume", "q"},
		{"schedules", "list"},
		{"schedules", "run", "s"},
		{"schedules", "pause", "s"},
		{"schedules", "resume", "s"},
		{"tasks", "list"},
		{"migrate", "up"},
		{"migrate", "status"},
		{"migrate", "down", "--yes"},
		{"bench"},
		{"serve", "-c", file(t, "tasks: {t: {exec: {command: [\"true\"]}}}\n")},
	} {
		const want = `database "nofile.db": no such form: use sqlite:PATH or postgres://USER@HOST/NAME` + "\n"
		r := call{}.run(append(slices.Clone(args), "--database", "nofile.db")...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Equal(t, "weir: --database: "+want, r.err, "%v", args)
		r = call{env: map[string]string{"WEIR_DATABASE": "nofile.db"}}.run(args...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Equal(t, "weir: $WEIR_DATABASE: "+want, r.err, "%v", args)
	}
	r := call{}.run("jobs", "list", "-c", file(t, "database: nofile.db\n"))
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, `W130 database: database "nofile.db": no such form`)
}

func TestAFlagWithoutItsValueIsWrongUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"weir: enqueue: flag needs an argument: --timeout: see weir enqueue --help\n":     {"enqueue", "t", "--timeout"},
		"weir: jobs list: --database is empty: give it a value, or leave it out\n":        {"jobs", "list", "--database", ""},
		"weir: serve: --log-level is empty: give it a value, or leave it out\n":           {"serve", "-c", file(t, goodFile), "--log-level", ""},
		"weir: jobs list: flag needs an argument: 'c' in -c: see weir jobs list --help\n": {"jobs", "list", "-c"},
	} {
		r := call{}.run(args...)
		assert.Equal(t, exitUsage, r.code, "%v", args)
		assert.Equal(t, want, r.err, "%v", args)
	}
}

func TestWrongUsageDoesNothing(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	id := strings.TrimSpace(b.ok(t, "enqueue", "t"))
	r := b.run("jobs", "cancel", id, "018f2f5e-0000-7000-8000-000000000000", "abc")
	assert.Equal(t, exitUsage, r.code)
	assert.Equal(t, `weir: jobs cancel: job "abc": not a UUID: write one as in "018f2f5e-0000-7000-8000-000000000000"`+"\n", r.err)
	assert.Empty(t, r.out)
	assert.Equal(t, "waiting", b.json(t, "jobs", "show", id)["state"])

	r = b.run("jobs", "cancel", id, "018f2f5e-0000-7000-8000-000000000000")
	assert.Equal(t, exitFailure, r.code, "what could be done was done")
	assert.Equal(t, id+" cancelled\n", r.out)
}

func TestHelpIsOnStandardOutputAndASuccess(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--help"}, {"help"}, {"help", "jobs"}, {"help", "jobs", "list"}, {"jobs", "list", "--help"}, {"enqueue", "-h"}, {"completion", "bash"}} {
		r := call{}.run(args...)
		assert.Equal(t, exitOK, r.code, "%v", args)
		assert.NotEmpty(t, r.out, "%v", args)
		assert.Empty(t, r.err, "%v", args)
	}
}

func TestVersionNamesTheProgramAndThePlatform(t *testing.T) {
	t.Parallel()
	r := call{}.run("version")
	assert.Equal(t, exitOK, r.code)
	assert.Regexp(t, `^weir \S+ .*go1\.\S+ \w+/\w+\n$`, r.out)
	assert.Equal(t, words("version revision go platform"), keys(document(t, call{}.run("version", "--json").out)))
}

func TestEachOfSeveralErrorsHasTheProgramsNameBeforeIt(t *testing.T) {
	t.Parallel()
	var out screen
	assert.Equal(t, exitFailure, (&app{err: &out}).report(errors.Join(errors.New("one"), errors.New("two"))))
	assert.Equal(t, "weir: one\nweir: two\n", out.String())
}
