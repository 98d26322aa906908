package dlq_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

// What names nothing is an error of the call, and no part of what was done.
func TestTheAuditTrailNamesWhatWasActedOnAlone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		died := b.dead(t, dlq.Failed, "a", 3)
		letters := b.all(t, dlq.Filter{OldestFirst: true})
		byID := map[string]string{} // a job's id: its letter's number
		for _, e := range letters {
			byID[e.JobID] = e.ID
		}
		number := func(i int) string { return byID[died[i]] }

		replayed, err := b.Replay(t.Context(), number(0), "\xff\x00", number(0), "987654", died[1])
		require.ErrorIs(t, err, dlq.ErrInvalid)
		require.ErrorIs(t, err, dlq.ErrNotFound)
		require.Len(t, replayed, 2)
		n, err := b.Purge(t.Context(), strings.Repeat("x", 1<<20), "\x00", number(2))
		require.ErrorIs(t, err, dlq.ErrInvalid)
		require.EqualValues(t, 1, n)

		page, err := b.client.Audit(t.Context(), queue.AuditFilter{})
		require.NoError(t, err)
		var subjects []string
		for _, act := range page.Items {
			subjects = append(subjects, act.Subject)
		}
		require.Equal(t, []string{number(2), number(0) + " " + died[1]}, subjects)
	})
}

// A name that no database can hold must not keep anybody from acting.
func TestAnyActorAndAnyFilterCanBeRecorded(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.dead(t, dlq.Failed, "a", 1)
		long := strings.Repeat("h\u00e9", 1<<19)
		_, err := b.PurgeWhere(dlq.WithActor(t.Context(), "a\xff\x00b"+long), dlq.Filter{Kind: dlq.Failed, Reason: "no such host"})
		require.NoError(t, err)
		page, err := b.client.Audit(t.Context(), queue.AuditFilter{})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		actor := page.Items[0].Actor
		require.True(t, strings.HasPrefix(actor, "a\ufffd\ufffdbh\u00e9"), "%.40q", actor)
		require.True(t, utf8.ValidString(actor))
		require.LessOrEqual(t, len(actor), 4096)
		page, err = b.client.Audit(t.Context(), queue.AuditFilter{Actor: "a\xff\x00b" + long})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
	})
}
