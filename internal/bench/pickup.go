package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// Pickup measures how soon idle workers begin a job: from before it is
// enqueued until its handler is called, which includes the commit. produce
// enqueues n jobs by calls of Trickle, here or in another process. The figure
// is the 99th percentile. rate is that of limited jobs, if there are any.
func Pickup(ctx context.Context, s System, n, workers int, rate string, produce func(context.Context) error) (Figure, error) {
	delays := make(chan time.Duration, n)
	stop, err := s.Start(ctx, Workers{Count: workers, Rate: rate, Handle: func(job Job) {
		if job.Args.At != 0 {
			delays <- clock.System{}.Now().Sub(time.Unix(0, job.Args.At))
		}
	}})
	if err != nil {
		return Figure{}, fmt.Errorf("start workers: %w", err)
	}
	err = pause(ctx, time.Second) // what workers do at their start is over
	if err == nil {
		err = produce(ctx)
	}
	seen := make([]float64, 0, n)
	for err == nil && len(seen) < n {
		select {
		case d := <-delays:
			seen = append(seen, float64(d)/float64(time.Millisecond))
		case <-ctx.Done():
			err = fmt.Errorf("%d of %d jobs were handled: %w", len(seen), n, context.Cause(ctx))
		}
	}
	if err := errors.Join(err, stop()); err != nil {
		return Figure{}, err
	}
	return Figure{Value: Quantile(seen, 0.99), Unit: Milliseconds, Detail: map[string]float64{
		"p50": Quantile(seen, 0.5),
	}}, nil
}

// warmUp jobs come before those that are measured: connections are opened, and
// statements prepared, by the first.
const warmUp = 10

// Trickle enqueues n jobs one by one, 20 to 60 ms apart, so that each finds the
// workers idle, after a few that are not measured.
func Trickle(ctx context.Context, s System, n int) error {
	for i := range warmUp + n {
		// 17 and 41 have no common factor: every gap comes as often.
		if err := pause(ctx, time.Duration(20+i*17%41)*time.Millisecond); err != nil {
			return err
		}
		at := clock.System{}.Now().UnixNano()
		if i < warmUp {
			at = 0
		}
		if err := s.Enqueue(ctx, Job{Args: NewArgs(i, at)}); err != nil {
			return fmt.Errorf("enqueue: %w", err)
		}
	}
	return nil
}
