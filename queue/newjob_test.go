package queue_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
)

func TestAnInvalidJobIsRefusedBeforeAnythingIsWrittenInTheSameWordsEverywhere(t *testing.T) {
	tests := map[string]struct {
		job  queue.NewJob
		want string
	}{
		"no task": {queue.NewJob{}, `enqueue: task "": it is empty: use 1 to 255 bytes`},
		"control character": {
			queue.NewJob{Task: "a\nb"},
			`enqueue: task "a\nb": it has the control character U+000A at byte 1: leave it out`,
		},
		"queue": {
			queue.NewJob{Task: "a", Queue: "q\x00"},
			`enqueue: task "a": queue "q\x00": it has the control character U+0000 at byte 1: leave it out`,
		},
		"unique key": {
			queue.NewJob{Task: "a", UniqueKey: "\xff"},
			`enqueue: task "a": unique key "\xff": it is not UTF-8: encode it so`,
		},
		"args": {
			queue.NewJob{Task: "a", Args: make([]byte, 1<<20+1)},
			`enqueue: task "a": args of 1048577 bytes: at most 1048576 are allowed: store them elsewhere and pass their name, or, in Go, raise the limit with WithMaxArgs`,
		},
		"id": {
			queue.NewJob{Task: "a", ID: "job-1"},
			`enqueue: task "a": id "job-1": not a UUID: write one as in "018f2f5e-0000-7000-8000-000000000000"`,
		},
		"id in another form": {
			queue.NewJob{Task: "a", ID: "{018f2f5e-0000-7000-8000-000000000000}"},
			`enqueue: task "a": id "{018f2f5e-0000-7000-8000-000000000000}": not a UUID: write one as in "018f2f5e-0000-7000-8000-000000000000"`,
		},
		"nil id": {
			queue.NewJob{Task: "a", ID: "00000000-0000-0000-0000-000000000000"},
			`enqueue: task "a": id "00000000-0000-0000-0000-000000000000": the nil UUID names nothing`,
		},
		"high priority":    {queue.NewJob{Task: "a", Priority: 101}, `enqueue: task "a": priority 101: use -100 (last) to 100 (first)`},
		"low priority":     {queue.NewJob{Task: "a", Priority: -101}, `enqueue: task "a": priority -101: use -100 (last) to 100 (first)`},
		"delay and time":   {queue.NewJob{Task: "a", Delay: 1, RunAt: start}, `enqueue: task "a": delay 1ns: the job has a time to run at as well: give one of the two`},
		"longest duration": {queue.NewJob{Task: "a", Delay: math.MaxInt64}, `enqueue: task "a": delay 2562047h47m16.854775807s: use at most a hundred years, or a time to run at`},
		"year 10000":       {queue.NewJob{Task: "a", RunAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}, `enqueue: task "a": time to run at: use one from the year 1 to 9999`},
		"rounds to 10000":  {queue.NewJob{Task: "a", RunAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_001, time.UTC)}, `enqueue: task "a": time to run at: use one from the year 1 to 9999`},
		"year 300000":      {queue.NewJob{Task: "a", RunAt: time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)}, `enqueue: task "a": time to run at: use one from the year 1 to 9999`},
		"last time":        {queue.NewJob{Task: "a", RunAt: time.Unix(math.MaxInt64, 0)}, `enqueue: task "a": time to run at: use one from the year 1 to 9999`},
		"year 0":           {queue.NewJob{Task: "a", RunAt: time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC)}, `enqueue: task "a": time to run at: use one from the year 1 to 9999`},
		"negative timeout": {queue.NewJob{Task: "a", Timeout: -1}, `enqueue: task "a": timeout -1ns: use up to 366 days; 0 is the task's own`},
		"long timeout":     {queue.NewJob{Task: "a", Timeout: 367 * 24 * time.Hour}, `enqueue: task "a": timeout 8808h0m0s: use up to 366 days; 0 is the task's own`},
		"negative retries": {queue.NewJob{Task: "a", MaxRetries: new(-1)}, `enqueue: task "a": max retries -1: use 0 (one start) to 1000000`},
		"many retries":     {queue.NewJob{Task: "a", MaxRetries: new(1_000_001)}, `enqueue: task "a": max retries 1000001: use 0 (one start) to 1000000`},
		"metadata list":    {queue.NewJob{Task: "a", Metadata: json.RawMessage(`[1]`)}, `enqueue: task "a": metadata "[1]": it is not a JSON object: use one, as in {"source":"import"}`},
		"metadata null":    {queue.NewJob{Task: "a", Metadata: json.RawMessage(`null`)}, `enqueue: task "a": metadata "null": it is not a JSON object: use one, as in {"source":"import"}`},
		"metadata broken":  {queue.NewJob{Task: "a", Metadata: json.RawMessage(`{"a":`)}, `enqueue: task "a": metadata "{\"a\":": it is not JSON: use an object, as in {"source":"import"}`},
		"metadata not UTF-8": {
			queue.NewJob{Task: "a", Metadata: json.RawMessage("{\"a\":\"\xff\"}")},
			`enqueue: task "a": metadata "{\"a\":\"\xff\"}": it is not JSON: use an object, as in {"source":"import"}`,
		},
		"metadata large": {
			queue.NewJob{Task: "a", Metadata: json.RawMessage(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`)},
			`enqueue: task "a": metadata "{\"a\":\"` + strings.Repeat("x", 74) + `"...: it has 65544 bytes: use at most 65536`,
		},
	}
	each(t, func(t *testing.T, b *bundle) {
		for name, test := range tests {
			_, err := b.Enqueue(t.Context(), test.job)
			require.EqualError(t, err, test.want, name)
			require.ErrorIs(t, err, queue.ErrInvalid, name)
			var invalid *queue.InvalidError
			require.ErrorAs(t, err, &invalid, name)
			require.Equal(t, name == "args", errorIs(err, queue.ErrArgsTooLarge), name)

			_, err = b.EnqueueMany(t.Context(), []queue.NewJob{test.job})
			require.EqualError(t, err, test.want, name)
		}
		require.Empty(t, b.all(t, queue.Filter{}))
	})
}

func TestAJobAtEveryBoundIsAccepted(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		jobs := []queue.NewJob{
			{Task: strings.Repeat("t", 255), Queue: strings.Repeat("q", 255), UniqueKey: strings.Repeat("é", 127)},
			{Task: "a", Priority: 100, MaxRetries: new(1_000_000), Timeout: queue.LongestTimeout},
			{Task: "a", Priority: -100, MaxRetries: new(0), Timeout: 1},
			{Task: "a", Delay: queue.LongestDelay},
			{Task: "a", RunAt: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)},
			{Task: "a", Metadata: json.RawMessage(`{"a":"` + strings.Repeat("x", 64<<10-8) + `"}`)},
			{Task: "a", ID: "018F2F5E-0000-7000-8000-00000000ABCD"},
		}
		receipts, err := b.EnqueueMany(t.Context(), jobs)
		require.NoError(t, err)
		infos := make([]*queue.JobInfo, len(receipts))
		for i, r := range receipts {
			infos[i] = b.get(t, r.ID)
		}
		require.Equal(t, jobs[0].Task, infos[0].Task)
		require.Equal(t, jobs[0].Queue, infos[0].Queue)
		require.Equal(t, jobs[0].UniqueKey, infos[0].UniqueKey)
		require.Equal(t, 1_000_000, *infos[1].MaxRetries)
		require.Equal(t, queue.LongestTimeout, infos[1].Timeout)
		require.Equal(t, time.Microsecond, infos[2].Timeout, "rounded up")
		require.Equal(t, 0, *infos[2].MaxRetries)
		require.Equal(t, start.Add(queue.LongestDelay), infos[3].RunAt)
		require.Equal(t, jobs[4].RunAt, infos[4].RunAt)
		require.Equal(t, string(jobs[5].Metadata), string(infos[5].Metadata))
		require.Equal(t, "018f2f5e-0000-7000-8000-00000000abcd", infos[6].ID)
	})
}

func TestAJobNeverStartsBeforeItsTime(t *testing.T) {
	times := []time.Time{
		time.Date(2037, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2038, 1, 19, 3, 14, 8, 0, time.UTC), time.Date(2039, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2262, 4, 11, 23, 47, 16, 854_775_807, time.UTC), time.Date(2262, 4, 11, 23, 47, 17, 0, time.UTC),
		time.Date(2286, 11, 20, 17, 46, 39, 999_999_999, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.FixedZone("east", 14*3600)),
		start.Add(time.Nanosecond), start.Add(time.Microsecond), start.Add(999 * time.Nanosecond), start.Add(time.Second - 1),
	}
	each(t, func(t *testing.T, b *bundle) {
		for _, at := range times {
			receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", RunAt: at})
			require.NoError(t, err)
			info := b.get(t, receipt.ID)
			require.Equal(t, queue.StateScheduled, info.State, at)
			require.False(t, info.RunAt.Before(at), "%s became %s", at, info.RunAt)
			require.Less(t, info.RunAt.Sub(at), time.Microsecond)
		}
		require.Empty(t, b.start(t, "a", "default"))
		b.clock.Advance(time.Second)
		require.Len(t, b.start(t, "a", "default"), 4)
	})
}

func TestATimeThatHasPassedIsNow(t *testing.T) {
	jobs := map[string]queue.NewJob{
		"zero":             {},
		"negative delay":   {Delay: -time.Hour},
		"shortest delay":   {Delay: math.MinInt64},
		"1969":             {RunAt: time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC)},
		"epoch":            {RunAt: time.Unix(0, 0)},
		"year 1":           {RunAt: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)},
		"a moment ago":     {RunAt: start.Add(-1)},
		"this very moment": {RunAt: start},
	}
	each(t, func(t *testing.T, b *bundle) {
		for name, job := range jobs {
			job.Task = "a"
			receipt, err := b.Enqueue(t.Context(), job)
			require.NoError(t, err, name)
			info := b.get(t, receipt.ID)
			require.Equal(t, queue.StateWaiting, info.State, name)
			require.Equal(t, start, info.FirstDueAt, "%s: its place in line", name)
		}
		require.Len(t, b.start(t, "a", "default"), len(jobs))
	})
}

func TestMetadataComesBackWithEveryCharacter(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, m := range []string{`{}`, `{"a":"\u0000"}`, `{"a":"\ud800"}`, `{"b":1,"a":12345678901234567890.5}`, `{"é":"🚲"}`, `{"a":{"b":[null]}}`} {
			receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Metadata: json.RawMessage(" " + m + "\n")})
			require.NoError(t, err, m)
			require.Equal(t, m, string(b.get(t, receipt.ID).Metadata))
		}
	})
}

func TestOptionsThatAreSetToNothingAreRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for want, opt := range map[string]queue.EnqueueOption{
			`enqueue: task "send_email": unique key "": it is empty: use 1 to 255 bytes`:         queue.UniqueKey(""),
			`enqueue: task "send_email": queue "": it is empty: use 1 to 255 bytes`:              queue.Queue(""),
			`enqueue: task "send_email": id "": use a UUID, or leave the option out`:             queue.ID(""),
			`enqueue: task "send_email": metadata: no JSON form: json: unsupported type: func()`: queue.Metadata(map[string]any{"f": func() {}}),
		} {
			_, err := sendEmail.Enqueue(t.Context(), b.Client, emailArgs{}, opt)
			require.EqualError(t, err, want)
			require.ErrorIs(t, err, queue.ErrInvalid)
		}
		_, err := sendEmail.EnqueueMany(t.Context(), b.Client, []emailArgs{{}, {}}, queue.ID("018f2f5e-0000-7000-8000-000000000000"))
		require.EqualError(t, err, `enqueue: task "send_email": id "018f2f5e-0000-7000-8000-000000000000": many jobs cannot have one id: enqueue them one by one, or as NewJobs`)
		require.Empty(t, b.all(t, queue.Filter{}))

		_, err = sendEmail.Enqueue(t.Context(), b.Client, emailArgs{}, queue.Metadata(nil), queue.At(time.Time{}), queue.Timeout(0))
		require.NoError(t, err)
	})
}
