package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// full is a job with every option, so that what a result loses shows. Once it is
// stored it counts as a replay of itself.
func full(task string) store.NewJob {
	retries := 7
	return store.NewJob{
		UID: newID(), Task: task, Queue: "q", Args: []byte{1, 0, 2}, Metadata: fullMetadata, Priority: 5, ExpiresIn: 3600 * second,
		UniqueKey: newID(), MaxRetries: &retries, Timeout: 9,
	}
}

const fullMetadata = `{"m":1}`

const errorList = `[{"attempt":1,"at":2,"error":"boom \"x\" \u0000"}]`

func TestEachResultLeavesExactlyTheRowItShould(t *testing.T) {
	moved := func(b *bundle) {
		b.clock.Advance(2 * time.Second)
	}
	for name, c := range map[string]struct {
		result store.Result
		want   func(b *bundle, running store.Job) store.Job
	}{
		"Done": {store.Result{Outcome: store.Done}, func(b *bundle, j store.Job) store.Job {
			j.State, j.FinishedAt, j.LeaseUntil = store.Completed, number(b.now()), noNumber
			return j
		}},
		"Retry after a while": {store.Result{Outcome: store.Retry, Delay: 3 * second, Errors: errorList}, func(b *bundle, j store.Job) store.Job {
			j.State, j.LeaseUntil, j.Errors = store.Scheduled, noNumber, text(errorList)
			j.RunAt, j.FirstDue = b.now()+3*second, b.now()+3*second
			return j
		}},
		"Retry at once": {store.Result{Outcome: store.Retry, Errors: errorList}, func(b *bundle, j store.Job) store.Job {
			j.State, j.LeaseUntil, j.Errors = store.Waiting, noNumber, text(errorList)
			j.RunAt, j.FirstDue = b.now(), b.now()
			return j
		}},
		"GiveBack": {store.Result{Outcome: store.GiveBack}, func(b *bundle, j store.Job) store.Job {
			j.State, j.LeaseUntil, j.Attempt, j.RunAt = store.Waiting, noNumber, 0, b.now()
			return j
		}},
		"Interrupted": {store.Result{Outcome: store.Interrupted}, func(b *bundle, j store.Job) store.Job {
			j.State, j.LeaseUntil, j.GivenBack, j.RunAt = store.Waiting, noNumber, 1, b.now()
			return j
		}},
		"Lost": {store.Result{Outcome: store.Lost, Errors: errorList}, func(b *bundle, j store.Job) store.Job {
			j.State, j.LeaseUntil, j.RunAt, j.Claim, j.Errors = store.Waiting, noNumber, b.now(), noNumber, text(errorList)
			return j
		}},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				b := setup(t, db)
				other := b.running(t, 1, newJob("other"))
				j := b.running(t, 2, full("a"))
				before := b.stored(t, j.UID)
				moved(b)
				c.result.ID, c.result.UID, c.result.Claim = j.ID, j.UID, 2
				require.Empty(t, b.turn(t, store.TurnRequest{Results: []store.Result{c.result}}).Refused)
				require.Equal(t, c.want(b, before), b.stored(t, j.UID))
				b.requireOnce(t, j.UID)
				require.Equal(t, store.Running, b.stored(t, other.UID).State)
			})
		})
	}
}

func TestADeadResultLeavesADeadLetterWithAllThatAReplayNeeds(t *testing.T) {
	for name, outcome := range map[string]store.Outcome{"Dead": store.Dead, "DeadLost": store.DeadLost} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				b := setup(t, db)
				job := full("a")
				j := b.running(t, 2, job)
				b.clock.Advance(2 * time.Second)
				r := end(j, outcome)
				r.Reason, r.Errors = "boom\nand more", errorList
				require.Empty(t, b.turn(t, store.TurnRequest{Results: []store.Result{r}}).Refused)
				got := b.dead(t, j.UID)
				require.Equal(t, store.DeadLetter{
					ID: got.ID, JobID: j.UID, Kind: store.KindFailed, Task: "a", Queue: "q", Reason: "boom\nand more",
					JobMetadata: text(job.Metadata), Args: job.Args, ArgsSize: 3, Rank: -5, Attempt: 1, Errors: text(errorList),
					UniqueKey: text(job.UniqueKey), MaxRetries: number(7), Timeout: number(9),
					EnqueuedAt: j.EnqueuedAt, FirstDue: j.FirstDue, DeadAt: b.now(), Replays: 1,
				}, got)
				byID, found, err := b.GetDead(t.Context(), got.ID)
				require.NoError(t, err)
				require.True(t, found)
				require.Equal(t, got, byID)
				b.requireOnce(t, j.UID)
				require.EqualValues(t, 1, b.count(t, `select count(*) from weir_dead where replay_of = $1 and expires_at is not null and started_at is not null`, job.UID))
			})
		})
	}
}

