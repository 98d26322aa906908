package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestAJobThatIsNotStartedByItsTimeIsADeadLetterAndIsNotRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		waiting, scheduled, started, later := full("a"), full("a"), full("b"), newJob("a")
		for _, j := range []*store.NewJob{&waiting, &scheduled, &started} {
			j.ExpiresIn, j.ExpiresAt = 0, b.now()+10*second
		}
		scheduled.Delay, later.ExpiresAt = 9*second, b.now()+10*second+1
		b.insert(t, waiting, scheduled, later, newJob("a"))
		b.turn(t, store.TurnRequest{Results: []store.Result{end(b.running(t, 1, started), store.Retry)}})
		require.Equal(t, b.now()+10*second, b.sweep(t).Expiry, "what was started does not expire")
		require.Zero(t, b.count(t, `select count(*) from weir_dead`))

		b.clock.Advance(10 * time.Second)
		// Before a sweep takes them they are passed over already.
		a := &admission{asks: []store.Ask{ask("a", 9), ask("b", 9)}}
		b.turn(t, store.TurnRequest{Admit: a})
		require.Equal(t, []int{2, 1}, []int{len(a.read[0]), len(a.read[1])})

		swept := b.sweep(t)
		require.Equal(t, 2, swept.Expired)
		require.Zero(t, swept.Promoted)
		require.Equal(t, b.now()+1, swept.Expiry)
		for _, job := range []store.NewJob{waiting, scheduled} {
			got := b.dead(t, job.UID)
			require.Equal(t, store.DeadLetter{
				ID: got.ID, JobID: job.UID, Kind: store.KindExpired, Task: "a", Queue: "q",
				Reason: "expired: not started by 2026-03-01T12:00:10Z", JobMetadata: text(job.Metadata), Args: job.Args, ArgsSize: 3,
				Rank: -5, UniqueKey: text(job.UniqueKey), MaxRetries: number(7), Timeout: number(9),
				EnqueuedAt: noon.UnixMicro(), FirstDue: noon.UnixMicro() + job.Delay, DeadAt: b.now(), Replays: 1,
			}, got)
			b.requireOnce(t, job.UID)
			b.insert(t, uniqueJob("a", job.UniqueKey))
		}
		require.Equal(t, store.Waiting, b.stored(t, started.UID).State)
	})
}

func TestASweepEndsABoundedNumberOfExpiredJobsTheEarliestFirst(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 5200)
		for i := range jobs {
			jobs[i].ExpiresIn = int64(len(jobs) - i)
		}
		b.insert(t, jobs...)
		start := b.now()
		b.clock.Advance(time.Second)
		swept := b.sweep(t)
		require.Equal(t, []int64{5000, start + 5001}, []int64{int64(swept.Expired), swept.Expiry})
		swept = b.sweep(t)
		require.Equal(t, []int64{200, 0}, []int64{int64(swept.Expired), swept.Expiry})
		require.EqualValues(t, 5200, b.count(t, `select count(*) from weir_dead where kind = 'expired'`))
		require.Zero(t, b.count(t, `select count(*) from weir_jobs`))
	})
}

// Where very many expire together, a look does not walk over all of them to who
// waits behind: it finds those once a few sweeps have taken the others away.
func TestALineThatBeginsWithManyExpiredJobsIsReadThatFarOnly(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 7003)
		for i := range jobs[:7000] {
			jobs[i].ExpiresIn = second
		}
		b.insert(t, jobs...)
		b.insert(t, newJobs("b", 2)...)
		b.clock.Advance(time.Second)
		look := func() (expired int, read [][]store.Candidate) {
			a := &admission{asks: []store.Ask{ask("a", 2), ask("b", 9)}}
			return b.turn(t, store.TurnRequest{Sweep: true, Admit: a}).Swept.Expired, a.read
		}
		expired, read := look()
		require.Equal(t, 5000, expired)
		require.Equal(t, []int{0, 2}, []int{len(read[0]), len(read[1])}, "two thousand that expired are before them")
		expired, read = look()
		require.Equal(t, 2000, expired)
		require.Equal(t, []int{2, 2}, []int{len(read[0]), len(read[1])})
		require.Less(t, read[0][0].ID, read[0][1].ID)

		// So many are walked over.
		few := newJobs("c", 902)
		for i := range few[:900] {
			few[i].ExpiresIn, few[i].Priority = second, 1
		}
		for i := range jobs {
			jobs[i] = newJob("d")
			jobs[i].ExpiresIn = second / 2
		}
		b.insert(t, append(few, jobs[:5000]...)...)
		b.clock.Advance(time.Second)
		a := &admission{asks: []store.Ask{ask("c", 5)}}
		require.Equal(t, 5000, b.turn(t, store.TurnRequest{Sweep: true, Admit: a}).Swept.Expired)
		require.Len(t, a.read[0], 2)
		require.Less(t, a.read[0][0].ID, a.read[0][1].ID)
	})
}
