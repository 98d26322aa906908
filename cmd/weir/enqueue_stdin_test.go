package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func lines(t *testing.T, out string) []queue.Receipt {
	t.Helper()
	var receipts []queue.Receipt
	for line := range strings.Lines(out) {
		var r queue.Receipt
		require.NoError(t, json.Unmarshal([]byte(line), &r), "%q", line)
		receipts = append(receipts, r)
	}
	return receipts
}

func TestStdinEnqueuesALineAJobAndAnswersInOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		r := b.call(call{stdin: `
{"task": "a", "args": {"n": 1}, "queue": "q", "priority": 5, "delay": "1h", "unique_key": "k", "metadata": {"m": 1}, "timeout": "5s", "max_retries": 0, "id": "018f2f5e-0000-7000-8000-000000000003"}

{"task": "b", "args_base64": "/wA="}
{"task": "b", "args": null, "run_at": "2222-01-01T00:00:00Z"}
{"task": "a", "unique_key": "k"}` + "\r\n"}, "enqueue", "--stdin", "--json")
		require.Equal(t, exitOK, r.code, r.err)
		receipts := lines(t, r.out)
		require.Len(t, receipts, 4)
		first := b.get(t, receipts[0].ID+"\n")
		assert.Equal(t, "018f2f5e-0000-7000-8000-000000000003", first.ID)
		assert.Equal(t, `{"n": 1}`, string(first.RawArgs))
		assert.Equal(t, []any{"a", "q", 5, "k", queue.StateScheduled, 5 * time.Second, 0},
			[]any{first.Task, first.Queue, first.Priority, first.UniqueKey, first.State, first.Timeout, *first.MaxRetries})
		assert.Equal(t, "\xff\x00", string(b.get(t, receipts[1].ID+"\n").RawArgs))
		third := b.get(t, receipts[2].ID+"\n")
		assert.Empty(t, third.RawArgs)
		assert.Equal(t, 2222, third.RunAt.Year())
		assert.Equal(t, queue.Receipt{ID: first.ID, Duplicate: true}, receipts[3])

		r = b.call(call{stdin: `{"task": "a"}`}, "enqueue", "--stdin")
		assert.Equal(t, "1 job enqueued\n", r.out)
	})
}

