package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// What a look costs does not depend on how many jobs wait behind a limit: not
// its statements, not the rows they read or change.
func TestALookCostsTheSameWhateverTheBacklog(t *testing.T) {
	type cost struct{ statements, rows, written int64 }
	each(t, func(t *testing.T, r *rig) {
		r.task("slow", nil, scheduler.RateLimit("1/m"))
		r.task("drops", nil, scheduler.OnExcess(scheduler.Drop))
		r.task("quick", nil)
		count, writes := r.faults.Count(`weir_(jobs|limits)`), r.faults.Count(`^update `)
		costs := map[int]map[string]cost{}
		waiting, now := 0, time.Duration(0)
		look := func(what string) {
			before := cost{count.Statements(), count.Rows(), writes.Rows()}
			r.at(now)
			if costs[waiting] == nil {
				costs[waiting] = map[string]cost{}
			}
			costs[waiting][what] = cost{count.Statements() - before.statements, count.Rows() - before.rows, writes.Rows() - before.written}
		}
		for _, backlog := range []int{200, 20_000} {
			r.enqueue("slow", make([]string, backlog-waiting), queue.Queue("q"), queue.Priority(100))
			r.at(now)
			waiting = backlog

			now += 10 * time.Second
			look("a hold's end")
			now += 500 * time.Millisecond
			look("nothing to do")
			r.enqueue("quick", []string{"same queue"}, queue.Queue("q"), queue.Priority(-100))
			look("a bystander under the hold")
			require.Equal(t, []string{"same queue"}, r.started(now), "in the next look")
			now += 500 * time.Millisecond
			r.enqueue("quick", []string{"at the hold's end"}, queue.Queue("q"), queue.Priority(-100))
			look("a bystander at the hold's end")
			require.Equal(t, []string{"at the hold's end"}, r.started(now))
		}
		t.Logf("%+v", costs[20_000])
		require.Equal(t, costs[200], costs[20_000])
		most := costs[20_000]["a hold's end"]
		require.LessOrEqual(t, most.statements, int64(6), "survey, lock, read, grant or defer, save")
		require.LessOrEqual(t, most.rows, int64(101+100+2+1+5), "read, deferred, locked, saved, surveyed")
		var written int64
		for _, c := range costs[20_000] {
			written += c.written
		}
		require.LessOrEqual(t, written, int64(2*(100+1)+2), "at the ends of two holds a hundred deferrals and their limit; and two starts")
	})
}
