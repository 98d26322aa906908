package queue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func errorIs(err, target error) bool { return errors.Is(err, target) }

var names = storetest.Names()

func TestEveryNameIsItsOwn(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, name := range names {
			_, err := b.Enqueue(t.Context(), queue.NewJob{Task: name, Queue: name, UniqueKey: name, Args: []byte(name)})
			require.NoError(t, err, name)
		}
		for _, name := range names {
			for _, f := range []queue.Filter{{Task: name}, {Queue: name}} {
				items := b.all(t, f)
				require.Len(t, items, 1, name)
				require.Equal(t, name, items[0].Task)
				require.Equal(t, name, items[0].Queue)
				require.Equal(t, name, items[0].UniqueKey)
			}
			again, err := b.Enqueue(t.Context(), queue.NewJob{Task: name, UniqueKey: name})
			require.NoError(t, err)
			require.True(t, again.Duplicate, name)
			require.Len(t, b.start(t, name, name), 1, name)
		}
	})
}

func TestNamesAreListedByTheirBytes(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, name := range names {
			_, err := b.Enqueue(t.Context(), queue.NewJob{Task: "t", Queue: name})
			require.NoError(t, err, name)
		}
		queues, err := b.Queues(t.Context())
		require.NoError(t, err)
		listed := make([]string, len(queues))
		for i, q := range queues {
			listed[i] = q.Name
		}
		require.IsIncreasing(t, listed)
		require.ElementsMatch(t, names, listed)
	})
}

func TestPairsOfNamesDoNotRunIntoEachOther(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for _, l := range []store.Line{{Task: "a:b", Queue: "c"}, {Task: "a", Queue: "b:c"}} {
			_, err := b.Enqueue(t.Context(), queue.NewJob{Task: l.Task, Queue: l.Queue, UniqueKey: "k"})
			require.NoError(t, err)
		}
		require.Len(t, b.all(t, queue.Filter{Task: "a", Queue: "b:c"}), 1)
		require.Len(t, b.start(t, "a:b", "c"), 1)
		require.Len(t, b.start(t, "a", "b:c"), 1)
	})
}

func TestANameThatNotEveryPlaceCouldCarryIsRefused(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                           `it is empty: use 1 to 255 bytes`,
		strings.Repeat("n", 256):     `it has 256 bytes: use 1 to 255`,
		strings.Repeat("é", 3000):    `it has 6000 bytes: use 1 to 255`,
		"a\x00":                      `it has the control character U+0000 at byte 1: leave it out`,
		"a\tb":                       `it has the control character U+0009 at byte 1: leave it out`,
		"é\x7f":                      `it has the control character U+007F at byte 2: leave it out`,
		"\u0085":                     `it has the control character U+0085 at byte 0: leave it out`,
		"\xc3\x28":                   `it is not UTF-8: encode it so`,
		"\xed\xa0\x80" /* U+D800 */ : `it is not UTF-8: encode it so`,
	} {
		err := queue.CheckName("limit", name)
		var invalid *queue.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "limit", invalid.Field)
		require.Equal(t, want, invalid.Problem)
		require.Less(t, len(err.Error()), 500, "a name is not spread over a page")
	}
	require.NoError(t, queue.CheckName("task", "send_email"))
}
