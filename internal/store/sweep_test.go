package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func (b *bundle) sweep(t testing.TB) store.Swept {
	t.Helper()
	return b.turn(t, store.TurnRequest{Sweep: true}).Swept
}

func TestASweepBringsDueJobsIntoLineAndKeepsTheirPlace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var jobs []store.NewJob
		for i, delay := range []int64{3, 1, 2, 1, 4} {
			j := newJob([]string{"a", "b"}[i/3])
			j.Delay = delay * second
			jobs = append(jobs, j)
		}
		b.insert(t, jobs...)
		start := b.now()
		require.Equal(t, store.Swept{Due: start + second, Now: start, At: b.clock.Now()}, b.sweep(t))

		b.clock.Advance(time.Second - time.Microsecond)
		require.Zero(t, b.sweep(t).Promoted)
		b.clock.Advance(time.Microsecond)
		swept := b.sweep(t)
		require.ElementsMatch(t, []store.Line{{Task: "a", Queue: "q"}, {Task: "b", Queue: "q"}}, swept.Lines)
		swept.Lines = nil
		require.Equal(t, store.Swept{Promoted: 2, Due: start + 2*second, Now: b.now(), At: b.clock.Now()}, swept)
		require.Equal(t, store.Waiting, b.stored(t, jobs[1].UID).State)
		require.Equal(t, store.Scheduled, b.stored(t, jobs[2].UID).State)

		b.clock.Advance(time.Hour)
		swept = b.sweep(t)
		require.Equal(t, 3, swept.Promoted)
		require.Zero(t, swept.Due)
		for i, j := range jobs {
			got := b.stored(t, j.UID)
			require.Equal(t, start+[]int64{3, 1, 2, 1, 4}[i]*second, got.FirstDue)
			require.Equal(t, got.FirstDue, got.RunAt)
		}
		var order []string
		for _, j := range b.grant(t, 1, "a", 9) {
			order = append(order, j.UID)
		}
		require.Equal(t, []string{jobs[1].UID, jobs[2].UID, jobs[0].UID}, order)
	})
}

func TestARetryComesBackAtTheEndOfItsBackOffBehindWhoCameBefore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		j := b.running(t, 1, newJob("a"))
		r := end(j, store.Retry)
		r.Delay = second
		b.turn(t, store.TurnRequest{Results: []store.Result{r}})
		b.clock.Advance(time.Second / 2)
		between := newJob("a")
		b.insert(t, between)
		b.clock.Advance(time.Second)
		after := newJob("a")
		b.insert(t, after)
		require.Equal(t, 1, b.sweep(t).Promoted)
		var order []string
		for _, j := range b.grant(t, 2, "a", 9) {
			order = append(order, j.UID)
		}
		require.Equal(t, []string{between.UID, j.UID, after.UID}, order)
	})
}

func TestALostLeaseBringsTheJobBackToItsOldPlace(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := full("a")
		j := b.running(t, 1, job)
		want := b.stored(t, j.UID)
		b.insert(t, func() store.NewJob { j := newJob("a"); j.Priority = 5; return j }())

		b.clock.Advance(lease - time.Microsecond)
		swept := b.sweep(t)
		require.Zero(t, swept.Lost)
		require.Equal(t, want.LeaseUntil.Int64, swept.Lease)
		b.clock.Advance(time.Microsecond)
		require.Equal(t, store.Swept{
			Lines: []store.Line{{Task: "a", Queue: "q"}}, Lost: 1, Now: b.now(), At: b.clock.Now(),
		}, b.sweep(t))
		want.State, want.LeaseUntil, want.Claim, want.RunAt = store.Waiting, noNumber, noNumber, b.now()
		want.Errors = text(fmt.Sprintf(`[{"attempt":1,"at":%d,"error":"lease lost"}]`, b.now()))
		require.Equal(t, want, b.stored(t, j.UID))

		again := b.grant(t, 2, "a", 1)
		require.Equal(t, j.UID, again[0].UID)
		require.Equal(t, 2, again[0].Attempt)
		b.clock.Advance(lease)
		b.sweep(t)
		require.Equal(t, []store.AttemptError{
			{Attempt: 1, At: want.RunAt, Error: "lease lost"}, {Attempt: 2, At: b.now(), Error: "lease lost"},
		}, store.ParseErrors(b.stored(t, j.UID).Errors.String))
	})
}

