package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
)

func TestBenchMeasuresEachKindOfWorkAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		c := call{env: map[string]string{"WEIR_DATABASE": db.DSN}}
		r := c.run("bench", "--jobs", "20", "--workers", "5", "--runs", "1", "--json")
		require.Equal(t, exitOK, r.code, r.err)
		cells := document(t, r.out)["cells"].([]any)
		var works []string
		for _, each := range cells {
			cell := each.(map[string]any)
			works = append(works, cell["work"].(string))
			assert.Equal(t, words("work store peer median min max unit runs jobs workers steady"), keys(cell))
			assert.Equal(t, "weir", cell["peer"])
			assert.Equal(t, string(db.Dialect), cell["store"])
			assert.Positive(t, cell["median"], "%s", cell["work"])
		}
		assert.Equal(t, []string{"drain", "drain-limited", "enqueue-one", "enqueue-bulk", "pickup-p99"}, works)

		r = c.run("jobs", "list")
		assert.Equal(t, exitFailure, r.code, "the named database was not created")
		assert.Contains(t, r.err, "no Weir database there")
	})
}

func TestBenchRemovesItsFileFromBesideTheDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := call{env: map[string]string{"WEIR_DATABASE": "sqlite:" + filepath.Join(dir, "weir.db")}}
	r := c.run("bench", "--jobs", "10", "--runs", "1")
	require.Equal(t, exitOK, r.code, r.err)
	assert.Regexp(t, `(?m)^work off a backlog +[0-9.]+ jobs/s`, r.out)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestBenchStopsAtASignalAndCleansUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	c := call{env: map[string]string{"WEIR_DATABASE": "sqlite:" + filepath.Join(dir, "weir.db")}, signals: signals}
	r := c.run("bench", "--jobs", "100000", "--runs", "100")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "context canceled")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
