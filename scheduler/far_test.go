package scheduler_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestAJobOfAFarTimeKeepsNobodyAwake(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.enqueue("a", []string{"x"}, queue.At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)))
		r.at(0)
		looks := r.s.Stats().Looks
		r.at(time.Hour)
		require.Equal(t, looks, r.s.Stats().Looks, "there is nothing to do")
		require.Zero(t, r.count())
	})
}

func TestAnImpossibleHoldIsMended(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/s"))
		r.at(0)
		for _, until := range []int64{9e18, math.MaxInt64} {
			_, err := r.db.SQL(t).ExecContext(t.Context(), `update weir_limits set held_from = 0, held_until = `+strconv.FormatInt(until, 10))
			require.NoError(t, err)
			before := r.count()
			r.enqueue("a", []string{"x"})
			r.at(r.clock.Now().Sub(epoch) + time.Second)
			require.Equal(t, before+1, r.count())
		}
	})
}

func TestDamagedRowsOfJobsDoNotStopTheOthers(t *testing.T) {
	for name, damage := range map[string]string{
		"the greatest attempt":    `update weir_jobs set attempt = 2147483647`,
		"running without a claim": `update weir_jobs set state = 1, claim = null, lease_until = 1`,
		"waiting under a lease":   `update weir_jobs set lease_until = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			eachStrategy(t, func(t *testing.T, r *rig) {
				r.task("bad", nil)
				r.task("good", nil)
				r.enqueue("bad", []string{"bad"})
				_, err := r.db.SQL(t).ExecContext(t.Context(), damage)
				require.NoError(t, err)
				r.enqueue("good", []string{"good"})
				r.at(time.Minute)
				require.Contains(t, r.started(time.Minute), "good")
				looks := r.s.Stats().Looks
				r.at(time.Minute)
				require.Equal(t, looks, r.s.Stats().Looks, "nothing is found again and again")
			})
		})
	}
}
