package queue_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
)

func TestWhatOperatorsDoIsListedTheLatestFirst(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		ada := queue.WithActor(t.Context(), "ada")
		for _, name := range []string{"one", "two", "three"} {
			require.NoError(t, b.PauseQueue(ada, name))
		}
		receipt, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Delay: time.Hour})
		require.NoError(t, err)
		require.NoError(t, b.RunNow(ada, receipt.ID))
		require.NoError(t, b.ResumeQueue(t.Context(), "one"))

		page, err := b.Audit(t.Context(), queue.AuditFilter{Actor: "ada", Limit: 3})
		require.NoError(t, err)
		var got []string
		for _, act := range page.Items {
			got = append(got, act.Action+" "+act.Subject)
		}
		require.Equal(t, []string{"jobs retry " + receipt.ID, "queues pause three", "queues pause two"}, got)
		page, err = b.Audit(t.Context(), queue.AuditFilter{Actor: "ada", Cursor: page.Next})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.Empty(t, page.Next)

		page, err = b.Audit(t.Context(), queue.AuditFilter{Action: "queues resume"})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		text, err := json.Marshal(page.Items[0])
		require.NoError(t, err)
		require.Regexp(t, `^{"id":"\d+","at":"[0-9TZ:.-]+","actor":null,"action":"queues resume","subject":"one","detail":null,"count":1}$`, string(text))

		_, err = b.Audit(t.Context(), queue.AuditFilter{Limit: 10_001})
		require.EqualError(t, err, "limit 10001: use 1 to 10000")
		_, err = b.Audit(t.Context(), queue.AuditFilter{Cursor: "x"})
		require.ErrorIs(t, err, queue.ErrInvalid)
	})
}
