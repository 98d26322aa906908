package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestADropTaskAndADeferTaskShareTokensInOneOrder(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("waits", nil)
		r.task("drops", nil, scheduler.OnExcess(scheduler.Drop))
		r.enqueue("waits", []string{"w0"})
		r.enqueue("drops", []string{"d0", "d1"})
		r.enqueue("waits", []string{"w1", "w2"})
		r.enqueue("drops", []string{"d high"}, queue.Priority(1))
		r.enqueue("drops", []string{"d low"}, queue.Priority(-1))
		r.at(0)
		require.ElementsMatch(t, []string{"d high", "w0", "d0"}, r.started(0))
		require.Len(t, r.jobs(queue.StateWaiting), 2, "w1 and w2 are deferred")
		require.Len(t, r.letters(), 2, "d1 and d low are shed")
		for _, e := range r.letters() {
			require.Equal(t, "rate_limit: api 3/m", e.Reason)
		}
		require.Equal(t, time.Second, r.heldFor("api"))

		// A limit on hold has work waiting, and drop work never waits.
		r.at(500 * time.Millisecond)
		r.enqueue("drops", []string{"d at once"}, queue.Priority(100))
		r.drain()
		require.Len(t, r.letters(), 3)

		// At 20 s a token comes: whoever is first in line has it.
		for s := 1; s <= 20; s++ {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, []string{"w1"}, r.started(20*time.Second))
		r.conserved(8)
	}, scheduler.SharedLimit("api", "3/m", scheduler.Tasks("waits", "drops")))
}

// What no token was left for is shed although the look also started jobs; what
// comes when there are tokens starts.
func TestASharedLimitWithTokensLetsBothKindsStart(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("waits", nil)
		r.task("drops", nil, scheduler.OnExcess(scheduler.Drop))
		r.enqueue("waits", numbered(50))
		r.enqueue("drops", numbered(50))
		r.at(0)
		require.Equal(t, 100, r.count())
		require.Zero(t, r.heldFor("api"), "it refused nobody")
		require.Empty(t, r.letters())
		r.at(time.Minute)
		r.enqueue("drops", numbered(101))
		r.drain()
		require.Equal(t, 200, r.count())
		require.Len(t, r.letters(), 1)
		require.Zero(t, r.heldFor("api"))
	}, scheduler.SharedLimit("api", "100/m", scheduler.Tasks("waits", "drops")))
}

func TestASharedLimitCoversTasksInAnyQueueAndQueuesWithAnyTask(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for _, name := range []string{"a", "b", "c"} {
			r.task(name, nil)
		}
		r.enqueue("a", []string{"a in r"}, queue.Queue("r"))
		r.enqueue("b", []string{"b in q"}, queue.Queue("q"))
		r.enqueue("c", []string{"c in p"}, queue.Queue("p"))
		r.enqueue("a", []string{"a in q"}, queue.Queue("q"))
		r.enqueue("b", []string{"b in r"}, queue.Queue("r"))
		r.enqueue("c", []string{"c in r"}, queue.Queue("r"))
		r.at(0)
		require.ElementsMatch(t, []string{"a in r", "b in q", "c in p", "b in r", "c in r"}, r.started(0))
		require.EqualValues(t, 3, r.limit("s").Started)
	}, scheduler.SharedLimit("s", "3/h", scheduler.Tasks("a"), scheduler.Queues("q", "p")))
}

// Processes that serve different tasks take a shared limit's tokens in the
// order in which they reach its row.
func TestProcessesThatServeDifferentTasksShareALimit(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		cards := scheduler.SharedLimit("cards", "5/m", scheduler.Tasks("charge", "refund"))
		other := r.beside(cards, scheduler.Elsewhere("charge"))
		r.again(cards, scheduler.Elsewhere("refund"))
		r.task("charge", nil)
		other.task("refund", nil)
		r.enqueue("charge", numbered(3))
		r.enqueue("refund", numbered(9))
		r.at(0)
		require.Equal(t, 3, r.count())
		other.at(0)
		require.Equal(t, 2, other.count())
		require.Equal(t, time.Second, r.heldFor("cards"))

		// The hold binds the process that did not see the limit run dry.
		r.enqueue("charge", numbered(1), queue.Priority(100))
		r.at(999 * time.Millisecond)
		require.Equal(t, 3, r.count())
		require.Zero(t, r.jobs(queue.StateWaiting)[0].Deferrals)

		for s := 1; s <= 12; s++ {
			r.at(time.Duration(s) * time.Second)
			other.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, 4, r.count(), "at 12 s there was one token")
		require.Equal(t, 2, other.count())
		require.EqualValues(t, 6, r.limit("cards").Started)
	})
}

func TestALimitHoldsOverAllProcesses(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		rigs := []*rig{r, r.beside(), r.beside()}
		for _, x := range rigs {
			x.task("a", nil, scheduler.RateLimit("10/m"))
		}
		r.enqueue("a", numbered(200))
		for s := 0; s <= 60; s += 2 {
			for _, x := range rigs {
				x.at(time.Duration(s) * time.Second)
			}
		}
		total := 0
		for _, x := range rigs {
			total += x.count()
		}
		require.Equal(t, 20, total)
		require.EqualValues(t, 20, r.limit("task:a").Started)
	})
}
