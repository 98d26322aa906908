package config

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue/queuetest"
	"github.com/weirq/weir/scheduler"
)

const schedules = `
tasks:
  build_report: {elsewhere: true}
  sweep: {exec: {command: ["true"]}}
schedules:
  nightly:
    cron: "0 3 * * *"
    timezone: Europe/Paris
    task: build_report
    args: {kind: daily, pages: [1, 2.50, -3e2], draft: False, by: null, "a&b": "<x>", "no": 'yes', nested: {z: 1, a: "é"}}
    missed: once
    queue: reports
    priority: -5
    unique_key: nightly
    metadata: {team: books}
    start_within: 1h
  sweep: {cron: "@every 10m", task: sweep}
  berlin: {cron: CRON_TZ=Europe/Berlin 0 7 * * mon-fri, task: sweep, args: plain text}
  both: {cron: "@every 1h", timezone: UTC, task: sweep, args: [], missed: skip}
`

func TestSchedulesSayWhatTheySay(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(schedules))
	require.NoError(t, err)
	require.Len(t, f.Schedules, 4)
	nightly, sweep, berlin, both := f.Schedules[0], f.Schedules[1], f.Schedules[2], f.Schedules[3]
	assert.Equal(t, Place{"weir.yaml", 6, 3, "schedules.nightly"}, nightly.Place)
	assert.Equal(t, []string{"nightly", "0 3 * * *", "Europe/Paris", "build_report", "once", "reports", "nightly", `{"team":"books"}`},
		[]string{nightly.Name, nightly.Spec.Cron(), nightly.Spec.Zone(), nightly.Task, string(nightly.Missed), nightly.Queue, nightly.UniqueKey, string(nightly.Metadata)})
	assert.Equal(t, `{"kind":"daily","pages":[1,2.50,-3e2],"draft":false,"by":null,"a&b":"<x>","no":"yes","nested":{"z":1,"a":"é"}}`, string(nightly.Args)) //nolint:testifylint // byte for byte: the order is the file's
	assert.Equal(t, -5, nightly.Priority)
	assert.Equal(t, time.Hour, nightly.StartWithin)
	assert.Equal(t, []any{"@every 10m", "", scheduler.Skip, []byte(nil)}, []any{sweep.Spec.Cron(), sweep.Spec.Zone(), sweep.Missed, sweep.Args})
	assert.Equal(t, []string{"0 7 * * mon-fri", "Europe/Berlin", `"plain text"`}, []string{berlin.Spec.Cron(), berlin.Spec.Zone(), string(berlin.Args)})
	assert.Equal(t, []string{"UTC", `[]`}, []string{both.Spec.Zone(), string(both.Args)})
}

func TestAFilesSchedulesAreDeclared(t *testing.T) {
	t.Parallel()
	f, err := Parse("weir.yaml", []byte(schedules))
	require.NoError(t, err)
	client := queuetest.Open(t)
	s, err := scheduler.New(client, f.Options()...)
	require.NoError(t, err)
	require.NoError(t, f.Register(s, slog.New(slog.DiscardHandler)))
	require.NoError(t, s.Drain(t.Context()))
	list, err := client.Schedules(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 4)
	nightly := list[2]
	assert.Equal(t, []any{"nightly", "build_report", "reports", -5, "nightly", "once", `{"team":"books"}`, string(f.Schedules[0].Args)},
		[]any{nightly.Name, nightly.Task, nightly.Queue, nightly.Priority, nightly.UniqueKey, nightly.Missed, string(nightly.Metadata), string(nightly.RawArgs)})
	receipt, err := client.RunSchedule(t.Context(), "nightly")
	require.NoError(t, err)
	job, err := client.Get(t.Context(), receipt.ID)
	require.NoError(t, err)
	assert.Equal(t, time.Hour, job.ExpiresAt.Sub(job.EnqueuedAt))
	assert.Equal(t, f.Schedules[0].Args, job.RawArgs)
}

func TestAScheduleThatCannotBeIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, keys, want string }{
		{"five hundred milliseconds", `cron: "@every 500ms", task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "@every 500ms": 500ms is no interval: use whole seconds from 1s to 366 days, as in @every 10m`},
		{"a field out of range", `cron: "0 25 * * *", timezone: UTC, task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "0 25 * * *": hour "25": end of range (25) above maximum (23): use 0 to 23, as in "3" or "9-17"`},
		{"seconds", `cron: "0 0 3 * * *", timezone: UTC, task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "0 0 3 * * *": fields found: 6: use five, minute hour day month weekday, as in "0 3 * * *"`},
		{"a date that never comes", `cron: "0 3 31 2 *", timezone: UTC, task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "0 3 31 2 *": no month has such a day, so it never comes: use another day or month`},
		{"what panics elsewhere", `cron: "TZ=UTC", task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "TZ=UTC": no fields behind TZ=: use five, as in "0 3 * * *"`},
		{"a number", `cron: 5, timezone: UTC, task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "5": fields found: 1: use five, minute hour day month weekday, as in "0 3 * * *"`},
		{"two zones", `cron: TZ=UTC 0 3 * * *, timezone: UTC, task: t`, `4:13: W138 schedules.s.cron: schedule "s": cron "TZ=UTC 0 3 * * *": it names a zone beside the timezone "UTC": keep one of the two`},
		{"no zone", `cron: "0 3 * * *", task: t`, `4:13: W139 schedules.s.cron: schedule "s": no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"an unknown zone", `cron: "0 3 * * *", timezone: Mars/Base, task: t`, `4:36: W139 schedules.s.timezone: schedule "s": timezone "Mars/Base": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"an empty zone", `cron: "0 3 * * *", timezone: "", task: t`, `4:36: W139 schedules.s.timezone: schedule "s": no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"an empty zone of an interval", `cron: "@every 1h", timezone: "", task: t`, `4:36: W139 schedules.s.timezone: schedule "s": no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"a zone without a value", `cron: "0 3 * * *", timezone: , task: t`, `4:26: W112 schedules.s.timezone: "timezone" has no value: give the name of a time zone, as in Europe/Paris, or leave the key out`},
		{"an unknown zone in the spec", `cron: TZ=Mars 0 3 * * *, task: t`, `4:13: W139 schedules.s.cron: schedule "s": timezone "Mars": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"no cron", `timezone: UTC, task: t`, `4:3: W114 schedules.s: schedule "s": no cron: say when, as in cron: "0 3 * * *" or cron: "@every 10m"`},
		{"no task", `cron: "@every 1h"`, `4:3: W114 schedules.s: schedule "s": no task: name the one whose job is enqueued, as in task: build_report`},
		{"another task", `cron: "@every 1h", task: tt`, `4:32: W141 schedules.s.task: schedule "s": task "tt" is not declared in this file: did you mean "t"? Else declare it under "tasks", with elsewhere: true if another process runs it`},
		{"another policy", `cron: "@every 1h", task: t, missed: all`, `4:43: W140 schedules.s.missed: schedule "s": missed "all": use "skip" (the default) or "once"`},
		{"a priority", `cron: "@every 1h", task: t, priority: 101`, `4:45: W128 schedules.s.priority: priority "101": use a whole number from -100 to 100, in plain digits`},
		{"a number that is none in JSON", `cron: "@every 1h", task: t, args: {n: [1_000]}`, `4:46: W128 schedules.s.args.n[0]: "1_000" is no number in JSON: write it in plain digits, or in quotes if it is a text`},
		{"metadata that is no object", `cron: "@every 1h", task: t, metadata: [a]`, `4:45: W112 schedules.s.metadata: it is a list: give a mapping, as in {team: books}`},
		{"an unknown key", `cron: "@every 1h", task: t, retries: 3`, `4:35: W111 schedules.s.retries: unknown key "retries": use one of args, cron, metadata, missed, priority, queue, start_within, task, timezone, unique_key`},
		{"another name of a key", `cron: "@every 1h", task: t, tz: UTC`, `4:35: W111 schedules.s.tz: unknown key "tz": here it is called "timezone"`},
		{"too many bytes", `cron: "@every 1h", task: t, metadata: {a: ` + strings.Repeat("x", 65_530) + `}`, `4:45: W103 schedules.s.metadata: metadata of 65538 bytes: use at most 65536`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, []string{"weir.yaml:" + c.want}, faults(t, "tasks:\n  t: {elsewhere: true}\nschedules:\n  s: {"+c.keys+"}\n"))
		})
	}
}

// A few lines of aliases can stand for billions of values.
func TestArgumentsOfManyAliasesAreRefusedInTime(t *testing.T) {
	t.Parallel()
	lines := []string{"tasks: {t: {elsewhere: true}}", "schedules:", "  s:", `    cron: "@every 1h"`, "    task: t", "    args:", "      x: &x [1, 2, 3]"}
	for i := range 30 {
		last := "*x" + strings.Repeat("x", i)
		lines = append(lines, fmt.Sprintf("      y%d: &x%s [%s%s]", i, strings.Repeat("x", i+1), strings.Repeat(last+", ", 9), last))
	}
	assert.Equal(t, []string{"weir.yaml:7:7: W103 schedules.s.args: more than 1048576 bytes of JSON: store it elsewhere, and give its name"},
		faults(t, strings.Join(lines, "\n")))
}
