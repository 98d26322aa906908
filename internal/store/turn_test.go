package store_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestALineIsReadByPriorityThenFirstDueThenArrival(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := func(priority int, delay int64) store.NewJob {
			j := newJob("a")
			j.Priority, j.Delay = priority, delay
			return j
		}
		late, lateHigh := job(0, second), job(100, 2*second)
		b.insert(t, late, lateHigh)
		b.clock.Advance(3 * time.Second)
		low, first, second, high := job(-100, 0), job(0, 0), job(0, 0), job(100, 0)
		b.insert(t, low, first, second, high, newJob("b"), newJob("A"))
		b.turn(t, store.TurnRequest{Sweep: true})
		want := []store.NewJob{lateHigh, high, late, first, second, low}

		read := func(limit int) []store.Candidate {
			a := &admission{asks: []store.Ask{ask("a", limit)}}
			b.turn(t, store.TurnRequest{Claim: 1, Admit: a})
			return a.read[0]
		}
		var got []store.Candidate
		for _, c := range read(100) {
			require.False(t, c.Granted)
			got = append(got, c)
		}
		require.Len(t, got, len(want))
		for i, w := range want {
			stored := b.stored(t, w.UID)
			require.Equal(t, store.Candidate{ID: stored.ID, Rank: -w.Priority, FirstDue: stored.FirstDue, MaxRetries: -1}, got[i])
		}
		for limit := range 7 {
			require.Equal(t, got[:limit:limit], append([]store.Candidate{}, read(limit)...))
		}
		a := &admission{asks: []store.Ask{ask("a", 100)}, decide: startAll}
		for i, j := range b.turn(t, store.TurnRequest{Claim: 2, Admit: a}).Started {
			require.Equal(t, want[i].UID, j.UID)
		}
	})
}

func TestEachLineIsAskedForItself(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		colon, slash := newJob("a:b"), newJob("a")
		colon.Queue, slash.Queue = "c", "b:c"
		b.insert(t, colon, slash, newJob("a"))
		a := &admission{asks: []store.Ask{
			{Line: store.Line{Task: "none", Queue: "q"}, Max: 5},
			{Line: store.Line{Task: "a", Queue: "b:c"}, Max: 5},
			{Line: store.Line{Task: "a:b", Queue: "c"}, Max: 5},
			ask("a", 0),
		}}
		b.turn(t, store.TurnRequest{Admit: a})
		require.Len(t, a.read, 4)
		require.Empty(t, a.read[0])
		require.Equal(t, []int64{b.stored(t, slash.UID).ID}, ids(a.read[1]))
		require.Equal(t, []int64{b.stored(t, colon.UID).ID}, ids(a.read[2]))
		require.Empty(t, a.read[3])
	})
}

func TestFreshLeavesOutJobsThatWereGrantedBefore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 4)...)
		for _, j := range b.grant(t, 1, "a", 2) {
			b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.GiveBack)}})
		}
		fresh, all := ask("a", 3), ask("a", 3)
		fresh.Fresh = true
		a := &admission{asks: []store.Ask{fresh, all}}
		b.turn(t, store.TurnRequest{Admit: a})
		require.Len(t, a.read[0], 2)
		require.Len(t, a.read[1], 3)
		require.Equal(t, []bool{true, true, false}, []bool{a.read[1][0].Granted, a.read[1][1].Granted, a.read[1][2].Granted})
		require.Equal(t, a.read[1][2], a.read[0][0])
	})
}

func TestAStartSetsAttemptClaimAndLease(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := full("a")
		b.insert(t, job)
		want := b.stored(t, job.UID)
		for attempt := 1; attempt <= 3; attempt++ {
			b.clock.Advance(time.Second)
			claim := int64(attempt) << 40
			started := b.grant(t, claim, "a", 1)
			require.Len(t, started, 1)
			want.State, want.Attempt, want.Claim, want.StartedAt = store.Running, attempt, number(claim), number(b.now())
			want.LeaseUntil = number(b.now() + lease.Microseconds())
			require.Equal(t, want, b.stored(t, job.UID))

			shown := want // what a handler may see
			shown.LeaseUntil, shown.ArgsSize = noNumber, 0
			shown.State, shown.RunAt, shown.ExpiresAt, shown.Replays = 0, 0, noNumber, 0
			require.Equal(t, shown, started[0])
			b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Interrupted)}})
			want = b.stored(t, job.UID)
		}
	})
}

