package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// A limit's row stays: what the bucket holds counts again when it comes back.
func TestALimitThatNoTaskIsRegisteredWithAnyMoreIsNotDeclared(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		client, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		run := func(options []scheduler.Option, tasks map[string][]scheduler.TaskOption) {
			s, err := scheduler.New(client, options...)
			require.NoError(t, err)
			for name, opts := range tasks {
				require.NoError(t, scheduler.Register(s, queue.Task[string](name), nothing, opts...))
			}
			require.NoError(t, s.Drain(t.Context()))
		}
		sources := func() map[string]string {
			limits, err := client.Limits(t.Context())
			require.NoError(t, err)
			out := map[string]string{}
			for _, l := range limits {
				out[l.Name] = l.Source
			}
			return out
		}
		rate, inQ := scheduler.RateLimit("5/s"), scheduler.Queue("q")
		options := []scheduler.Option{
			scheduler.QueueLimit("q", "1/s"), scheduler.QueueLimit("elsewhere", "1/s"),
			scheduler.SharedLimit("shared", "1/s", scheduler.Tasks("a", "b")), scheduler.SharedLimit("away", "1/s", scheduler.Tasks("b")),
		}
		run(options, map[string][]scheduler.TaskOption{"a": {rate, inQ}, "b": {scheduler.RateLimits(scheduler.Rate{Rate: "5/s"}, scheduler.Rate{Rate: "9/m"})}})
		want := map[string]string{
			"queue:q": queue.SourceDeclared, "queue:elsewhere": queue.SourceDeclared, "shared": queue.SourceDeclared, "away": queue.SourceDeclared,
			"task:a": queue.SourceDeclared, "task@s:b": queue.SourceDeclared, "task@m:b": queue.SourceDeclared,
		}
		require.Equal(t, want, sources())

		// The file has changed, for a alone, and in another process.
		run(nil, map[string][]scheduler.TaskOption{"a": {inQ}})
		want["task:a"], want["queue:q"] = queue.SourceNotDeclared, queue.SourceNotDeclared
		require.Equal(t, want, sources(), "b is still registered with what it shares")

		run(nil, map[string][]scheduler.TaskOption{"b": {scheduler.RateLimits(scheduler.Rate{Rate: "9/m"})}})
		want["shared"], want["away"], want["task@s:b"] = queue.SourceNotDeclared, queue.SourceNotDeclared, queue.SourceNotDeclared
		require.Equal(t, want, sources(), "nobody knows who fills the other queue")
		require.NoError(t, client.SetLimit(t.Context(), "shared", queue.Override{Rate: "2/s"}))
		require.Equal(t, want, sources(), "an override changes nothing about that")

		require.NoError(t, client.UnsetLimit(t.Context(), "shared"))
		run(options, map[string][]scheduler.TaskOption{"a": {rate, inQ}, "b": nil})
		want["shared"], want["away"], want["task:a"], want["queue:q"] = queue.SourceDeclared, queue.SourceDeclared, queue.SourceDeclared, queue.SourceDeclared
		want["task@m:b"] = queue.SourceNotDeclared
		require.Equal(t, want, sources())
	})
}
