package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/scheduler"
)

// With nothing to do a scheduler asks the database twice a second what others
// wrote, and else nothing, whatever it serves, but for saying now and then that
// it lives.
func TestAnIdleSchedulerAsksTwiceASecond(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("plain", nil)
		r.task("limited", nil, scheduler.RateLimit("100/m"))
		r.task("capped", nil, scheduler.Cap(3))
		r.enqueue("limited", numbered(3))
		all, surveys, lives := r.faults.Count(`weir_`), r.faults.Count(`with recursive l`), r.faults.Count(`weir_(settings|processes)`)
		stop, done := r.serve()
		require.Eventually(t, func() bool { r.clock.Advance(100 * time.Millisecond); return r.count() == 3 }, time.Minute, time.Millisecond)
		look := func() { // until it has looked around once more
			before := surveys.Statements()
			require.Eventually(t, func() bool {
				r.clock.Advance(50 * time.Millisecond)
				return surveys.Statements() > before
			}, time.Minute, time.Millisecond)
		}
		for range 4 { // it has written the results
			look()
		}
		asked, from := all.Statements()-lives.Statements(), r.clock.Now()
		const looks = 20
		for range looks {
			look()
		}
		require.GreaterOrEqual(t, r.clock.Now().Sub(from), (looks-1)*500*time.Millisecond)
		require.LessOrEqual(t, all.Statements()-lives.Statements()-asked, int64(looks+1), "with a look that had begun")
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
	}, scheduler.Retention(0)) // which asks once a minute
}
