package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// BenchmarkDrain runs no-op jobs with arguments of 100 bytes that were
// enqueued before: go test -run '^$' -bench Drain ./scheduler.
func BenchmarkDrain(b *testing.B) {
	for _, open := range []struct {
		name string
		db   func(testing.TB) storetest.Database
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		for _, workers := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/unlimited/workers=%d", open.name, workers), func(b *testing.B) {
				drain(b, open.db(b), workers)
			})
			b.Run(fmt.Sprintf("%s/limited/workers=%d", open.name, workers), func(b *testing.B) {
				drain(b, open.db(b), workers, scheduler.RateLimit("1000000000/s"))
			})
		}
	}
}

func drain(b *testing.B, db storetest.Database, workers int, opts ...scheduler.TaskOption) {
	const jobs = 20_000
	client, err := queue.Open(b.Context(), db.DSN)
	require.NoError(b, err)
	defer client.Close()
	args := make([]string, jobs)
	for i := range args {
		args[i] = fmt.Sprintf("%098d", i)
	}
	for b.Loop() {
		b.StopTimer()
		_, err = queue.Task[string]("noop").EnqueueMany(b.Context(), client, args)
		require.NoError(b, err)
		ctx, stop := context.WithCancel(b.Context())
		s, err := scheduler.New(client, scheduler.Concurrency(workers), scheduler.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(b, err)
		var done atomic.Int64
		handler := func(context.Context, *queue.Job[string]) error {
			if done.Add(1) == jobs {
				stop()
			}
			return nil
		}
		require.NoError(b, scheduler.Register(s, "noop", handler, opts...))
		b.StartTimer()
		require.NoError(b, s.Run(ctx))
		stop()
	}
	b.ReportMetric(float64(jobs)*float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
