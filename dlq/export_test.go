package dlq_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

func TestAnExportIsALineForEachLetterWithAllOfIt(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Shed, "a", 600) // more than are read at a time
		large := b.enqueue(t, queue.NewJob{Task: "b", Args: bytes.Repeat([]byte{0xff, 0}, 1<<18)})
		b.fail(t, "b", "gone <&>")
		for _, oldestFirst := range []bool{true, false} {
			var out bytes.Buffer
			n, err := b.Export(t.Context(), &out, dlq.Filter{OldestFirst: oldestFirst})
			require.NoError(t, err)
			require.EqualValues(t, 601, n)
			want := b.all(t, dlq.Filter{OldestFirst: oldestFirst})
			lines := bufio.NewScanner(&out)
			lines.Buffer(nil, 4<<20)
			for i := 0; lines.Scan(); i++ {
				var line struct {
					ID     string `json:"id"`
					Reason string `json:"reason"`
					Args   []byte `json:"args_base64"`
				}
				require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
				require.Equal(t, want[i].ID, line.ID)
				if want[i].JobID == large[0] {
					require.Equal(t, "gone <&>", line.Reason)
					require.Len(t, line.Args, 1<<19)
				}
			}
			require.NoError(t, lines.Err())
		}
		var some bytes.Buffer
		n, err := b.Export(t.Context(), &some, dlq.Filter{Kind: dlq.Failed})
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		_, err = b.Export(t.Context(), &some, dlq.Filter{Kind: "x"})
		require.ErrorIs(t, err, dlq.ErrInvalid)
		_, err = b.Export(t.Context(), broken{}, dlq.Filter{})
		require.ErrorIs(t, err, errBroken)
	})
}

// However many letters there are, no more are read ahead of the writer than a
// page names and a batch holds.
func TestAnExportReadsNoMoreThanABatchAhead(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		faults := &storetest.Faults{}
		s := db.Open(t, store.Options{Wrap: faults.Wrap})
		b := &bundle{db: db, client: queue.From(s), Letters: dlq.From(held{s}), clock: queuetest.NewClock(start)}
		b.dead(t, dlq.Shed, "a", 5_000)
		out := &behind{read: faults.Count(`from \S*weir_dead\b`)}
		n, err := b.Export(t.Context(), out, dlq.Filter{})
		require.NoError(t, err)
		require.EqualValues(t, 5_000, n)
		require.LessOrEqual(t, out.most, int64(2*500+5_000/500), "each is named, and then read; and one more tells that more follow")
	})
}

// behind is a writer that knows how many rows are read and not yet written.
type behind struct {
	read          *storetest.Count
	written, most int64
}

func (w *behind) Write(p []byte) (int, error) {
	w.most = max(w.most, w.read.Rows()-2*w.written)
	w.written++
	return len(p), nil
}

var errBroken = errors.New("broken pipe")

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestAWalkEndsWhereItIsToldTo(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		jobs := b.dead(t, dlq.Failed, "a", 5)
		var seen []string
		for e, err := range b.All(t.Context(), dlq.Filter{Task: "a", OldestFirst: true}) {
			require.NoError(t, err)
			if seen = append(seen, e.JobID); len(seen) == 3 {
				break
			}
		}
		require.Equal(t, jobs[:3], seen)
		for _, err := range b.All(t.Context(), dlq.Filter{Limit: 1}) {
			require.ErrorIs(t, err, dlq.ErrInvalid)
		}
	})
}

func TestLettersAreFoundByTheirReasonsTheirTextsAndTheirAges(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		one := b.enqueue(t, queue.NewJob{Task: "a", Args: []byte(`{"to":"ada"}`)})
		b.fail(t, "a", "timeout: no answer")
		b.clock.Advance(60 * 60e9)
		two := b.enqueue(t, queue.NewJob{Task: "a", Args: []byte(`{"to":"bob"}`)})
		b.fail(t, "a", "timeout: 100%_of the time")
		for _, c := range []struct {
			f    dlq.Filter
			want []string
		}{
			{dlq.Filter{Reason: "timeout"}, slices.Concat(two, one)},
			{dlq.Filter{Reason: "timeout", OldestFirst: true}, slices.Concat(one, two)},
			{dlq.Filter{Reason: "no answer"}, nil},
			{dlq.Filter{Text: "no answer"}, one},
			{dlq.Filter{Text: "%_"}, two},
			{dlq.Filter{Text: `"bob"`}, two},
			{dlq.Filter{OlderThan: 60e9}, one},
			{dlq.Filter{NewerThan: 60e9}, two},
			{dlq.Filter{NewerThan: 61 * 60e9, OlderThan: 60 * 60e9}, nil},
			{dlq.Filter{NewerThan: 61 * 60e9, OlderThan: 60*60e9 - 1000}, one},
		} {
			c.f.Limit = 1
			got := jobsOf(b.all(t, c.f))
			require.ElementsMatch(t, c.want, got, "%v", c.f.String())
			if c.f.Reason != "" {
				require.Equal(t, append([]string{}, c.want...), got)
			}
			n, err := b.Count(t.Context(), c.f)
			require.NoError(t, err)
			require.Equal(t, dlq.Count{N: int64(len(c.want))}, n)
		}
	})
}
