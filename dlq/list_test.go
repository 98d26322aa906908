package dlq_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

func TestALetterHasAllThatTheJobHad(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		two := 2
		job := b.enqueue(t, queue.NewJob{
			Task: "send", Args: []byte(`{"to": "ada"}`), Priority: 7, UniqueKey: "k", MaxRetries: &two,
			Timeout: 90 * time.Second, Metadata: json.RawMessage(`{"source":"import"}`),
		})[0]
		b.clock.Advance(time.Second)
		b.fail(t, "send", "no such host\nat line 2")

		list := b.all(t, dlq.Filter{})
		require.Len(t, list, 1)
		byNumber, err := b.Get(t.Context(), list[0].ID)
		require.NoError(t, err)
		byJob, err := b.Get(t.Context(), strings.ToUpper(job))
		require.NoError(t, err)
		require.Equal(t, byNumber, byJob)
		require.Equal(t, &dlq.Entry{
			ID: list[0].ID, JobID: job, Task: "send", Queue: "default", Kind: dlq.Failed, Reason: "no such host\nat line 2",
			JobMetadata: json.RawMessage(`{"source":"import"}`), Args: json.RawMessage(`{"to": "ada"}`), RawArgs: []byte(`{"to": "ada"}`),
			Attempts: 1, Errors: []dlq.AttemptError{{1, start.Add(time.Second), "no such host\nat line 2"}},
			Priority: 7, UniqueKey: "k", MaxRetries: &two, Timeout: 90 * time.Second,
			EnqueuedAt: start, FirstDueAt: start, DeadAt: start.Add(time.Second),
		}, byNumber)
		text, err := json.Marshal(byNumber)
		require.NoError(t, err)
		require.Equal(t, `{"id":"`+list[0].ID+`","job_id":"`+job+`","task":"send","queue":"default","kind":"failed","reason":"no such host\nat line 2",`+
			`"metadata":null,"job_metadata":{"source":"import"},"args":{"to":"ada"},"args_base64":"eyJ0byI6ICJhZGEifQ==","attempts":1,`+
			`"errors":[{"attempt":1,"at":"2030-01-02T03:04:06.000000Z","error":"no such host\nat line 2"}],"priority":7,"unique_key":"k","max_retries":2,`+
			`"timeout":"1m30s","deferrals":0,"enqueued_at":"2030-01-02T03:04:05.000000Z","first_due_at":"2030-01-02T03:04:05.000000Z",`+
			`"dead_at":"2030-01-02T03:04:06.000000Z","replays":0}`, string(text))
	})
}

func TestAShedLetterSaysWhichLimitHadNoRoom(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Shed, "sample", 1)
		page, err := b.List(t.Context(), dlq.Filter{})
		require.NoError(t, err)
		e := page.Items[0]
		require.Equal(t, dlq.Shed, e.Kind)
		require.Equal(t, "rate_limit: task:sample 1/m", e.Reason)
		require.JSONEq(t, `{"shed":"rate_limit"}`, string(e.Metadata))
		require.Zero(t, e.Attempts)
		text, err := json.Marshal(page)
		require.NoError(t, err)
		require.Contains(t, string(text), `"attempts":0,"errors":[],"priority":0,"unique_key":null,"max_retries":null,"timeout":null,`)
		require.NotContains(t, string(text), "args_base64")
	})
}

func TestLettersAreFilteredByKindTaskAndQueueTheLatestFirst(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		shed, failed, other := b.dead(t, dlq.Shed, "a", 2), b.dead(t, dlq.Failed, "a", 2), b.dead(t, dlq.Failed, "b", 1)
		list := func(f dlq.Filter) []string { return jobsOf(b.all(t, f)) }
		all := slices.Concat(shed, failed, other)
		slices.Reverse(all)
		require.Equal(t, all, list(dlq.Filter{}))
		require.ElementsMatch(t, shed, list(dlq.Filter{Kind: dlq.Shed}))
		require.ElementsMatch(t, slices.Concat(failed, other), list(dlq.Filter{Kind: dlq.Failed}))
		require.ElementsMatch(t, slices.Concat(shed, failed), list(dlq.Filter{Task: "a"}))
		require.ElementsMatch(t, failed, list(dlq.Filter{Task: "a", Kind: dlq.Failed, Queue: "default"}))
		require.Empty(t, list(dlq.Filter{Queue: "other"}))
		require.Empty(t, list(dlq.Filter{Kind: dlq.Expired}))
	})
}

func TestAFilterThatCannotBeMeantIsRefused(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const noCursor = `: not a cursor of this list: pass "next" of the page before as it is`
		for want, f := range map[string]dlq.Filter{
			`limit 10001: use 1 to 10000`:              {Limit: 10_001},
			`limit -1: use 1 to 10000`:                 {Limit: -1},
			`kind "lost": use shed, failed or expired`: {Kind: "lost"},
			`task "a\x00": no name has control characters, more than 255 bytes, or bytes that are not UTF-8`: {Task: "a\x00"},
			`queue "\xff": no name has control characters, more than 255 bytes, or bytes that are not UTF-8`: {Queue: "\xff"},
			`reason "\x00": no reason has NUL, or bytes that are not UTF-8`:                                  {Reason: "\x00"},
			`text "\xff": no reason has NUL, or bytes that are not UTF-8`:                                    {Text: "\xff"},
			`older than -1s: use a time above 0, as in 24h`:                                                  {OlderThan: -time.Second},
			`newer than -1s: use a time above 0, as in 24h`:                                                  {NewerThan: -time.Second},
			`newer than 1s: nothing is newer than that and older than 1s: use more`:                          {NewerThan: time.Second, OlderThan: time.Second},
			`cursor "agE"` + noCursor:   {Cursor: "agE"}, // of jobs
			`cursor "%"` + noCursor:     {Cursor: "%"},
			`cursor "ZP8"` + noCursor:   {Cursor: "ZP8"},
			`cursor "ZAE\n"` + noCursor: {Cursor: "ZAE\n"},
			`cursor "bwIC"` + noCursor:  {Cursor: "bwIC"}, // of the other direction
			`cursor "ZAIC"` + noCursor:  {Cursor: "ZAIC", OldestFirst: true},
		} {
			_, err := b.List(t.Context(), f)
			require.EqualError(t, err, "list dead letters: "+want)
			require.ErrorIs(t, err, dlq.ErrInvalid)
		}
	})
}