func TestStartedJobsComeInTheOrderOfThePlan(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 300)...)
		var plan []int64
		started := b.turn(t, store.TurnRequest{Claim: 1, Admit: &admission{
			asks: []store.Ask{ask("a", 300)},
			decide: func(read [][]store.Candidate) store.Plan {
				all := ids(read[0])
				for i := range all {
					plan = append(plan, all[(i*7)%len(all)])
				}
				return store.Plan{Start: plan}
			},
		}}).Started
		for i, j := range started {
			require.Equal(t, plan[i], j.ID)
		}
		require.Len(t, started, 300)
	})
}

func TestADeferralPutsRunAtOffAndNothingElse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := full("a")
		b.insert(t, job, newJob("a"))
		want := b.stored(t, job.UID)
		for n := int64(1); n <= 20; n++ {
			b.clock.Advance(time.Second)
			b.turn(t, store.TurnRequest{Admit: &admission{
				asks:   []store.Ask{ask("a", 1)},
				decide: func(read [][]store.Candidate) store.Plan { return store.Plan{Defer: ids(read[0])} },
			}})
			want.RunAt, want.Deferrals = b.now()+store.DeferFor.Microseconds(), n
			require.Equal(t, want, b.stored(t, job.UID))
		}
		// It is put off on paper only: it may start at once.
		require.Equal(t, job.UID, b.grant(t, 1, "a", 1)[0].UID)
	})
}

func TestAShedJobIsADeadLetterWithTheReasonAndMetadataBesideItsOwn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		job := full("a")
		b.insert(t, job)
		was := b.stored(t, job.UID)
		others := newJobs("a", 5)
		b.insert(t, others...)
		b.clock.Advance(time.Second)
		const one, two = "rate_limit: task:a 100/m", "rate_limit: it's; drop table weir_jobs; -- é"
		b.turn(t, store.TurnRequest{Admit: &admission{
			asks: []store.Ask{ask("a", 5)},
			decide: func(read [][]store.Candidate) (p store.Plan) {
				for i, c := range read[0] {
					p.Shed = append(p.Shed, store.Shed{ID: c.ID, Reason: []string{one, two}[i%2]})
				}
				return p
			},
		}})
		got := b.dead(t, job.UID)
		require.Equal(t, store.DeadLetter{
			ID: got.ID, JobID: job.UID, Kind: store.KindShed, Task: "a", Queue: "q", Reason: one,
			Metadata: text(`{"shed":"rate_limit"}`), JobMetadata: text(job.Metadata), Args: job.Args, ArgsSize: 3, Rank: -5,
			UniqueKey: text(job.UniqueKey), MaxRetries: number(7), Timeout: number(9),
			EnqueuedAt: was.EnqueuedAt, FirstDue: was.FirstDue, DeadAt: b.now(), Replays: 1,
		}, got)
		require.Equal(t, two, b.dead(t, others[0].UID).Reason)
		stats, err := b.DeadStats(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, []store.DeadCount{{Kind: "shed", Task: "a", Reason: one, Count: 3}, {Kind: "shed", Task: "a", Reason: two, Count: 2}}, stats)
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))
		b.insert(t, uniqueJob("a", job.UniqueKey))
	})
}

func TestAPlanForJobsThatAreNotThereIsAnError(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 2)...)
		for want, plan := range map[string]func(ids []int64) store.Plan{
			"start 3 jobs: 2 were there": func(ids []int64) store.Plan { return store.Plan{Start: append(ids, 99)} },
			"defer 3 jobs: 2 were there": func(ids []int64) store.Plan { return store.Plan{Defer: append(ids, 99)} },
		} {
			_, err := b.Turn(t.Context(), store.TurnRequest{Claim: 1, Lease: lease, Admit: &admission{
				asks:   []store.Ask{ask("a", 2)},
				decide: func(read [][]store.Candidate) store.Plan { return plan(ids(read[0])) },
			}})
			require.ErrorContains(t, err, "turn: "+want)
		}
		require.EqualValues(t, 2, b.count(t, `select count(*) from weir_jobs where state = 0 and deferrals = 0 and attempt = 0`))
		require.Zero(t, b.count(t, `select count(*) from weir_dead`))
	})
}

