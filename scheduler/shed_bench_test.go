package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// BenchmarkShed floods a task that drops what exceeds 10/s, while another task
// gets a job every 10 ms: an operation is one job that is shed. It tells how
// much later, from the call of Enqueue, the other's jobs start than when
// nothing else is there: go test -run '^$' -bench Shed ./scheduler.
func BenchmarkShed(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { flood(b, storetest.SQLite(b)) })
	b.Run("postgres", func(b *testing.B) { flood(b, storetest.Postgres(b)) })
}

func flood(b *testing.B, db storetest.Database) {
	const jobs = 100_000
	client, err := queue.Open(b.Context(), db.DSN)
	require.NoError(b, err)
	defer client.Close()
	samples := make([]queue.NewJob, jobs)
	for i := range samples {
		samples[i] = queue.NewJob{Task: "sample", Args: fmt.Appendf(nil, "%098d", i)}
	}
	var idle, flooded delays
	var shed time.Duration
	for b.Loop() {
		idle.measure(b, client, func(context.Context, *scheduler.Scheduler) { <-time.After(2 * time.Second) })
		_, err = client.EnqueueMany(b.Context(), samples)
		require.NoError(b, err)
		shed += flooded.measure(b, client, func(ctx context.Context, s *scheduler.Scheduler) {
			for began := s.Stats(); s.Stats().Shed+s.Stats().Started-began.Started < jobs && ctx.Err() == nil; {
				<-time.After(time.Millisecond)
			}
		})
	}
	b.ReportMetric(float64(jobs)*float64(b.N)/shed.Seconds(), "sheds/s")
	b.ReportMetric(0, "ns/op")
	for _, share := range []int{50, 99} {
		b.ReportMetric(idle.quantile(share), fmt.Sprintf("idle-p%d-ms", share))
		b.ReportMetric(flooded.quantile(share), fmt.Sprintf("flood-p%d-ms", share))
	}
}

// delays are between calls of Enqueue and the starts of the jobs.
type delays struct {
	mu  sync.Mutex
	all []time.Duration
}

// measure runs a scheduler while a bystander's jobs come, and returns how long
// during took.
func (d *delays) measure(b *testing.B, client *queue.Client, during func(context.Context, *scheduler.Scheduler)) time.Duration {
	b.Helper()
	s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(b, err)
	require.NoError(b, scheduler.Register(s, "sample", func(context.Context, *queue.Job[[]byte]) error { return nil },
		scheduler.RateLimit("10/s"), scheduler.OnExcess(scheduler.Drop)))
	require.NoError(b, scheduler.Register(s, "bystander", func(_ context.Context, job *queue.Job[time.Time]) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, time.Since(job.Args))
		return nil
	}))
	ctx, stop := context.WithCancel(b.Context())
	var beside sync.WaitGroup
	beside.Go(func() {
		for tick := time.Tick(10 * time.Millisecond); ctx.Err() == nil; <-tick {
			if _, err := queue.Task[time.Time]("bystander").Enqueue(b.Context(), client, time.Now()); err != nil {
				b.Error(err)
			}
		}
	})
	beside.Go(func() {
		if err := s.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	began := time.Now()
	during(ctx, s)
	took := time.Since(began)
	stop()
	beside.Wait()
	return took
}

// quantile is in milliseconds.
func (d *delays) quantile(share int) float64 {
	slices.Sort(d.all)
	return float64(d.all[len(d.all)*share/100]) / float64(time.Millisecond)
}
