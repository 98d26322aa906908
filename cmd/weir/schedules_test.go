package main

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// scheduled declares two schedules of the task "works" and runs what may start.
func (b *bundle) scheduled(t *testing.T) {
	t.Helper()
	s, err := scheduler.New(b.client, scheduler.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	works := queue.Task[[]byte]("works")
	require.NoError(t, scheduler.Register(s, works, func(context.Context, *queue.Job[[]byte]) error { return nil }))
	require.NoError(t, scheduler.Schedule(s, "yearly", "0 3 1 7 *", works, []byte(`{"kind": "yearly"}`), scheduler.TimeZone("Europe/Paris"),
		scheduler.Missed(scheduler.Once), scheduler.JobOptions(queue.Priority(5), queue.UniqueKey("y"), queue.Queue("reports"), queue.Metadata(map[string]any{"a": 1}))))
	require.NoError(t, scheduler.Schedule(s, "now and then", "@every 24h", works, nil))
	require.NoError(t, s.Drain(t.Context()))
}

func TestSchedulesAreListedWithTheirNextTicks(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		assert.Equal(t, "no schedules: a scheduler declares them\n", b.ok(t, "schedules", "list"))
		assert.Empty(t, items(t, b.json(t, "schedules", "list")))
		b.scheduled(t)
		out := b.ok(t, "schedules", "list")
		assert.Regexp(t, `(?m)^SCHEDULE +CRON +TIMEZONE +TASK +MISSED +LAST +NEXT +THEN$`, out)
		assert.Regexp(t, `(?m)^yearly +0 3 1 7 \* +Europe/Paris +works +once +- +20\d\d-07-01 03:00:00 CEST \(in .*\) +20\d\d-07-01 03:00:00 CEST, 20\d\d-07-01 03:00:00 CEST$`, out)
		assert.Regexp(t, `(?m)^now and then +@every 24h +- +works +skip +- +\S+ \S+ UTC \(in (24h00m|23h59m)\) `, out)

		yearly := items(t, b.json(t, "schedules", "list"))[1]
		assert.Equal(t, words("name cron timezone missed task queue args priority metadata unique_key paused declared last_tick_at next_ticks"), keys(yearly))
		ticks, ok := yearly["next_ticks"].([]any)
		require.True(t, ok)
		require.Len(t, ticks, 3)
		assert.Regexp(t, `^20\d\d-07-01T01:00:00\.000000Z$`, ticks[0])
		assert.Equal(t, []any{"yearly", "0 3 1 7 *", "Europe/Paris", "once", "works", "reports", "y", true, nil},
			[]any{yearly["name"], yearly["cron"], yearly["timezone"], yearly["missed"], yearly["task"], yearly["queue"], yearly["unique_key"], yearly["declared"], yearly["last_tick_at"]})

		_, err := db.SQL(t).ExecContext(t.Context(), `update weir_schedules set seen_at = seen_at - 180000000`)
		require.NoError(t, err)
		assert.Regexp(t, `(?m)^yearly +.* no process declares it +-$`, b.ok(t, "schedules", "list"))
		assert.Equal(t, []any{}, items(t, b.json(t, "schedules", "list"))[0]["next_ticks"])
	})
}

func TestAScheduleIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.scheduled(t)
	assert.Equal(t, "yearly paused\n", b.ok(t, "schedules", "pause", "yearly"))
	assert.Regexp(t, `(?m)^yearly +.* paused +-$`, b.ok(t, "schedules", "list"))
	doc := b.json(t, "schedules", "pause", "yearly")
	assert.Equal(t, []any{true, []any{}}, []any{doc["paused"], doc["next_ticks"]}, "again")
	b.scheduled(t)
	assert.Regexp(t, `(?m)^yearly +.* paused +-$`, b.ok(t, "schedules", "list"), "after a restart")
	assert.Equal(t, "yearly resumed\n", b.ok(t, "schedules", "resume", "yearly"))
	assert.Equal(t, false, b.json(t, "schedules", "resume", "yearly")["paused"])
	for _, verb := range []string{"pause", "resume", "run"} {
		r := b.run("schedules", verb, "nightly")
		assert.Equal(t, exitFailure, r.code)
		assert.Equal(t, "weir: schedule \"nightly\": not found: `weir schedules list` shows those that a scheduler has declared\n", r.err)
		assert.Equal(t, exitUsage, b.run("schedules", verb).code)
	}
}