func TestATurnWithoutAdmissionOnlyWritesResults(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		j := b.running(t, 1, newJob("a"))
		require.Equal(t, store.TurnResult{}, b.turn(t, store.TurnRequest{Results: []store.Result{end(j, store.Done)}}))
		require.Equal(t, store.TurnResult{}, b.turn(t, store.TurnRequest{}))
	})
}

func TestATurnTellsBothClocks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		for _, limits := range [][]store.Declared{nil, {declared(t, "task:a", "1/s")}} {
			a := &admission{}
			out := b.turn(t, store.TurnRequest{Limits: limits, Admit: a})
			require.Equal(t, b.now(), out.Now)
			require.Equal(t, b.now(), a.now)
			require.Equal(t, b.clock.Now(), out.At)
		}
		now, err := b.Now(t.Context())
		require.NoError(t, err)
		require.Equal(t, b.now(), now)
	})
}

// A deferral changes no column that an index has, so that PostgreSQL writes the
// row anew on its page and no index with it.
func TestADeferralTouchesNoIndex(t *testing.T) {
	db, watch := storetest.Postgres(t), &watcher{} // new pages
	s := db.Open(t, store.Options{Wrap: watch.wrap})
	b := &bundle{Store: s, db: db, beside: db.SQL(t)}
	b.insert(t, newJobs("a", 20)...)
	var updated, inPlace int64
	watch.intercept(func(ctx context.Context, conn driver.Conn, text string, _ []driver.NamedValue) error {
		if text != "commit" {
			return nil
		}
		rows, err := queryAll(ctx, conn, `select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables
where relname = 'weir_jobs' and schemaname = '`+b.schema(t)+`'`, nil)
		if err == nil {
			updated, inPlace = rows[0][0].(int64), rows[0][1].(int64)
		}
		return err
	})
	_, err := s.Turn(t.Context(), store.TurnRequest{Admit: &admission{
		asks:   []store.Ask{ask("a", 3)},
		decide: func(read [][]store.Candidate) store.Plan { return store.Plan{Defer: ids(read[0])} },
	}})
	require.NoError(t, err)
	require.EqualValues(t, 3, updated)
	require.EqualValues(t, 3, inPlace)
}

// A scheduled job is looked for by its place in line, which is its time.
func TestAJobIsScheduledForItsPlaceInLine(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJobs("a", 7)...)
		var results []store.Result
		for i, j := range b.grant(t, 1, "a", 7) {
			r := end(j, []store.Outcome{store.Retry, store.Retry, store.GiveBack, store.Interrupted, store.Lost, store.Retry, store.Retry}[i])
			r.Delay = second // counts for a retry alone
			results = append(results, r)
		}
		later := newJob("a")
		later.Delay = second
		b.insert(t, later)
		require.Empty(t, b.turn(t, store.TurnRequest{Results: results}).Refused)
		require.EqualValues(t, 5, b.count(t, `select count(*) from weir_jobs where state = 2`))
		require.Zero(t, b.count(t, `select count(*) from weir_jobs where state = 2 and run_at <> first_due`))
	})
}

func TestACandidateTellsWhetherItMayWaitInAProcess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		plain, once, expiring := newJob("a"), newJob("a"), newJob("a")
		retries := 0
		once.MaxRetries, expiring.ExpiresIn = &retries, second
		b.insert(t, plain, once, expiring)
		a := &admission{asks: []store.Ask{ask("a", 9)}}
		b.turn(t, store.TurnRequest{Claim: 1, Admit: a})
		var told []string
		for _, c := range a.read[0] {
			told = append(told, fmt.Sprint(c.MaxRetries, c.Expires))
		}
		require.Equal(t, []string{"-1 false", "0 false", "-1 true"}, told)
	})
}