func TestAJobThatIsOutOfStartsWhenItsLeaseIsLostIsADeadLetter(t *testing.T) {
	zero, one := 0, 1
	for name, c := range map[string]struct {
		own    *int // the job's max_retries
		task   *int // its task's
		starts int
	}{
		"by default":                        {nil, nil, 4},
		"as its task says":                  {nil, &one, 2},
		"as its task says, never":           {nil, &zero, 1},
		"as it says itself":                 {&one, &zero, 2},
		"as it says itself, never":          {&zero, &one, 1},
		"as it says itself, without a task": {&one, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				b := setup(t, db)
				if c.task != nil {
					require.NoError(t, b.Register(t.Context(), []store.Task{{Name: "a", Queue: "q", MaxRetries: *c.task, Definition: "{}"}}, nil))
				}
				job := newJob("a")
				job.MaxRetries = c.own
				b.insert(t, job)
				for n := 1; n <= c.starts; n++ {
					require.Len(t, b.grant(t, int64(n), "a", 1), 1, "start %d", n)
					b.clock.Advance(lease)
					swept := b.sweep(t)
					require.Equal(t, n == c.starts, len(swept.Dead) == 1, "start %d", n)
					require.Equal(t, n != c.starts, swept.Lost == 1, "start %d", n)
					require.Equal(t, n == c.starts, swept.Lines == nil)
				}
				dead := b.dead(t, job.UID)
				require.Equal(t, []any{store.KindFailed, "lease lost", c.starts}, []any{dead.Kind, dead.Reason, dead.Attempt})
				require.Len(t, store.ParseErrors(dead.Errors.String), c.starts)
				b.requireOnce(t, job.UID)
			})
		})
	}
}

func TestAttemptsThatWereGivenBackDoNotUseUpTheStarts(t *testing.T) {
	require.False(t, store.OutOfStarts(4, 1, 3))
	require.True(t, store.OutOfStarts(5, 1, 3))
	require.True(t, store.OutOfStarts(1, 0, 0))
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		zero := 0
		job := newJob("a")
		job.MaxRetries = &zero
		b.turn(t, store.TurnRequest{Results: []store.Result{end(b.running(t, 1, job), store.Interrupted)}})
		require.Len(t, b.grant(t, 2, "a", 1), 1)
		b.clock.Advance(lease)
		require.Len(t, b.sweep(t).Dead, 1)
	})
}

func TestASweepIsBoundedAndTheNextOneFollowsAtOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		jobs := newJobs("a", 2600)
		for i := range jobs {
			jobs[i].Delay = int64(i + 1)
		}
		b.insert(t, jobs...)
		b.insert(t, newJobs("b", 600)...)
		require.Len(t, b.grant(t, 1, "b", 600), 600)
		start := b.now()
		b.clock.Advance(lease)
		for i, want := range []store.Swept{{Promoted: 1000, Lost: 500}, {Promoted: 1000, Lost: 100}, {Promoted: 600}, {}} {
			swept := b.sweep(t)
			require.Equal(t, []int{want.Promoted, want.Lost}, []int{swept.Promoted, swept.Lost}, i)
			// The earliest first; what is left is due, and says so.
			require.EqualValues(t, max(0, 2600-1000*(i+1)), b.count(t, `select count(*) from weir_jobs where state = 2`))
			require.Equal(t, []int64{start + 1001, start + 2001, 0, 0}[i], swept.Due)
			require.Equal(t, i < 1, swept.Lease != 0)
		}
		promoted := b.grant(t, 2, "a", 2600)
		require.Equal(t, jobs[0].UID, promoted[0].UID)
		require.Equal(t, jobs[2599].UID, promoted[2599].UID)
	})
}

// However many processes look for lost leases at the same time, each job is
// taken back once.
func TestALostLeaseIsTakenBackOnceHoweverManySweep(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		const jobs, sweepers = 300, 4
		b.insert(t, newJobs("a", jobs)...)
		require.Len(t, b.grant(t, 1, "a", jobs), jobs)
		b.clock.Advance(lease)
		var lost [sweepers]int
		var wg sync.WaitGroup
		for i := range sweepers {
			s := b.db.Open(t, store.Options{Clock: b.clock})
			wg.Go(func() {
				out, err := s.Turn(t.Context(), store.TurnRequest{Sweep: true})
				if err != nil {
					t.Error(err)
				}
				lost[i] = out.Swept.Lost
			})
		}
		wg.Wait()
		total := b.sweep(t).Lost // a sweep passes over what another one holds
		for _, n := range lost {
			total += n
		}
		require.Equal(t, jobs, total)
		for _, j := range b.grant(t, 2, "a", jobs) {
			require.Equal(t, 2, j.Attempt)
			require.Len(t, store.ParseErrors(j.Errors.String), 1)
		}
	})
}