func TestAResultWithoutErrorsKeepsThoseThatAreStored(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		r := end(b.running(t, 1, full("a")), store.Retry)
		r.Errors = errorList
		b.turn(t, store.TurnRequest{Results: []store.Result{r}})
		for claim, outcome := range []store.Outcome{store.GiveBack, store.Interrupted, store.Lost, store.Dead} {
			j := b.grant(t, int64(claim+2), "a", 1)[0]
			require.Equal(t, text(errorList), j.Errors)
			b.turn(t, store.TurnRequest{Results: []store.Result{end(j, outcome)}})
		}
		require.Equal(t, text(errorList), b.dead(t, r.UID).Errors)
	})
}

// After a commit whose reply was lost the process writes its results again.
func TestAResultThatIsWrittenAgainIsNotLate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		var results []store.Result
		b.insert(t, newJobs("a", 6)...)
		for i, j := range b.grant(t, 1, "a", 6) {
			r := end(j, []store.Outcome{store.Done, store.Retry, store.Retry, store.GiveBack, store.Interrupted, store.Dead}[i])
			if i == 1 {
				r.Delay = second
			}
			results = append(results, r)
		}
		require.Empty(t, b.turn(t, store.TurnRequest{Results: results}).Refused)
		rows := func() (rows []store.Job) {
			for _, r := range results[:5] {
				rows = append(rows, b.stored(t, r.UID))
			}
			return rows
		}
		before := rows()
		b.clock.Advance(time.Minute)
		require.Empty(t, b.turn(t, store.TurnRequest{Results: results}).Refused)
		require.Equal(t, before, rows())
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_dead`))
	})
}

func TestResultsWhoseReplyWasLostAreWrittenOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		faults := &storetest.Faults{}
		s := open(t, db, store.Options{Wrap: faults.Wrap})
		jobs := newJobs("a", 3)
		_, err := s.Insert(t.Context(), jobs)
		require.NoError(t, err)
		grant := store.TurnRequest{Claim: 7, Lease: lease, Admit: &admission{asks: []store.Ask{ask("a", 3)}, decide: startAll}}
		faults.LoseReply(`^update .*set state = 1`, 1)
		_, err = s.Turn(t.Context(), grant)
		require.ErrorIs(t, err, store.ErrOutcomeUnknown)
		claimed, err := s.Claimed(t.Context(), 7)
		require.NoError(t, err)
		require.Len(t, claimed, 3)

		var results []store.Result
		for i, j := range claimed {
			require.EqualValues(t, 7, j.Claim.Int64)
			results = append(results, end(j, []store.Outcome{store.Done, store.GiveBack, store.Dead}[i]))
		}
		faults.LoseReply(`weir_history`, 1)
		_, err = s.Turn(t.Context(), store.TurnRequest{Results: results})
		require.ErrorIs(t, err, store.ErrOutcomeUnknown)
		out, err := s.Turn(t.Context(), store.TurnRequest{Results: results})
		require.NoError(t, err)
		require.Empty(t, out.Refused)
		claimed, err = s.Claimed(t.Context(), 7)
		require.NoError(t, err)
		require.Empty(t, claimed)
	})
}

func TestAResultOfAnotherClaimIsLateAndChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		requireLate := func(r store.Result) {
			t.Helper()
			before, _, err := b.Get(t.Context(), r.UID)
			require.NoError(t, err)
			for _, r.Outcome = range []store.Outcome{store.Done, store.Dead, store.Retry, store.GiveBack, store.Interrupted, store.Lost, store.DeadLost} {
				late := r
				late.Cancelled = before.State == store.Cancelled
				require.Equal(t, []store.Result{late}, b.turn(t, store.TurnRequest{Results: []store.Result{r}}).Refused)
				after, _, err := b.Get(t.Context(), r.UID)
				require.NoError(t, err)
				require.Equal(t, before, after)
				b.requireOnce(t, r.UID)
			}
		}
		j := b.running(t, 1, newJob("a"))
		other := end(j, store.Done)
		other.Claim = 2
		requireLate(other) // one that never was

		b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Retry)}})
		again := b.grant(t, 3, "a", 1)[0]
		requireLate(end(j, store.Done)) // given to somebody else since

		_, err := b.Cancel(t.Context(), j.UID)
		require.NoError(t, err)
		requireLate(end(again, store.Done)) // cancelled

		lost := b.running(t, 4, newJob("a"))
		b.clock.Advance(lease)
		require.Equal(t, 1, b.turn(t, store.TurnRequest{Sweep: true}).Swept.Lost)
		requireLate(end(lost, store.Done)) // its lease ran out
		require.Len(t, b.grant(t, 5, "a", 1), 1)
		requireLate(end(lost, store.Done)) // and it was handed out again

		retries := 0
		job := newJob("a")
		job.MaxRetries = &retries
		last := b.running(t, 6, job)
		b.clock.Advance(lease)
		require.Len(t, b.turn(t, store.TurnRequest{Sweep: true}).Swept.Dead, 1)
		requireLate(end(last, store.Done)) // its last lease ran out

		gone := end(last, store.Done)
		gone.ID, gone.UID = 1<<40, newID()
		require.Equal(t, []store.Result{gone}, b.turn(t, store.TurnRequest{Results: []store.Result{gone}}).Refused)
	})
}

func TestLateResultsAreToldFromTheGoodOnesBesideThem(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 6)...)
		jobs := b.grant(t, 1, "a", 6)
		var results, late []store.Result
		for i, j := range jobs {
			r := end(j, []store.Outcome{store.Done, store.Dead, store.Retry}[i%3])
			if i >= 3 {
				_, err := b.Cancel(t.Context(), j.UID)
				require.NoError(t, err)
				cancelled := r
				cancelled.Cancelled = true
				late = append(late, cancelled)
			}
			results = append(results, r)
		}
		require.ElementsMatch(t, late, b.turn(t, store.TurnRequest{Results: results}).Refused)
		require.Equal(t, store.Completed, b.stored(t, jobs[0].UID).State)
		require.Equal(t, store.KindFailed, b.dead(t, jobs[1].UID).Kind)
		require.Equal(t, store.Waiting, b.stored(t, jobs[2].UID).State)
	})
}

// In one process too: a handler that lost its lease reports while the job runs
// again under the claim of another job that has just ended.
func TestALateResultDoesNotEndTheJobForTheClaimThatHasItNow(t *testing.T) {
	const old, now = 0x5bd1e995_1234567, 0x1b873593_7654321
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		lost := b.running(t, old, newJob("a"))
		b.turn(t, store.TurnRequest{Results: []store.Result{end(lost, store.Lost)}})
		b.insert(t, newJob("a"))
		jobs := b.grant(t, now, "a", 2)
		require.Equal(t, lost.UID, jobs[0].UID)
		for _, outcome := range []store.Outcome{store.Done, store.Retry, store.Dead} {
			late := end(lost, outcome)
			require.Equal(t, []store.Result{late}, b.turn(t, store.TurnRequest{Results: []store.Result{late, end(jobs[1], outcome)}}).Refused)
			require.Equal(t, store.Running, b.stored(t, lost.UID).State)
			require.Equal(t, number(now), b.stored(t, lost.UID).Claim)
			b.insert(t, newJob("b"))
			jobs[1] = b.grant(t, now, "b", 1)[0]
		}
		kept, err := b.Renew(t.Context(), []store.Held{{ID: lost.ID, Claim: old}, {ID: jobs[1].ID, Claim: now}}, second)
		require.NoError(t, err)
		require.Equal(t, map[store.Held]int64{{ID: jobs[1].ID, Claim: now}: second}, kept)
		require.Empty(t, b.turn(t, store.TurnRequest{Results: []store.Result{end(jobs[0], store.Done)}}).Refused)
	})
}

// Claims are matched as a set: that a job is settled under the claim of another
// result does not make its own any better.
func TestALateResultBesideOneOfTheClaimThatTookTheJobIsLate(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		late := end(b.running(t, 1, newJob("a")), store.Done)
		b.turn(t, store.TurnRequest{Results: []store.Result{end(b.stored(t, late.UID), store.Lost)}})
		b.insert(t, newJob("a"))
		jobs := b.grant(t, 2, "a", 2)
		require.Len(t, jobs, 2)
		b.turn(t, store.TurnRequest{Results: []store.Result{end(jobs[0], store.Done)}})
		out := b.turn(t, store.TurnRequest{Results: []store.Result{late, end(jobs[1], store.Done)}})
		require.Equal(t, []store.Result{late}, out.Refused)
	})
}

func TestAResultBroughtTwiceAtOnceCountsOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		r := end(b.running(t, 1, newJob("a")), store.Interrupted)
		require.Empty(t, b.turn(t, store.TurnRequest{Results: []store.Result{r, r}}).Refused)
		require.Equal(t, 1, b.stored(t, r.UID).GivenBack)
	})
}

func TestAFailedTurnLeavesEverythingAsItWas(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		j := b.running(t, 1, newJob("a"))
		waiting := newJob("a")
		b.insert(t, waiting)
		before := []store.Job{b.stored(t, j.UID), b.stored(t, waiting.UID)}
		_, err := b.Turn(t.Context(), store.TurnRequest{
			Results: []store.Result{end(j, store.Done)}, Claim: 2, Lease: lease,
			Admit: &admission{asks: []store.Ask{ask("a", 1)}, decide: func(read [][]store.Candidate) store.Plan {
				return store.Plan{Start: append(ids(read[0]), 1<<40)}
			}},
		})
		require.ErrorContains(t, err, "turn: start 2 jobs: 1 were there")
		after := []store.Job{b.stored(t, j.UID), b.stored(t, waiting.UID)}
		require.Equal(t, before, after)
		require.Len(t, b.grant(t, 3, "a", 9), 1)
	})
}
