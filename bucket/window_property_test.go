package bucket_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/bucket"
)

// windowWorld is a limit's row and the processes that claim under it, each in its
// own lane: refresh, roll, claim, count. A step of one of them is one statement.
type windowWorld struct {
	t      *rapid.T
	quota  bucket.Quota
	row    bucket.Window
	now    int64
	lanes  []*windowLane
	starts map[int64]int64 // by generation of the row
	stamps []int64         // of the starts, in order
	opened []int64         // when generations were opened
}

// windowLane is a process's lane: where it is, and what it last read.
type windowLane struct {
	view bucket.Window
	next func(*windowLane)
}

func (w *windowWorld) refresh(l *windowLane) {
	l.view = w.row
	if l.next = w.claim; l.view.Expired(w.now, w.quota.Period) {
		l.next = w.roll
	}
}

// roll opens a window if the row is still the generation that was read. Who comes
// too late keeps what it read.
func (w *windowWorld) roll(l *windowLane) {
	if w.row.ID == l.view.ID {
		w.row = w.row.Rolled(w.now)
		w.opened = append(w.opened, w.now)
		l.view = w.row
	}
	l.next = w.claim
}

func (w *windowWorld) claim(l *windowLane) {
	if l.next = w.refresh; l.view.Room(w.quota.Count) > 0 {
		w.starts[w.row.ID]++
		w.stamps = append(w.stamps, w.now)
		l.next = w.count
	}
}

// count counts in the generation that was read, or reads again.
func (w *windowWorld) count(l *windowLane) {
	if l.view.ID != w.row.ID {
		l.view = w.row
		return
	}
	w.row = w.row.Counted()
	l.next = w.refresh
}

func newWindowWorld(t *rapid.T, workers int) *windowWorld {
	w := &windowWorld{
		t: t, now: start, starts: map[int64]int64{},
		quota: bucket.Quota{Count: rapid.Int64Range(0, 12).Draw(t, "limit"), Period: time.Second},
	}
	for range workers {
		w.lanes = append(w.lanes, &windowLane{next: w.refresh})
	}
	return w
}

// run lets the lanes take steps in any order while time passes.
func (w *windowWorld) run(step func() time.Duration) {
	for range rapid.IntRange(1, 400).Draw(w.t, "steps") {
		l := w.lanes[rapid.IntRange(0, len(w.lanes)-1).Draw(w.t, "lane")]
		l.next(l)
		if rapid.IntRange(0, 9).Draw(w.t, "does time pass") == 0 {
			w.now += step().Microseconds()
		}
	}
}

func forward(t *rapid.T) func() time.Duration {
	return func() time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(1500*time.Millisecond)).Draw(t, "time"))
	}
}

func TestNoWindowHasMoreStartsThanItsBoundWhateverTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 16).Draw(t, "workers")
		w := newWindowWorld(t, workers)
		w.run(forward(t))
		for generation, n := range w.starts {
			require.LessOrEqual(t, n, w.quota.Bound(int64(workers)), "generation %d", generation)
		}
		for i := 1; i < len(w.opened); i++ {
			require.GreaterOrEqual(t, w.opened[i]-w.opened[i-1], w.quota.Period.Microseconds(), "no window is shorter than its period")
		}
		for i, at := range w.stamps { // every interval as long as a period
			n := int64(0)
			for _, other := range w.stamps[i:] {
				if other-at < w.quota.Period.Microseconds() {
					n++
				}
			}
			require.LessOrEqual(t, n, 2*w.quota.Bound(int64(workers)))
		}
	})
}

func TestTheBoundOfAWindowIsReached(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 16).Draw(t, "workers")
		w := newWindowWorld(t, workers)
		one := w.lanes[0]
		w.refresh(one)
		w.roll(one)
		for range w.quota.Count - 1 {
			w.claim(one)
			w.count(one)
			w.refresh(one)
		}
		for _, l := range w.lanes { // all see the last place
			w.refresh(l)
		}
		for _, l := range w.lanes {
			w.claim(l)
		}
		require.Equal(t, w.quota.Bound(int64(workers)), w.starts[1])
	})
}

// A window that was seen to be over before the step is rolled after it, and so
// begins early: no generation has more than its bound all the same.
func TestAClockThatStepsBackNeverAddsAStart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 8).Draw(t, "workers")
		w := newWindowWorld(t, workers)
		w.run(func() time.Duration {
			return time.Duration(rapid.Int64Range(-int64(5*time.Second), int64(2*time.Second)).Draw(t, "step"))
		})
		for generation, n := range w.starts {
			require.LessOrEqual(t, n, w.quota.Bound(int64(workers)), "generation %d", generation)
		}
	})
}
