package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFlagNamesTheDatabaseThenTheFileThenTheEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.yaml")
	require.NoError(t, os.WriteFile(path, []byte("database: sqlite:of-file.db\n"), 0o600))
	bare := filepath.Join(dir, "bare.yaml")
	require.NoError(t, os.WriteFile(bare, []byte("concurrency: 1\n"), 0o600))
	env := call{env: map[string]string{"WEIR_DATABASE": "sqlite:" + dir + "/of-env.db"}}
	for _, c := range []struct {
		name string
		call call
		args []string
		want string
	}{
		{"flag", env, []string{"-c", path, "--database", "sqlite:" + dir + "/of-flag.db"}, dir + "/of-flag.db"},
		{"file", env, []string{"-c", path}, dir + "/of-file.db"},
		{"environment", env, []string{"-c", bare}, dir + "/of-env.db"},
		{"environment without a file", env, nil, dir + "/of-env.db"},
		{"default", call{}, nil, "weir.db"},
	} {
		r := c.call.run(append([]string{"queues", "list"}, c.args...)...)
		assert.Equal(t, exitFailure, r.code, c.name)
		assert.Contains(t, r.err, c.want+": no Weir database there", c.name)
	}
}

func TestOnlyMigrateUpAndServeCreateADatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "weir.db")
	for _, args := range [][]string{
		{"jobs", "list"},
		{"jobs", "show", "018f2f5e-0000-7000-8000-000000000000"},
		{"jobs", "cancel", "018f2f5e-0000-7000-8000-000000000000"},
		{"jobs", "retry", "018f2f5e-0000-7000-8000-000000000000"},
		{"dlq", "list"},
		{"dlq", "show", "1"},
		{"dlq", "stats"},
		{"dlq", "replay", "1"},
		{"dlq", "purge", "--kind", "shed"},
		{"limits", "list"},
		{"limits", "show", "x"},
		{"limits", "set", "x", "1/s"},
		{"limits", "unset", "x"},
		{"limits", "pause", "x"},
		{"limits", "resume", "x"},
		{"queues", "list"},
		{"queues", "pause", "x"},
		{"queues", "resume", "x"},
		{"tasks", "list"},
		{"enqueue", "t"},
		{"enqueue", "--stdin"},
		{"migrate", "status"},
		{"migrate", "down", "--yes"},
	} {
		r := call{}.run(append(args, "--database", "sqlite:"+path)...)
		assert.Equal(t, exitFailure, r.code, "%v", args)
		assert.Contains(t, r.err, "`weir serve` or `weir migrate up` creates it", "%v", args)
		assert.Empty(t, r.out, "%v", args)
		assert.NoFileExists(t, path, "%v", args)
	}
	r := call{}.run("migrate", "up", "--database", "sqlite:"+path)
	require.Equal(t, exitOK, r.code, r.err)
	assert.FileExists(t, path)
	assert.Equal(t, exitOK, call{}.run("jobs", "list", "--database", "sqlite:"+path).code)
}

func TestAFileWithFaultsStopsEveryCommand(t *testing.T) {
	t.Parallel()
	path := file(t, "tasks:\n  a: {rate_limit: 1/x, elsewhere: true}\n  b: {}\n")
	for _, args := range [][]string{{"serve"}, {"jobs", "list"}, {"enqueue", "a"}, {"enqueue", "--stdin"}, {"migrate", "up"}} {
		r := call{}.run(append(args, "-c", path)...)
		assert.Equal(t, exitFailure, r.code, "%v", args)
		assert.Contains(t, r.err, "weir: "+path+": 2 faults\n")
		assert.Contains(t, r.err, path+":2:19: W121 tasks.a.rate_limit: task \"a\": rate \"1/x\"")
		assert.Contains(t, r.err, path+":3:3: W133 tasks.b: ")
	}
	r := call{}.run("jobs", "list", "-c", "/nowhere/weir.yaml")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "/nowhere/weir.yaml: W101 cannot read it: no such file or directory")
}

func TestADSNOfNoKnownFormIsRefused(t *testing.T) {
	t.Parallel()
	r := call{}.run("jobs", "list", "--database", "mysql://root:hunter2@db/x")
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.err, "use sqlite:PATH or postgres://")
	assert.NotContains(t, r.err, "hunter2")
}

func TestMigrationsAreShownTakenAwayAndBroughtBack(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.ok(t, "enqueue", "t")
	assert.Contains(t, b.ok(t, "migrate", "status"), "applied")
	first := items(t, b.json(t, "migrate", "status"))[0]
	assert.Equal(t, words("version name applied"), keys(first))
	assert.Equal(t, true, first["applied"])

	r := b.call(call{terminal: true, stdin: "no\n"}, "migrate", "down")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "? [y/N] weir: nothing was done")
	assert.Len(t, items(t, b.json(t, "jobs", "list")), 1)

	r = b.call(call{terminal: true, stdin: "y\n"}, "migrate", "down")
	require.Equal(t, exitOK, r.code, r.err)
	assert.Contains(t, r.out, "pending")
	r = b.run("jobs", "list")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "`weir migrate up`")

	assert.Contains(t, b.ok(t, "migrate", "up"), "applied")
	assert.Len(t, items(t, b.json(t, "jobs", "list")), 1, "down takes no more than the newest version")

	for range items(t, b.json(t, "migrate", "status")) {
		b.ok(t, "migrate", "down", "--yes")
	}
	r = b.run("migrate", "down", "--yes")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "no version of the schema is applied: `weir migrate up` applies them")
}
