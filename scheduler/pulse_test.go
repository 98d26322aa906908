package scheduler_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

// slow is a clock on which time passes once, between a question and the reading of
// the database's clock, as it does where the question waits.
type slow struct {
	*clock.Fake

	wait, due atomic.Int64
}

func (s *slow) Elapsed() time.Duration {
	defer s.due.Store(s.wait.Swap(0))
	return s.Fake.Elapsed()
}

func (s *slow) Now() time.Time {
	if d := s.due.Swap(0); d != 0 {
		s.Advance(time.Duration(d))
	}
	return s.Fake.Now()
}

func TestASurveyThatWaitsIsNoStepOfTheClock(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var said log
		c := &slow{Fake: clock.NewFake(epoch)}
		r := &rig{t: t, db: db, clock: c.Fake, client: queue.From(db.Open(t, store.Options{Clock: c}))}
		r.again(said.option())
		r.task("a", nil)
		r.drain()
		for range 3 {
			c.wait.Store(int64(8 * time.Second))
			r.drain()
			require.Zero(t, c.wait.Load()+c.due.Load())
			r.drain()
		}
		require.Zero(t, said.said("clock_stepped_forward"))
		c.Step(time.Minute)
		r.drain()
		require.Equal(t, 1, said.said("clock_stepped_forward", "by=1m0s"))
	})
}
