package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// EnqueueOne measures how fast callers enqueue, each of them one job at a time
// and waiting until it is safe.
func EnqueueOne(ctx context.Context, s System, jobs []Job, callers int) (Figure, error) {
	start := clock.System{}.Now()
	if err := each(jobs, callers, func(job Job) error { return s.Enqueue(ctx, job) }); err != nil {
		return Figure{}, fmt.Errorf("enqueue: %w", err)
	}
	return perSecond(len(jobs), start), nil
}

// EnqueueBulk measures how fast one caller enqueues, so many jobs at a time.
func EnqueueBulk(ctx context.Context, s System, jobs []Job, batch int) (Figure, error) {
	total := len(jobs)
	start := clock.System{}.Now()
	for len(jobs) > 0 {
		n := min(batch, len(jobs))
		if err := s.EnqueueMany(ctx, jobs[:n]); err != nil {
			return Figure{}, fmt.Errorf("enqueue %d: %w", n, err)
		}
		jobs = jobs[n:]
	}
	return perSecond(total, start), nil
}

func perSecond(n int, since time.Time) Figure {
	return Figure{Value: float64(n) / clock.System{}.Now().Sub(since).Seconds(), Unit: JobsPerSecond}
}
