package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// NeverDry is a rate that lets everything through: each start pays for a
// limit, and none waits.
const NeverDry = "1000000000/s"

// fillBatch is how many jobs of a backlog are enqueued at once.
const fillBatch = 5000

// Fill enqueues a backlog.
func Fill(ctx context.Context, s System, jobs []Job) error {
	for len(jobs) > 0 {
		n := min(fillBatch, len(jobs))
		err := s.EnqueueMany(ctx, jobs[:n])
		if errors.Is(err, errors.ErrUnsupported) {
			return each(jobs, 64, func(job Job) error { return s.Enqueue(ctx, job) })
		}
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		jobs = jobs[n:]
	}
	return nil
}

// each calls do for every job, from so many goroutines.
func each(jobs []Job, callers int, do func(Job) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, callers)
	for c := range callers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				if errs[c] = do(jobs[i]); errs[c] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Drain measures how fast workers do jobs that were all enqueued before: from
// the start of the workers until the last job is finished, and that is stored.
func Drain(ctx context.Context, s System, jobs []Job, workers int) (Figure, error) {
	if err := Fill(ctx, s, jobs); err != nil {
		return Figure{}, err
	}
	return Work(ctx, s, len(jobs), workers, false)
}

// Work measures the second half of Drain, on jobs that were enqueued before.
// shared: workers elsewhere do some of them.
func Work(ctx context.Context, s System, jobs, workers int, shared bool) (Figure, error) {
	debug.FreeOSMemory() // what the enqueuing left
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	handled := make(chan struct{})
	var count atomic.Int64
	start := clock.System{}.Now()
	stop, err := s.Start(ctx, Workers{Count: workers, Rate: NeverDry, Handle: func(Job) {
		if count.Add(1) == int64(jobs) && !shared {
			close(handled)
		}
	}})
	if shared {
		close(handled) // nobody here knows
	}
	if err != nil {
		return Figure{}, fmt.Errorf("start workers: %w", err)
	}
	err = waitFinished(ctx, s, handled, jobs)
	took := clock.System{}.Now().Sub(start)
	runtime.ReadMemStats(&after)
	if err := errors.Join(err, stop()); err != nil {
		return Figure{}, fmt.Errorf("%d of %d jobs were handled: %w", count.Load(), jobs, err)
	}
	n := float64(jobs)
	return Figure{Value: n / took.Seconds(), Unit: JobsPerSecond, Detail: map[string]float64{
		"allocations_per_job":     float64(after.Mallocs-before.Mallocs) / n,
		"allocated_bytes_per_job": float64(after.TotalAlloc-before.TotalAlloc) / n,
	}}, nil
}

func waitFinished(ctx context.Context, s System, handled <-chan struct{}, jobs int) error {
	select {
	case <-handled:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		if done, err := s.Finished(ctx, jobs); done || err != nil {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits in real time, and fails where ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	clock.Pause(ctx, d)
	return context.Cause(ctx)
}
