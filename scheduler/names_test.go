package scheduler_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// Whatever tasks and queues are called, each has a bucket of its own: when one
// is drained, all the others are as they were.
func TestEveryNameHasABucketOfItsOwn(t *testing.T) {
	names := storetest.Names()
	opts := make([]scheduler.Option, 0, len(names))
	for _, name := range names {
		opts = append(opts, scheduler.QueueLimit(name, "2/h"))
	}
	each(t, func(t *testing.T, r *rig) {
		want := map[string]int64{} // levels
		for _, name := range names {
			r.task(name, nil, scheduler.RateLimit("3/h"), scheduler.Queue(name))
			want["task:"+name], want["queue:"+name] = 3*bucket.Token, 2*bucket.Token
		}
		r.drain()
		for _, name := range names {
			r.enqueue(name, numbered(4))
			r.drain()
			require.Equal(t, 2, r.tally(name), name)
			want["task:"+name], want["queue:"+name] = bucket.Token, 0
			levels := map[string]int64{}
			for _, row := range r.limits() {
				levels[row.Name] = row.Level
			}
			require.Equal(t, want, levels, "after %q", name)
		}
	}, opts...)
}

// A name is refused in the same words where a task is registered and where a
// job is enqueued, on both databases.
func TestANameIsRefusedInTheSameWordsEverywhere(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, name := range []string{"", strings.Repeat("n", 256), strings.Repeat("ñ", 1300), strings.Repeat("x", 6000), "a\x00", "a\nb", "\xff"} {
			why := queue.CheckName("task", name)
			require.Error(t, why)
			var invalid *queue.InvalidError
			require.ErrorAs(t, why, &invalid)
			require.ErrorContains(t, scheduler.Register(r.s, queue.Task[string](name), nothing), why.Error())
			_, err := queue.Task[string](name).Enqueue(t.Context(), r.client, "x")
			require.EqualError(t, err, "enqueue: "+why.Error())
			if name == "" {
				continue // is the task's own queue
			}
			inQueue := queue.CheckName("queue", name).Error()
			require.ErrorContains(t, scheduler.Register(r.s, "t", nothing, scheduler.Queue(name)), inQueue)
			_, err = r.client.Enqueue(t.Context(), queue.NewJob{Task: "t", Queue: name})
			require.EqualError(t, err, `enqueue: task "t": `+inQueue)
			s, err := scheduler.New(r.client, scheduler.QueueLimit(name, "1/m"))
			require.NoError(t, err)
			require.ErrorContains(t, s.Validate(), inQueue)
		}
		require.Empty(t, r.jobs())
	})
}