func TestManyLinesGoInBatchesAndNoneIsLost(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	var in strings.Builder
	const n = 3456
	for i := range n {
		fmt.Fprintf(&in, "{\"task\": \"t\", \"args\": %d}\n", i)
	}
	r := b.call(call{stdin: in.String()}, "enqueue", "--stdin", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	receipts := lines(t, r.out)
	require.Len(t, receipts, n)
	for _, i := range []int{0, 999, 1000, 2500, n - 1} {
		assert.Equal(t, fmt.Sprint(i), string(b.get(t, receipts[i].ID+"\n").RawArgs))
	}
}

func TestABatchOfLongLinesIsShort(t *testing.T) {
	t.Parallel()
	in := make(chan numbered)
	go func() {
		defer close(in)
		for n := range 20 {
			in <- numbered{n: n + 1, text: []byte(`{"task": "t", "metadata": {"a": "` + strings.Repeat("a", 1<<20) + `"}}`)}
		}
	}()
	s := stream{app: &app{clock: clock.NewFake(time.Unix(0, 0))}, lines: in}
	var sizes []int
	for sum := 0; sum < 20; {
		batch, _ := s.batch()
		sizes = append(sizes, len(batch))
		sum += len(batch)
	}
	assert.Equal(t, []int{8, 8, 4}, sizes)
}

func TestTheFirstLineThatIsRefusedEndsItAndTheOnesBeforeAreStored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, want string }{
		{"no JSON", `task t`, "not JSON: invalid character 'a' in literal true (expecting 'r'): write a JSON object a line, as in"},
		{"no object", `[1]`, "no JSON object: write a JSON object a line, as in"},
		{"half an object", `{"task": `, "not JSON: unexpected end of JSON input: write a JSON object a line, as in"},
		{"an object without an end", `{"task": "t"`, "not JSON: unexpected end of JSON input"},
		{"no name", `{task: "t"}`, "not JSON: invalid character 't' looking for beginning of object key string"},
		{"two objects", `{"task": "t"} {"task": "t"}`, "not JSON: invalid character '{' after top-level value: write a JSON object a line"},
		{"a member that is not known", `{"task": "t", "quueue": "x"}`, `unknown member "quueue": did you mean "queue"?`},
		{"a member of another case", `{"Task": "t"}`, `unknown member "Task": did you mean "task"?`},
		{"a member twice", `{"task": "t", "priority": 1, "priority": 2}`, `member "priority" is there twice: keep one`},
		{"a number for a text", `{"task": "t", "delay": 30}`, `member "delay": 30 is no text: write one, as in "30s"`},
		{"a text for a number", `{"task": "t", "priority": "5"}`, `member "priority": "5": use a whole number, in plain digits`},
		{"a fraction", `{"task": "t", "max_retries": 1.5}`, `member "max_retries": 1.5: use a whole number, in plain digits`},
		{"no base64", `{"task": "t", "args_base64": "?"}`, `member "args_base64": not base64`},
		{"an empty key", `{"task": "t", "unique_key": ""}`, `member "unique_key" is empty: give it a value, or leave it out`},
		{"an empty queue", `{"task": "t", "queue": ""}`, `member "queue" is empty: give it a value, or leave it out`},
		{"an empty delay", `{"task": "t", "delay": ""}`, `member "delay" is empty: give it a value, or leave it out`},
		{"a byte order mark", "\ufeff" + `{"task": "t"}`, "not JSON: invalid character 'ï'"},
		{"bytes that are no text", "{\"task\": \"\xff\"}", "the line is not UTF-8"},
		{"no task", `{"args": {}}`, `task "": it is empty`},
		{"a priority out of range", `{"task": "t", "priority": 1000}`, `task "t": priority 1000: use -100 (last) to 100 (first)`},
		{"a delay without a unit", `{"task": "t", "delay": "30"}`, `delay "30": write a time with its unit (s, m or h), as in 30s or 1h30m`},
		{"arguments twice", `{"task": "t", "args": 1, "args_base64": "AA=="}`, "give one of the two"},
		{"a bad deadline", `{"task": "t", "start_before": "soon"}`, `start_before "soon": write the time in RFC 3339`},
		{"a deadline of nothing", `{"task": "t", "start_within": "0s"}`, `start_within "0s": use a time above 0`},
		{"two deadlines", `{"task": "t", "start_within": "5s", "start_before": "2222-01-01T00:00:00Z"}`, "the job has a time to start before as well: give one of the two"},
		{"a bad time", `{"task": "t", "run_at": "soon"}`, `run_at "soon": write the time in RFC 3339`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := sqlite(t)
			r := b.call(call{stdin: "{\"task\": \"t\"}\n\n{\"task\": \"t\"}\n" + c.line + "\n{\"task\": \"t\"}\n"}, "enqueue", "--stdin", "--json")
			assert.Equal(t, exitFailure, r.code)
			assert.Regexp(t, `^weir: enqueue: line 4: [^\n]*\n$`, r.err)
			assert.Equal(t, 1, strings.Count(r.err, "enqueue: "), "one form of errors: %s", r.err)
			assert.Contains(t, r.err, c.want)
			assert.Len(t, lines(t, r.out), 2)
			assert.Len(t, items(t, b.json(t, "jobs", "list")), 2)
		})
	}
}

func TestNullAndAByteOrderMarkAtTheBeginningAreNothing(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	r := b.call(call{stdin: "\ufeff" + `{"task": "t", "queue": null, "unique_key": null, "delay": null, "args": null, "args_base64": "AA==", "metadata": null, "max_retries": null}`}, "enqueue", "--stdin", "--json")
	require.Equal(t, exitOK, r.code, r.err)
	job := b.get(t, lines(t, r.out)[0].ID+"\n")
	assert.Equal(t, "default", job.Queue)
	assert.Equal(t, "\x00", string(job.RawArgs))
	assert.Nil(t, job.MaxRetries)
}

func TestALineThatNeverEndsIsRefused(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	r := b.call(call{stdin: "{\"task\": \"t\"}\n\"" + strings.Repeat("x", longestLine+1)}, "enqueue", "--stdin")
	assert.Equal(t, exitFailure, r.code)
	assert.Contains(t, r.err, "line 2: longer than 16777216 bytes")
	assert.Equal(t, "1 job enqueued\n", r.out)
}

func TestAReceiptComesWhileTheStreamIsStillOpen(t *testing.T) {
	t.Parallel()
	b := sqlite(t)
	in, feed := io.Pipe()
	answers, out := io.Pipe()
	a := &app{in: in, out: bufio.NewWriter(out), err: io.Discard, env: func(string) string { return "" }, clock: clock.System{}}
	done := make(chan int, 1)
	go func() { done <- a.run([]string{"enqueue", "--stdin", "--json", "--database", b.dsn}) }()
	answer := bufio.NewReader(answers)
	for range 3 {
		_, err := feed.Write([]byte("{\"task\": \"t\"}\n"))
		require.NoError(t, err)
		line, err := answer.ReadString('\n')
		require.NoError(t, err)
		require.Len(t, lines(t, line), 1)
	}
	require.NoError(t, feed.Close())
	assert.Equal(t, exitOK, <-done)
}
