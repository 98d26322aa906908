package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const goodFile = `
tasks:
  send: {rate_limit: 100/m, exec: {command: ["true"]}}
  call: {rate_limit: 10/s, exec: {command: ["true"]}}
  fast: {rate_limit: {rate: 1000/s, burst: 100}, exec: {command: ["true"]}}
  slow: {rate_limit: 1/15m, exec: {command: ["true"]}}
limits:
  stripe: {rate: 1.5/s, tasks: [send], queues: [default]}
`

func TestCheckPrintsTheBoundAndTheShareOfEachLimit(t *testing.T) {
	t.Parallel()
	path := file(t, goodFile)
	r := call{}.run("check", "-c", path)
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Empty(t, r.err)
	assert.Contains(t, r.out, path+": no faults\n")
	assert.Regexp(t, `(?m)^task:send +100 \+ L x 100/m, so 200 in any 1m +1s +100\.00 %$`, r.out)
	assert.Regexp(t, `(?m)^task:call +10 \+ L x 10/s, so 20 in any 1s +1s +99\.80 %$`, r.out)
	assert.Regexp(t, `(?m)^task:slow +1 \+ L x 1/15m, so 2 in any 15m +1s +100\.00 %$`, r.out)
	assert.Regexp(t, `(?m)^stripe +1\.5 \+ L x 1\.5/s, so 3 in any 1s +667ms +99\.70 %$`, r.out)

	doc := document(t, call{}.run("check", path, "--json").out)
	assert.Equal(t, words("ok faults warnings files"), keys(doc))
	files, ok := doc["files"].([]any)
	require.True(t, ok)
	one, ok := files[0].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, words("file ok findings limits schedules"), keys(one))
	limits, ok := one["limits"].([]any)
	require.True(t, ok)
	limit, ok := limits[4].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, words("name rate burst capacity bound hold share tasks queues"), keys(limit))
	assert.Equal(t, []any{"stripe", "1.5/s", "0.997"}, []any{limit["name"], limit["rate"], limit["share"].(interface{ String() string }).String()})
}

func TestCheckPrintsTheBoundAndTheShareOfEachRateOfAList(t *testing.T) {
	t.Parallel()
	path := file(t, `
retention: {completed: 24h}
tasks:
  resize:
    rate_limit: [{rate: 5/s, burst: 10}, 100/m]
    concurrency: 4
    breaker: {failures: 5}
    http: {url: "http://127.0.0.1:9000/resize"}
queues:
  default: {concurrency: 50}
`)
	r := call{}.run("check", "-c", path)
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Contains(t, r.out, path+": no faults\n")
	assert.Regexp(t, `(?m)^task@s:resize +10 \+ L x 5/s, so 15 in any 1s +1s +100\.00 %$`, r.out)
	assert.Regexp(t, `(?m)^task@m:resize +100 \+ L x 100/m, so 200 in any 1m +1s +100\.00 %$`, r.out)
	assert.NotContains(t, r.out, "task:resize")

	bad := file(t, "tasks:\n  t: {http: {url: /send}, rate_limit: [5/s, 6/s], breaker: {}, concurrency: 0}\nretention: {completed: 1s}\n")
	r = call{}.run("check", bad)
	assert.Equal(t, exitFailure, r.code)
	for _, code := range []string{"W136", "W121", "W114", "W128", "W127"} {
		assert.Contains(t, r.out, " "+code+" ")
	}
	assert.Equal(t, "weir: check: 5 faults, 0 warnings\n", r.err)
}

func TestCheckReportsEveryFaultOfEveryFile(t *testing.T) {
	t.Parallel()
	good, bad := file(t, goodFile), file(t, "concurrency: 0\ntasks:\n  a: {exec: {command: [\"true\"]}, rate_limit: 100/mo}\n")
	r := call{}.run("check", "-c", good, "-c", bad, "/nowhere.yaml")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.out, good+": no faults\n")
	assert.Contains(t, r.out, "error: "+bad+":1:14: W128 concurrency: ")
	assert.Contains(t, r.out, "error: "+bad+":3:46: W121 tasks.a.rate_limit: task \"a\": rate \"100/mo\": ")
	assert.Contains(t, r.out, "error: /nowhere.yaml: W101 cannot read it")
	assert.Equal(t, "weir: check: 3 faults, 0 warnings\n", r.err)

	r = call{}.run("check", "-c", bad, "--json")
	assert.Equal(t, exitFailure, r.code)
	doc := document(t, r.out)
	assert.Equal(t, false, doc["ok"])
	files, ok := doc["files"].([]any)
	require.True(t, ok)
	findings, ok := files[0].(map[string]any)["findings"].([]any)
	require.True(t, ok)
	require.Len(t, findings, 2)
	first, ok := findings[0].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, words("code severity file line column key message mend"), keys(first))
	assert.Equal(t, []any{"W128", "error", "concurrency"}, []any{first["code"], first["severity"], first["key"]})
}

func TestCheckSaysWhatAFileAsAWholeLeavesWithoutUse(t *testing.T) {
	t.Parallel()
	path := file(t, "")
	r := call{}.run("check", path)
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, path+": no faults\nwarning: "+path+": W206 no task runs here: add one, as in tasks: {hello: {exec: {command: [\"./hello.sh\"]}}}\n", r.out)
	assert.Equal(t, exitFailure, call{}.run("check", "--strict", path).code)
}

func TestCheckShowsControlCharactersOfANameInsteadOfSendingThem(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a\x1b[31mb.yaml")
	require.NoError(t, os.WriteFile(path, []byte(goodFile), 0o600))
	r := call{}.run("check", path)
	assert.Contains(t, r.out, `a\x1b[31mb.yaml: no faults`)
	assert.NotContains(t, r.out, "\x1b")
	require.NoError(t, os.WriteFile(path, []byte("tasks: 5\n"), 0o600))
	for _, args := range [][]string{{"check"}, {"serve", "-c"}, {"jobs", "list", "-c"}} {
		r = call{}.run(append(args, path)...)
		assert.Equal(t, exitFailure, r.code)
		assert.Contains(t, r.out+r.err, `a\x1b[31mb.yaml:1:8: W112`)
		assert.NotContains(t, r.out+r.err, "\x1b")
	}
}

func TestWarningsFailOnlyWithStrict(t *testing.T) {
	t.Parallel()
	path := file(t, "tasks:\n  a: {exec: {command: [\"true\"]}, rate_limit: {rate: 1000/s, burst: 5}}\n")
	r := call{}.run("check", "-c", path)
	assert.Equal(t, exitOK, r.code)
	assert.Contains(t, r.out, "warning: "+path+":2:53: W201 tasks.a.rate_limit.rate: limit \"task:a\": 1000/s burst 5 holds less than 20 ms worth")
	assert.Contains(t, r.out, "use a burst of 20 or more")
	r = call{}.run("check", "-c", path, "--strict")
	assert.Equal(t, exitFailure, r.code)
	assert.Equal(t, "weir: check: 0 faults, 1 warning\n", r.err)
}
