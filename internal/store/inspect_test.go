package store_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestListsFilterAndPageOverLiveAndFinishedJobs(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		uids := map[string]string{}
		put := func(name, task, queue string, delay int64) {
			j := newJob(task)
			j.Queue, j.Delay = queue, delay
			b.insert(t, j)
			uids[name] = j.UID
		}
		put("done", "a", "q", 0)
		put("dead", "a", "q", 0)
		started := b.grant(t, 1, "a", 2)
		b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Done), end(started[1], store.Dead)}})
		put("cancelled", "b", "q", 0)
		_, err := b.Cancel(t.Context(), uids["cancelled"])
		require.NoError(t, err)
		put("running", "a", "q", 0)
		b.grant(t, 2, "a", 1)
		put("scheduled", "a", "r", second)
		put("waiting", "b", "q", 0)

		list := func(f store.JobFilter) []string {
			if f.Limit == 0 {
				f.Limit = 100
			}
			jobs, err := b.List(t.Context(), f)
			require.NoError(t, err)
			names := []string{}
			for _, j := range jobs {
				for name, uid := range uids {
					if uid == j.UID {
						names = append(names, name)
					}
				}
			}
			return names
		}
		all := []string{"waiting", "scheduled", "running", "cancelled", "done"}
		require.Equal(t, all, list(store.JobFilter{}))
		require.Equal(t, []string{"scheduled", "running", "done"}, list(store.JobFilter{Task: "a"}))
		require.Equal(t, []string{"scheduled"}, list(store.JobFilter{Queue: "r"}))
		require.Equal(t, []string{"waiting", "cancelled"}, list(store.JobFilter{Task: "b", Queue: "q"}))
		require.Empty(t, list(store.JobFilter{Task: "A"}))
		for i, state := range []store.State{store.Waiting, store.Scheduled, store.Running, store.Cancelled, store.Completed} {
			require.Equal(t, all[i:i+1], list(store.JobFilter{States: []store.State{state}}))
		}
		require.Equal(t, []string{"waiting", "done"}, list(store.JobFilter{States: []store.State{store.Completed, store.Waiting}}))

		// Pages meet without a gap, also where jobs move on in between.
		var paged []string
		for cursor := int64(0); ; {
			jobs, err := b.List(t.Context(), store.JobFilter{Before: cursor, Limit: 2})
			require.NoError(t, err)
			if len(jobs) == 0 {
				break
			}
			for _, j := range jobs {
				paged = append(paged, j.UID)
			}
			cursor = jobs[len(jobs)-1].ID
			if len(paged) == 2 {
				b.turn(t, store.TurnRequest{Results: []store.Result{{ID: b.stored(t, uids["running"]).ID, UID: uids["running"], Claim: 2}}})
			}
		}
		want := make([]string, len(all))
		for i, name := range all {
			want[i] = uids[name]
		}
		require.Equal(t, want, paged)
	})
}

func TestAListLeavesLongArgumentsOutAndSaysHowLongTheyAre(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		for _, size := range []int{0, 4096, 4097, 1 << 20} {
			j := newJob("a")
			j.Args = bytes.Repeat([]byte{0xfe}, size)
			j.Metadata = `{"size":1}`
			b.insert(t, j)
			check := func() {
				t.Helper()
				jobs, err := b.List(t.Context(), store.JobFilter{Limit: 1})
				require.NoError(t, err)
				want := b.stored(t, j.UID)
				require.True(t, bytes.Equal(j.Args, want.Args))
				if size > 4096 {
					want.Args = nil
				}
				require.Equal(t, want, jobs[0])
				require.EqualValues(t, size, jobs[0].ArgsSize)
			}
			check()
			started := b.grant(t, int64(size), "a", 1)
			check()
			if size == 4097 {
				b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Dead)}})
				dead, _, err := b.ListDead(t.Context(), store.DeadFilter{Limit: 1})
				require.NoError(t, err)
				require.Nil(t, dead[0].Args)
				require.EqualValues(t, size, dead[0].ArgsSize)
				require.Equal(t, j.Args, b.dead(t, j.UID).Args)
				continue
			}
			b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Done)}})
			check()
		}
	})
}

func TestGetFindsNothingUnderAnUnknownId(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		_, found, err := b.Get(t.Context(), newID())
		require.NoError(t, err)
		require.False(t, found)
		_, found, err = b.GetDeadByJob(t.Context(), newID())
		require.NoError(t, err)
		require.False(t, found)
		_, found, err = b.GetDead(t.Context(), 1<<62)
		require.NoError(t, err)
		require.False(t, found)
	})
}

func TestCancelEndsAJobThatHasNotEnded(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		cancel := func(uid string) bool {
			was, err := b.Cancel(t.Context(), uid)
			require.NoError(t, err)
			return was
		}
		scheduled := full("a")
		scheduled.Delay = second
		b.insert(t, scheduled)
		waiting := full("a")
		b.insert(t, waiting)
		running := b.running(t, 1, full("b"))
		b.clock.Advance(time.Second)
		for _, uid := range []string{scheduled.UID, waiting.UID, running.UID} {
			want := b.stored(t, uid)
			require.True(t, cancel(uid))
			want.State, want.FinishedAt, want.LeaseUntil, want.Claim = store.Cancelled, number(b.now()), noNumber, noNumber
			require.Equal(t, want, b.stored(t, uid))
			b.requireOnce(t, uid)
			require.False(t, cancel(uid), "it has ended")
			require.Equal(t, want, b.stored(t, uid))
		}
		require.False(t, cancel(newID()))
		dead := b.running(t, 2, newJob("a"))
		b.turn(t, store.TurnRequest{Results: []store.Result{end(dead, store.Dead)}})
		require.False(t, cancel(dead.UID))
		b.requireOnce(t, dead.UID)
	})
}