func TestAScheduleRunsAtAWord(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	b.scheduled(t)
	job := b.get(t, b.ok(t, "schedules", "run", "yearly"))
	assert.Equal(t, []any{"works", "reports", 5, `{"kind": "yearly"}`}, []any{job.Task, job.Queue, job.Priority, string(job.RawArgs)})
	assert.JSONEq(t, `{"a": 1, "schedule": "yearly"}`, string(job.Metadata))
	r := b.run("schedules", "run", "yearly")
	assert.Equal(t, exitOK, r.code)
	assert.Equal(t, job.ID+"\n", r.out)
	assert.Equal(t, "weir: 1 job not stored: a live job holds the unique key, and its id was printed\n", r.err)
	receipt := b.json(t, "schedules", "run", "now and then")
	assert.Equal(t, words("id duplicate existed"), keys(receipt))
}

const scheduledFile = `
tasks:
  report: {exec: {command: ["true"]}}
schedules:
  nightly: {cron: "0 3 * * *", timezone: Europe/Paris, task: report, args: {kind: daily}}
  often: {cron: "@every 1s", task: report, missed: once}
`

func TestCheckPrintsTheNextTicksOfSchedules(t *testing.T) {
	t.Parallel()
	path := file(t, scheduledFile)
	r := call{}.run("check", "-c", path, "--strict")
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Regexp(t, `(?m)^nightly +0 3 \* \* \* +Europe/Paris +report +\d{4}-\d\d-\d\d 03:00:00 CES?T +\d{4}-\d\d-\d\d 03:00:00 CES?T, \d{4}-\d\d-\d\d 03:00:00 CES?T$`, r.out)
	assert.Regexp(t, `(?m)^often +@every 1s +- +report +\S+ \S+ UTC +\S+ \S+ UTC, \S+ \S+ UTC$`, r.out)

	doc := document(t, call{}.run("check", path, "--json").out)
	files, ok := doc["files"].([]any)
	require.True(t, ok)
	schedules, ok := files[0].(map[string]any)["schedules"].([]any)
	require.True(t, ok)
	require.Len(t, schedules, 2)
	nightly, ok := schedules[0].(map[string]any)
	require.True(t, ok)
	assert.Equal(t, words("name cron timezone task missed next_ticks"), keys(nightly))
	assert.Len(t, nightly["next_ticks"], 3)

	r = call{}.run("check", file(t, "tasks:\n  t: {elsewhere: true}\nschedules:\n  s: {cron: \"@every 500ms\", task: t}\n"))
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.out, `W138 schedules.s.cron: schedule "s": cron "@every 500ms": 500ms is no interval`)
}

func TestServeFiresTheFilesSchedules(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	s := start(t, b.dsn, scheduledFile, call{})
	require.Eventually(t, func() bool {
		page, err := b.client.List(context.Background(), queue.Filter{States: []queue.State{queue.StateCompleted}})
		return err == nil && len(page.Items) > 0
	}, patience, 50*time.Millisecond)
	s.signals <- os.Interrupt
	r := s.wait(t)
	assert.Equal(t, exitOK, r.code, r.err)
	assert.Regexp(t, `(?m)^nightly +0 3 \* \* \* Europe/Paris +report +skip$`, r.out)
	assert.Regexp(t, `(?m)^often +@every 1s +report +once$`, r.out)
}
