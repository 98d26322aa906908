package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
)

func TestLimitsQueuesAndTasksAreShown(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		assert.Equal(t, "no limits: a scheduler declares them\n", b.ok(t, "limits", "list"))
		assert.Equal(t, "no tasks: a scheduler registers them\n", b.ok(t, "tasks", "list"))
		b.ok(t, "enqueue", "works", "--queue", "mail", "--count", "3")
		b.drain(t)
		b.ok(t, "enqueue", "works", "--queue", "pay")

		limits := items(t, b.json(t, "limits", "list"))
		require.Len(t, limits, 3)
		assert.Equal(t, words("name rate burst strategy source level capacity held_until next_token_at waiting deferred shed started paused"), keys(limits[0]))
		assert.Equal(t, []any{"queue:mail", "stripe", "task:sample"}, []any{limits[0]["name"], limits[1]["name"], limits[2]["name"]})
		table := b.ok(t, "limits", "list")
		assert.Regexp(t, `(?m)^stripe +5/h burst 7 +4(\.\d+)? of 7 +- +1 +3 +0 +0 +-$`, table)
		assert.Regexp(t, `(?m)^queue:mail +50/h +47(\.\d+)? of 50 +- +0 +3 +0 +0 +-$`, table)

		stripe := b.json(t, "limits", "show", "stripe")
		assert.Equal(t, "5/h", stripe["rate"])
		text := b.ok(t, "limits", "show", "stripe")
		assert.Regexp(t, `(?m)^tasks +works$`, text)
		assert.Regexp(t, `(?m)^queues +pay$`, text)
		assert.Regexp(t, `(?m)^held until +no$`, text)
		r := b.run("limits", "show", "strip")
		assert.Equal(t, exitFailure, r.code)
		assert.Contains(t, r.err, `limit "strip": not found: `)

		queues := items(t, b.json(t, "queues", "list"))
		require.Len(t, queues, 3)
		assert.Equal(t, words("name waiting scheduled running oldest_waiting_at paused"), keys(queues[0]))
		assert.Regexp(t, `(?m)^pay +1 +0 +0 +\S.* +-$`, b.ok(t, "queues", "list"))

		tasks := items(t, b.json(t, "tasks", "list"))
		require.Len(t, tasks, 3)
		assert.Equal(t, words("name queue max_retries definition waiting registered_at"), keys(tasks[0]))
		assert.Regexp(t, `(?m)^sample +default +2/h +drop +3 +0 +(now|.* ago)$`, b.ok(t, "tasks", "list"))
		assert.Regexp(t, `(?m)^works +mail +- +defer +3 +1 +(now|.* ago)$`, b.ok(t, "tasks", "list"))

		b.ok(t, "enqueue", "new_task", "--count", "2")
		assert.Regexp(t, `(?m)^new_task +default +- +- +3 +2 +never: no handler$`, b.ok(t, "tasks", "list"))
	})
}