func TestALetterThatIsNotThereIsNotFound(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, id := range []string{"1", "9223372036854775807", uuid.NewString()} {
			_, err := b.Get(t.Context(), id)
			require.EqualError(t, err, "dead letter "+id+": not found: it never was, or it was replayed or purged")
			require.ErrorIs(t, err, dlq.ErrNotFound)
		}
		for _, id := range []string{"", "0", "-1", "01", "+1", "1.0", "a", "9223372036854775808", "00000000-0000-0000-0000-000000000000"} {
			_, err := b.Get(t.Context(), id)
			require.EqualError(t, err, fmt.Sprintf(`dead letter %q: use the number of an entry or the id of its job`, id))
			require.ErrorIs(t, err, dlq.ErrInvalid)
		}
	})
}

func TestAListDoesNotLoadLargeArguments(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		large := bytes.Repeat([]byte{0xff}, 1<<20)
		job := b.enqueue(t, queue.NewJob{Task: "a", Args: large})[0]
		b.fail(t, "a", "gone")
		e := b.all(t, dlq.Filter{})[0]
		require.Nil(t, e.Args)
		require.Nil(t, e.RawArgs)
		require.EqualValues(t, 1<<20, e.ArgsSize)
		full, err := b.Get(t.Context(), job)
		require.NoError(t, err)
		require.True(t, bytes.Equal(large, full.RawArgs))
	})
}

// While the list is read letters come and go: those that stay come once.
func TestPagesShowEveryLetterOnceWhateverHappensMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			task := fmt.Sprint("t", round)
			jobs := b.dead(t, dlq.Failed, task, rapid.IntRange(0, 30).Draw(rt, "letters"))
			f := dlq.Filter{Task: task, Limit: rapid.IntRange(1, 12).Draw(rt, "limit")}
			var seen, gone []string
			for {
				page, err := b.List(t.Context(), f)
				require.NoError(rt, err)
				seen = append(seen, jobsOf(page.Items)...)
				if f.Cursor = page.Next; page.Next == "" {
					break
				}
				switch rapid.SampledFrom([]string{"die", "replay", "purge", "nothing"}).Draw(rt, "meanwhile") {
				case "die":
					b.dead(t, dlq.Failed, task, 1)
				case "replay":
					gone = append(gone, jobs[0])
					_, _ = b.Replay(t.Context(), jobs[0])
				case "purge":
					gone = append(gone, jobs[len(jobs)/2])
					_, _ = b.Purge(t.Context(), jobs[len(jobs)/2])
				}
			}
			for _, job := range jobs {
				n := 0
				for _, s := range seen {
					if s == job {
						n++
					}
				}
				if slices.Contains(gone, job) {
					require.LessOrEqual(rt, n, 1)
				} else {
					require.Equal(rt, 1, n)
				}
			}
		})
	})
}

func TestStatsGroupByKindTaskAndTheHeadOfTheReason(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		stats, err := b.Stats(t.Context())
		require.NoError(t, err)
		text, err := json.Marshal(stats)
		require.NoError(t, err)
		require.JSONEq(t, `{"groups":[],"hours":[],"removed":[]}`, string(text))

		b.dead(t, dlq.Shed, "a", 3)
		die := func(reason string) {
			b.enqueue(t, queue.NewJob{Task: "a"})
			b.fail(t, "a", reason)
		}
		die("timeout\nof attempt 1")
		die("timeout\nof attempt 2")
		die(strings.Repeat("x", 80) + " one end")
		die(strings.Repeat("x", 80) + " another")
		die(strings.Repeat("é", 45))       // the 80th byte ends a character
		die("x" + strings.Repeat("é", 45)) // ... and here it does not
		die("")                            // no reason
		die("\n")                          // nor on the first line
		stats, err = b.Stats(t.Context())
		require.NoError(t, err)
		require.ElementsMatch(t, []dlq.Group{
			{dlq.Failed, "a", "timeout", 2},
			{dlq.Failed, "a", strings.Repeat("x", 80), 2},
			{dlq.Failed, "a", strings.Repeat("é", 40), 1},
			{dlq.Failed, "a", "x" + strings.Repeat("é", 39), 1},
			{dlq.Failed, "a", "", 2},
			{dlq.Shed, "a", "rate_limit: task:a 1/m", 3},
		}, stats.Groups)
		require.Equal(t, []dlq.Hour{{dlq.Failed, start.Truncate(time.Hour), 8}, {dlq.Shed, start.Truncate(time.Hour), 3}}, stats.Hours)
		require.NoError(t, b.Recount(t.Context()))
		again, err := b.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, stats, again)
	})
}
