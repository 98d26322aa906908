package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// Somebody has left a transaction open that holds a limit, a cap and a running
// job.
func TestATurnCanGoRoundWhatAnotherSessionHasLocked(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	limits := []store.Declared{declared(t, "a", "1/s"), declared(t, "b", "1/s"), declared(t, "c", "1/s")}
	require.NoError(t, b.Register(t.Context(), nil, limits))
	gates := []string{"task:a", "task:b"}
	b.turn(t, store.TurnRequest{Gates: gates, Admit: &gated{}})
	b.insert(t, newJobs("a", 3)...)
	jobs := b.grant(t, 1, "a", 2)
	results := []store.Result{end(jobs[0], store.Done), end(jobs[1], store.Done)}
	held := []store.Held{{ID: jobs[0].ID, Claim: 1}, {ID: jobs[1].ID, Claim: 1}, {ID: jobs[1].ID, Claim: 2}}
	releases := []func(){
		b.inside(t, `select 1 from weir_limits where name = 'b' for update`),
		b.inside(t, `select 1 from weir_gates where name = 'task:a' for update`),
		b.inside(t, `select 1 from weir_jobs where id = $1 for update`, jobs[0].ID),
	}

	_, err := b.Turn(t.Context(), store.TurnRequest{Limits: limits, Admit: &gated{}})
	require.ErrorIs(t, err, store.ErrLocked)

	kept, err := b.Renew(t.Context(), held, 60*second)
	require.NoError(t, err)
	require.Equal(t, map[store.Held]int64{held[0]: lease.Microseconds(), held[1]: 60 * second}, kept)

	g := &gated{admission: admission{asks: []store.Ask{ask("a", 1)}, decide: startAll}}
	out := b.turn(t, store.TurnRequest{Results: results, Limits: limits, Gates: gates, Claim: 3, Admit: g, SkipLocked: true})
	require.Equal(t, results[:1], out.Postponed)
	require.Empty(t, out.Refused)
	require.Len(t, out.Started, 1)
	require.Equal(t, results[:1], g.locked.Uncounted, "no breaker is told of it yet")
	require.Equal(t, store.Limit{Name: "b", Busy: true}, g.locked.Limits[1])
	for _, i := range []int{0, 2} {
		require.Equal(t, limits[i].Name, g.locked.Limits[i].Name)
		require.EqualValues(t, 1_000_000, g.locked.Limits[i].Level)
	}
	require.Equal(t, []store.Gate{{Name: "task:a", Busy: true}, {Name: "task:b"}}, g.locked.Gates)
	require.Equal(t, store.Completed, b.stored(t, jobs[1].UID).State)

	for _, release := range releases {
		release()
	}
	g = &gated{}
	out = b.turn(t, store.TurnRequest{Results: results, Limits: limits, Gates: gates, Admit: g, SkipLocked: true})
	require.Empty(t, out.Postponed)
	require.Empty(t, out.Refused)
	require.False(t, g.locked.Limits[1].Busy || g.locked.Gates[0].Busy)
	require.Equal(t, store.Completed, b.stored(t, jobs[0].UID).State)
}

// A restore or a repair by hand has left the rows that jobs are about to
// become. Nothing else waits for them.
func TestARowThatIsAlreadyThereHoldsUpNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 5)...)
		jobs := b.grant(t, 1, "a", 4)
		b.turn(t, store.TurnRequest{Results: []store.Result{end(jobs[0], store.Done), end(jobs[1], store.Dead)}})
		again := func(from, to string) { b.exec(t, `update `+to+` set `+from) }
		again(`uid = '`+jobs[2].UID+`'`, `weir_history`)
		again(`job_id = '`+jobs[3].UID+`'`, `weir_dead`)

		b.turn(t, store.TurnRequest{Results: []store.Result{end(jobs[2], store.Done), end(jobs[3], store.Dead)}})
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))
		b.requireOnce(t, jobs[2].UID)
		b.requireOnce(t, jobs[3].UID)

		last := b.grant(t, 2, "a", 1)[0]
		again(`uid = '`+last.UID+`'`, `weir_history`)
		found, err := b.Cancel(t.Context(), last.UID)
		require.NoError(t, err)
		require.False(t, found)
		b.requireOnce(t, last.UID)

		late := newJob("a")
		b.insert(t, newJob("a"), late)
		shed := b.grant(t, 3, "a", 1)[0]
		again(`job_id = '`+late.UID+`'`, `weir_dead`)
		b.turn(t, store.TurnRequest{Admit: &admission{asks: []store.Ask{ask("a", 1)}, decide: func(read [][]store.Candidate) store.Plan {
			return store.Plan{Shed: []store.Shed{{ID: read[0][0].ID, Reason: "rate_limit: a 1/s"}}}
		}}})
		b.requireOnce(t, late.UID)
		b.clock.Advance(2 * lease)
		again(`job_id = '`+shed.UID+`'`, `weir_dead`)
		b.exec(t, `update weir_jobs set max_retries = 0`)
		require.Len(t, b.turn(t, store.TurnRequest{Sweep: true}).Swept.Dead, 1)
		b.requireOnce(t, shed.UID)
		require.Zero(t, b.count(t, `select count(*) from weir_jobs`))
	})
}
