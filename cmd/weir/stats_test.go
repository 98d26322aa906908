package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
)

func TestStatsShowWhatWaitsRunsAndEnded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		assert.Regexp(t, `(?s)^waiting +0\n.*no queues\n\nno processes run jobs\n$`, b.ok(t, "stats"))
		b.ok(t, "enqueue", "works")
		b.ok(t, "enqueue", "fails")
		b.drain(t)
		b.ok(t, "enqueue", "t", "--count", "3", "--queue", "slow")
		b.ok(t, "queues", "pause", "slow")

		text := b.ok(t, "stats")
		for _, want := range []string{
			`strategy +token_bucket\n`, `waiting +3  \(0 throttled, 3 paused\)\n`, `completed +1\n`, `dead +1 failed, 0 expired, 0 shed\n`,
			`slow +3 +0 +0 +\S.* yes\n`, `\S+ +` + "[0-9]+" + ` +\S.* 0 of \d+ +-\n$`,
		} {
			assert.Regexp(t, want, text)
		}
		doc := b.json(t, "stats")
		assert.Equal(t, words("at strategy waiting throttled paused scheduled running completed cancelled dead queues processes"), keys(doc))
		assert.Equal(t, json.Number("3"), doc["paused"])
	})
}

func TestStatsAreWatchedUntilASignalComes(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.ok(t, "enqueue", "t")
	signals, out := make(chan os.Signal, 1), &screen{}
	ended := make(chan result, 1)
	go func() {
		ended <- b.call(call{signals: signals, stdout: out}, "stats", "--watch", "--every", "100ms", "--json")
	}()
	require.Eventually(t, func() bool { return strings.Count(out.String(), "\n") >= 2 }, time.Minute, time.Millisecond)
	signals <- os.Interrupt
	r := <-ended
	assert.Equal(t, exitOK, r.code, r.err)
	for line := range strings.Lines(out.String()) {
		var doc map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &doc), line)
		assert.InDelta(t, 1, doc["waiting"], 0)
	}
}

func TestAWatchGoesOnWhenTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	b := setup(t, db)
	b.ok(t, "enqueue", "t")
	signals, out := make(chan os.Signal, 1), &screen{}
	ended := make(chan result, 1)
	go func() { ended <- b.call(call{signals: signals, stdout: out}, "stats", "--watch", "--every", "100ms") }()
	require.Eventually(t, out.shows("waiting    1\n"), time.Minute, time.Millisecond)
	_, err := db.SQL(t).ExecContext(t.Context(), `alter table weir_jobs rename to elsewhere`)
	require.NoError(t, err)
	require.Eventually(t, out.shows("the database has not answered since "), time.Minute, time.Millisecond)
	_, err = db.SQL(t).ExecContext(t.Context(), `alter table elsewhere rename to weir_jobs`)
	require.NoError(t, err)
	before := strings.Count(out.String(), "waiting    1\n")
	require.Eventually(t, func() bool { return strings.Count(out.String(), "waiting    1\n") > before }, time.Minute, time.Millisecond)
	signals <- os.Interrupt
	assert.Equal(t, exitOK, (<-ended).code)
}

func TestAnIntervalThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	for _, args := range [][]string{{"--watch", "--every", "1ms"}, {"--watch", "--every", "-1s"}, {"--every", "5s"}} {
		r := b.run(append([]string{"stats"}, args...)...)
		assert.Equal(t, exitUsage, r.code, args)
		assert.Contains(t, r.err, "--every")
	}
}
