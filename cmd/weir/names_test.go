package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestWhateverItsNameIsATaskAndItsQueueAndItsLimitAreShownAndFound(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		t.Parallel()
		b := setup(t, db)
		names := storetest.Names()
		jobs := make([]queue.NewJob, len(names))
		limits := make([]store.Declared, len(names))
		limit, err := bucket.NewLimit("3/h", 0)
		require.NoError(t, err)
		for i, name := range names {
			jobs[i] = queue.NewJob{Task: name, Queue: name}
			limits[i] = store.Declared{Name: "task:" + name, Limit: limit, Tasks: []string{name}}
		}
		require.NoError(t, b.client.Store().Register(t.Context(), nil, limits))
		_, err = b.client.EnqueueMany(t.Context(), jobs)
		require.NoError(t, err)

		for what, prefix := range map[string]string{"tasks": "", "queues": "", "limits": "task:"} {
			var want, got []any
			for _, name := range names {
				want = append(want, prefix+name)
			}
			for _, item := range items(t, b.json(t, what, "list")) {
				got = append(got, item["name"])
			}
			assert.ElementsMatch(t, want, got, what)
		}
		if db.Dialect == store.Postgres {
			return // each of what follows is a run of the program, and its connections
		}
		for _, name := range names {
			found := items(t, b.json(t, "jobs", "list", "--task", name, "--queue", name))
			if assert.Len(t, found, 1, name) {
				assert.Equal(t, name, found[0]["task"])
				assert.Equal(t, name, found[0]["queue"])
			}
			assert.Equal(t, "task:"+name, b.json(t, "limits", "show", "task:"+name)["name"])
		}
	})
}
