package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
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

// watching is `weir stats --watch` under a clock that the test moves.
type watching struct {
	clock   *clock.Fake
	out     *screen
	signals chan os.Signal
	ended   chan result
}

func (b *bundle) watch(c call, args ...string) *watching {
	w := &watching{clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), &screen{}, make(chan os.Signal, 1), make(chan result, 1)}
	c.clock, c.stdout, c.signals = w.clock, w.out, w.signals
	go func() { w.ended <- b.call(c, append([]string{"stats", "--watch"}, args...)...) }()
	return w
}

// until lets time pass until the screen has had a text so often.
func (w *watching) until(t *testing.T, text string, times int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if strings.Count(w.out.String(), text) >= times {
			return true
		}
		w.clock.Advance(2 * time.Second)
		return false
	}, time.Minute, 5*time.Millisecond, text)
}

// end is Ctrl-C.
func (w *watching) end(t *testing.T) {
	t.Helper()
	w.signals <- os.Interrupt
	r := <-w.ended
	require.Equal(t, exitOK, r.code, r.err)
}

func TestStatsAreWatchedUntilASignalComes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		b.ok(t, "enqueue", "t")
		w := b.watch(call{}, "--json")
		w.until(t, "\n", 3)
		w.end(t)
		for line := range strings.Lines(w.out.String()) {
			assert.Equal(t, json.Number("1"), document(t, line)["waiting"])
		}

		w = b.watch(call{terminal: true})
		w.until(t, eraseScreen, 3)
		w.end(t)
		assert.Regexp(t, `^\x1b\[H\x1b\[2J[0-9:]{8} UTC\nwaiting +1\n`, w.out.String())
	})
}

func TestAWatchGoesOnWhenTheDatabaseWasAway(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		b.ok(t, "enqueue", "t")
		path := strings.TrimPrefix(db.DSN, "sqlite:")
		move := func(from, to string) {
			if db.Dialect == store.SQLite {
				require.NoError(t, os.Rename(path+from, path+to))
				return
			}
			_, err := db.SQL(t).ExecContext(t.Context(), `alter table weir_jobs`+from+` rename to weir_jobs`+to)
			require.NoError(t, err)
		}
		w := b.watch(call{})
		w.until(t, "waiting    1\n", 2)
		move("", "_away")
		w.until(t, "the database has not answered since 2026-03-01 12:", 2)
		shown := strings.Count(w.out.String(), "waiting    1\n")
		move("_away", "")
		w.until(t, "waiting    1\n", shown+1)
		w.end(t)
	})
}

func TestAWatchOfADatabaseThatWasNeverThereFails(t *testing.T) {
	t.Parallel()
	r := call{signals: make(chan os.Signal)}.run("stats", "--watch", "--database", "sqlite:"+filepath.Join(t.TempDir(), "none.db"))
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "no Weir database there: `weir serve` or `weir migrate up` creates it")
}

func TestASignalEndsALookThatIsUnderWay(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	b := setup(t, db)
	beside := db.SQL(t)
	tx, err := beside.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, tx.Rollback()) }()
	_, err = tx.ExecContext(t.Context(), `lock table weir_jobs in access exclusive mode`)
	require.NoError(t, err)
	w := b.watch(call{})
	require.Eventually(t, func() bool {
		var n int
		err := beside.QueryRowContext(t.Context(), `select count(*) from pg_locks where not granted and relation = 'weir_jobs'::regclass`).Scan(&n)
		return err == nil && n > 0
	}, time.Minute, time.Millisecond)
	w.end(t)
	assert.Empty(t, w.out.String())
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
