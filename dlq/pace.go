package dlq

import (
	"context"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/clock"
)

// pacer lets entries pass at a rate.
type pacer struct {
	bucket bucket.Bucket
	clock  clock.Clock
}

// newPacer paces evenly: no more than a tenth of a second's worth passes at
// once. Without a rate everything passes.
func newPacer(rate bucket.Rate, c clock.Clock) *pacer {
	if rate.IsZero() {
		return &pacer{}
	}
	const tenth = 100 * time.Millisecond
	burst := int64(float64(rate.Count()) / float64(bucket.Token) * float64(tenth) / float64(rate.Period()))
	limit := bucket.Limit{Rate: rate, Burst: min(max(burst, 1), bucket.MaxBurst)}
	return &pacer{bucket: bucket.Full(limit, c.Now().UnixMicro()), clock: c}
}

// wait waits until one entry may pass, and tells how many of n may.
func (p *pacer) wait(ctx context.Context, n int) (int, error) {
	if p.clock == nil {
		return n, ctx.Err()
	}
	for {
		now := p.clock.Now().UnixMicro()
		p.bucket, _ = p.bucket.Refill(now)
		if most := min(p.bucket.Tokens(), int64(n)); most > 0 {
			p.bucket, _ = p.bucket.Take(most)
			return int(most), ctx.Err()
		}
		at, _ := p.bucket.TimeOf(1)
		fired, release := p.clock.Timer(time.Duration(at-now) * time.Microsecond)
		select {
		case <-fired:
		case <-ctx.Done():
		}
		release()
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}
