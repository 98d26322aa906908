package scheduler_test

import (
	"fmt"
	"slices"
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
		count, writes := r.faults.Count(`weir_(jobs|limits)`), r.faults.Count(`^update \S*weir_(jobs|limits)`)
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

// One budget is for all lines of a limit, however many there are: what a look
// reads does not grow with each line's whole share, and the order over all of
// them is kept.
func TestManyLinesUnderOneLimitCostLittleMoreThanOne(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/s"))
		r.task("drops", nil, scheduler.RateLimit("10/s"), scheduler.OnExcess(scheduler.Drop))
		const lines, each = 200, 30
		for n := range each {
			for _, task := range []string{"a", "drops"} {
				jobs := make([]queue.NewJob, lines)
				for i := range jobs {
					jobs[i] = queue.NewJob{Task: task, Queue: fmt.Sprint("q", i), Args: fmt.Appendf(nil, "%q", fmt.Sprintf("%06d", n*lines+i))}
				}
				_, err := r.client.EnqueueMany(t.Context(), jobs)
				require.NoError(t, err)
			}
		}
		read := r.faults.Count(`first_due, (j\.)?started_at is not null`)
		r.at(0)
		require.Equal(t, numbered(lines)[:10], startedOf(r, "a"))
		require.Equal(t, numbered(lines)[:10], startedOf(r, "drops"))
		require.Less(t, read.Rows(), int64(3*lines*each), "each of the drop task's is read once, and a few of the other's")
		for second := 1; second <= 3; second++ {
			before := read.Rows()
			r.at(time.Duration(second) * time.Second)
			require.Equal(t, numbered(lines)[:10*(second+1)], startedOf(r, "a"), "in order over all lines")
			require.LessOrEqual(t, read.Rows()-before, int64(1000), "200 heads, and what a hundred deferrals need")
		}
		r.conserved(2 * lines * each)
	})
}

// startedOf lists what was started of a task, in order.
func startedOf(r *rig, task string) []string {
	var out []string
	for _, x := range r.ledger() {
		if x.task == task {
			out = append(out, x.args)
		}
	}
	slices.Sort(out) // handlers of one look run side by side
	return out
}