func TestResultsComeBeforeTheSweepOfTheSameTurn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		j := b.running(t, 1, newJob("a"))
		b.clock.Advance(2 * lease)
		out := b.turn(t, store.TurnRequest{Sweep: true, Results: []store.Result{end(j, store.Done)}})
		require.Empty(t, out.Refused)
		require.Zero(t, out.Swept.Lost)
		require.Equal(t, store.Completed, b.stored(t, j.UID).State)
	})
}

func TestRenewalExtendsWhatIsStillHeldAndNothingElse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 6)...)
		jobs := b.grant(t, 1, "a", 6)
		mine, done, cancelled, lost, taken, foreign := jobs[0], jobs[1], jobs[2], jobs[3], jobs[4], jobs[5]
		b.turn(t, store.TurnRequest{Results: []store.Result{end(done, store.Done), end(lost, store.Lost), end(taken, store.Retry)}})
		_, err := b.Cancel(t.Context(), cancelled.UID)
		require.NoError(t, err)
		b.clock.Advance(time.Second)
		require.Len(t, b.grant(t, 2, "a", 6), 2)
		b.exec(t, `update weir_jobs set claim = 3 where id = $1`, foreign.ID)

		held := make([]store.Held, 0, len(jobs))
		for _, j := range jobs {
			held = append(held, store.Held{ID: j.ID, Claim: 1})
		}
		kept, err := b.Renew(t.Context(), held, 7*second)
		require.NoError(t, err)
		require.Equal(t, map[store.Held]int64{{ID: mine.ID, Claim: 1}: 7 * second}, kept)
		require.Equal(t, number(b.now()+7*second), b.stored(t, mine.UID).LeaseUntil)
		for _, j := range []store.Job{lost, taken} {
			require.Equal(t, number(b.now()+lease.Microseconds()), b.stored(t, j.UID).LeaseUntil)
		}
		b.clock.Advance(time.Second)
		kept, err = b.Renew(t.Context(), held, 7*second)
		require.NoError(t, err)
		require.Equal(t, map[store.Held]int64{{ID: mine.ID, Claim: 1}: 6 * second}, kept, "it is young")
		kept, err = b.Renew(t.Context(), nil, second)
		require.NoError(t, err)
		require.Empty(t, kept)
	})
}

// A lease that ran out and that nobody took is still its holder's.
func TestALapsedLeaseCanBeRenewedUntilTheSweepTakesIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		j := b.running(t, 1, newJob("a"))
		held := []store.Held{{ID: j.ID, Claim: 1}}
		b.clock.Advance(2 * lease)
		kept, err := b.Renew(t.Context(), held, second)
		require.NoError(t, err)
		require.Len(t, kept, 1)
		require.Zero(t, b.sweep(t).Lost)
		b.clock.Advance(time.Second)
		require.Equal(t, 1, b.sweep(t).Lost)
		kept, err = b.Renew(t.Context(), held, second)
		require.NoError(t, err)
		require.Empty(t, kept)
	})
}

func TestAClaimFindsWhatItStartedAndStillHas(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 4)...)
		jobs := b.grant(t, 1, "a", 3)
		b.grant(t, 2, "a", 1)
		b.turn(t, store.TurnRequest{Results: []store.Result{end(jobs[0], store.Done), end(jobs[1], store.GiveBack)}})
		got, err := b.Claimed(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, jobs[2:], got)
		got, err = b.Claimed(t.Context(), 3)
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

func TestAJobKeepsItsFirstErrorAndTheLatest(t *testing.T) {
	list := ""
	for n := 1; n <= 120; n++ {
		list = store.AppendError(list, store.AttemptError{Attempt: n, At: int64(n), Error: "e\x00\xff\n\""})
	}
	got := store.ParseErrors(list)
	require.Len(t, got, 50)
	require.Equal(t, store.AttemptError{Attempt: 1, At: 1, Error: "e\x00\uFFFD\n\""}, got[0])
	for i, e := range got[1:] {
		require.Equal(t, 72+i, e.Attempt)
	}
	require.Nil(t, store.ParseErrors(""))
	require.Nil(t, store.ParseErrors(strings.Repeat("[", 3)))
	require.Len(t, store.ParseErrors(store.AppendError("not a list", store.AttemptError{Attempt: 1})), 1)
}
