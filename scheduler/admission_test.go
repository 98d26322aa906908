package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestOneBudgetServesATaskInAllItsQueues(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("4/m"))
		r.enqueue("a", []string{"1", "2", "3"}, queue.Queue("emails"))
		r.enqueue("a", []string{"4", "5", "6"}, queue.Queue("urgent"))
		r.at(0)
		require.ElementsMatch(t, []string{"1", "2", "3", "4"}, r.started(0))
		require.EqualValues(t, 4, r.limit("task:a").Started)
		r.at(15 * time.Second)
		require.Equal(t, []string{"5"}, r.started(15*time.Second))
	})
}

func TestATaskNamedLikeAQueuesLimitHasABudgetOfItsOwn(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("queue:x", nil, scheduler.RateLimit("3/m"))
		r.task("other", nil)
		r.enqueue("queue:x", numbered(5))
		r.enqueue("other", numbered(5), queue.Queue("x"))
		r.at(0)
		require.Equal(t, 3, r.tally("queue:x"))
		require.Equal(t, 2, r.tally("other"))
		require.EqualValues(t, 3, r.limit("task:queue:x").Started)
		require.EqualValues(t, 2, r.limit("queue:x").Started)
	}, scheduler.QueueLimit("x", "2/m"))
}

func TestAJobNeedsATokenOfEveryLimitThatCoversIt(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("3/m"))
		r.task("b", nil)
		r.enqueue("a", numbered(10), queue.Queue("q"))
		r.enqueue("b", numbered(10), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 3, r.tally("a"), "its own limit is the lower one")
		require.Equal(t, 2, r.tally("b"), "what the queue's limit has left")
		require.Zero(t, r.tokens("task:a"))
		require.Zero(t, r.tokens("queue:q"))
	}, scheduler.QueueLimit("q", "5/m"))
}

// When one limit refuses, the others keep level, remainder and stamp: nothing
// is taken and given back.
func TestARefusalByOneLimitLeavesTheOthersAsTheyWere(t *testing.T) {
	for _, c := range []struct{ name, own, queue, dry, full string }{
		{"the queue refuses", "7/m", "1/h", "queue:q", "task:a"},
		{"the task refuses", "1/h", "7/m", "task:a", "queue:q"},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit(c.own))
				r.enqueue("a", []string{"1"}, queue.Queue("q"))
				r.at(time.Millisecond)
				require.Equal(t, 1, r.count())
				before := r.limit(c.full)
				require.EqualValues(t, 6e6, before.Level)

				r.enqueue("a", numbered(300), queue.Queue("q"))
				for d := time.Second; d < 20*time.Second; d += 777 * time.Millisecond {
					r.at(d)
				}
				require.Equal(t, 1, r.count())
				after := r.limit(c.full)
				require.Equal(t, bucketOf(before), bucketOf(after))
				require.Zero(t, after.HeldUntil, "it refused nothing")
				require.Zero(t, after.Deferred)
				require.Positive(t, r.limit(c.dry).Deferred)

				// And of the one that refuses only its hold moved.
				dry := r.limit(c.dry)
				require.Equal(t, epoch.Add(time.Millisecond).UnixMicro(), dry.Stamp)
				require.Zero(t, dry.Level)
				require.Zero(t, dry.Remainder)
			}, scheduler.QueueLimit("q", c.queue))
		})
	}
}

// bucketOf is what of a limit's row is its bucket.
func bucketOf(l store.Limit) [3]int64 { return [3]int64{l.Level, l.Remainder, l.Stamp} }

func TestAJobThatALimitCoversTwiceTakesOneToken(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.enqueue("a", numbered(3), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 2, r.count())
		require.EqualValues(t, 2, r.limit("both").Started)
	}, scheduler.SharedLimit("both", "2/m", scheduler.Tasks("a"), scheduler.Queues("q")))
}

func TestTheFirstHundredInOrderAreDeferredOnceASecond(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/h"))
		r.task("b", nil)
		low := r.enqueue("a", numbered(150), queue.Priority(-1), queue.Queue("q"))
		high := r.enqueue("a", numbered(61), queue.Priority(1), queue.Queue("r"))

		for look := 1; look <= 3; look++ {
			r.at(time.Duration(look-1) * time.Second)
			require.Equal(t, 1, r.count())
			first := append(slices.Clone(high[1:]), low[:40]...)
			for _, id := range first {
				r.wants(id, queue.StateWaiting, epoch.Add(time.Duration(look)*time.Second), int64(look))
			}
			for _, id := range low[40:] {
				r.wants(id, queue.StateWaiting, epoch, 0)
			}
			require.EqualValues(t, 100*look, r.limit("task:a").Deferred)
			require.Equal(t, int64(100*look), r.s.Stats().Deferred)
		}
	})
}

func TestAJobThatSeveralLimitsRefuseIsDeferredOnce(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/h"))
		ids := r.enqueue("a", numbered(3), queue.Queue("q"))
		r.at(0)
		for _, id := range ids[1:] {
			r.wants(id, queue.StateWaiting, epoch.Add(time.Second), 1)
		}
		require.EqualValues(t, 2, r.limit("task:a").Deferred)
		require.EqualValues(t, 2, r.limit("queue:q").Deferred)
		require.EqualValues(t, 2, r.s.Stats().Deferred)
	}, scheduler.QueueLimit("q", "1/h"))
}

// A sooner look only starts jobs and sets the hold.
func TestALimitWritesNoMoreDeferralsThanAHundredASecond(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/s"), scheduler.Burst(1), scheduler.Defer(scheduler.UntilToken))
		r.enqueue("a", numbered(300))
		for tick := range 25 {
			at := time.Duration(tick) * 100 * time.Millisecond
			r.at(at)
			require.Len(t, r.started(at), 1)
			require.EqualValues(t, 100*(1+tick/10), r.limit("task:a").Deferred)
		}
	})
}

func TestALimitIsHeldForASecondOrUntilItIsFullOrUntilItsToken(t *testing.T) {
	cases := []struct {
		rate  string
		burst int64
		mode  scheduler.DeferMode
		hold  time.Duration
	}{
		{rate: "3000/s", burst: 1, hold: time.Millisecond},
		{rate: "3000/s", mode: scheduler.UntilToken, hold: time.Millisecond},
		{rate: "3000/s", burst: 30, hold: 10 * time.Millisecond},
		{rate: "10/s", burst: 1, hold: 100 * time.Millisecond},
		{rate: "10/s", mode: scheduler.UntilToken, hold: 100 * time.Millisecond},
		{rate: "1.5/s", hold: 666_667 * time.Microsecond},
		{rate: "2/s", hold: time.Second},
		{rate: "100/m", hold: time.Second},
		{rate: "3000/s", hold: time.Second},
		{rate: "1/h", hold: time.Second},
		{rate: "7/m", mode: scheduler.UntilToken, hold: 8_571_429 * time.Microsecond},
		{rate: "1/m", mode: scheduler.UntilToken, hold: time.Minute},
	}
	each(t, func(t *testing.T, r *rig) {
		for i, c := range cases {
			opts := []scheduler.TaskOption{scheduler.RateLimit(c.rate)}
			if c.burst > 0 {
				opts = append(opts, scheduler.Burst(c.burst))
			}
			if c.mode != "" {
				opts = append(opts, scheduler.Defer(c.mode))
			}
			task := fmt.Sprint("t", i)
			r.task(task, nil, opts...)
			r.enqueue(task, numbered(3100))
		}
		r.at(0)
		name := func(i int) string { return fmt.Sprint("t", i) }
		for i, c := range cases {
			require.Equal(t, c.hold, r.heldFor("task:"+name(i)), "%+v", c)
			require.Equal(t, epoch.UnixMicro(), r.limit("task:"+name(i)).HeldFrom)
		}
		// Until then nobody asks it; then it has a token, if it earned one.
		for from := 0; from < len(cases); {
			to := from
			for to < len(cases) && cases[to].hold == cases[from].hold {
				to++
			}
			before := r.limits()
			r.at(cases[from].hold - time.Microsecond)
			for i := from; i < to; i++ {
				require.Contains(t, before, r.limit("task:"+name(i)), "%+v", cases[i])
			}
			tally := map[int]int{}
			for i := from; i < to; i++ {
				tally[i] = r.tally(name(i))
			}
			r.at(cases[from].hold)
			for i := from; i < to; i++ {
				require.Equal(t, cases[i].rate != "1/h", r.tally(name(i)) > tally[i], "%+v", cases[i])
			}
			from = to
		}
	}, scheduler.Concurrency(50_000))
}

func TestDeferUntilTokenPacesStartsEvenly(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("6/m"), scheduler.Defer(scheduler.UntilToken))
		r.enqueue("a", numbered(20))
		r.at(0)
		require.Equal(t, 6, r.count())
		for n := 1; n <= 14; n++ {
			before := r.count()
			r.at(time.Duration(n)*10*time.Second - time.Microsecond)
			require.Equal(t, before, r.count())
			at := time.Duration(n) * 10 * time.Second
			r.at(at)
			require.Equal(t, []string{numbered(20)[5+n]}, r.started(at))
		}
	})
}

func TestOnATaskDeferMeansItsOwnLimitAlone(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/h"), scheduler.Defer(scheduler.UntilToken))
		r.task("b", nil)
		r.enqueue("a", numbered(4))
		r.enqueue("b", numbered(4), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 30*time.Minute, r.heldFor("task:a"))
		require.Equal(t, time.Second, r.heldFor("queue:q"))
	}, scheduler.QueueLimit("q", "1/h"))
}

func TestArrivalsUnderAHoldWaitUntouchedAndHighPriorityComesFirstAtItsEnd(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/s"))
		first := r.enqueue("a", []string{"1", "2", "3"})
		r.at(0)
		held := r.limit("task:a")

		r.at(300 * time.Millisecond)
		late := r.enqueue("a", []string{"4"})
		high := r.enqueue("a", []string{"5"}, queue.Priority(7))
		for d := 300; d < 1000; d += 100 {
			r.at(time.Duration(d) * time.Millisecond)
		}
		require.Equal(t, 2, r.count())
		require.Equal(t, held, r.limit("task:a"), "nobody asks it")
		r.wants(late[0], queue.StateWaiting, epoch.Add(300*time.Millisecond), 0)
		r.wants(high[0], queue.StateWaiting, epoch.Add(300*time.Millisecond), 0)

		r.at(time.Second)
		require.ElementsMatch(t, []string{"5", "3"}, r.started(time.Second))
		r.wants(first[2], queue.StateCompleted, epoch.Add(time.Second), 1)
		r.wants(late[0], queue.StateWaiting, epoch.Add(2*time.Second), 1)
		r.at(2 * time.Second)
		require.Equal(t, []string{"4"}, r.started(2*time.Second))
	})
}

// Without a hold's end that has a token, at the next one that has.
func TestAHighPriorityJobGetsTheNextToken(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("6/m"), scheduler.Burst(1))
		r.enqueue("a", []string{"1", "2", "3"})
		r.at(0)
		r.at(4500 * time.Millisecond)
		r.enqueue("a", []string{"high"}, queue.Priority(100))
		for s := 5; s <= 20; s++ {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, []string{"high"}, r.started(10*time.Second))
		require.Equal(t, []string{"2"}, r.started(20*time.Second))
		require.Equal(t, 3, r.count())
	})
}

func TestADelayThatEndsDuringAHoldIsServedByItsFirstDueTime(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/s"))
		r.enqueue("a", []string{"1", "2"})
		delayed := r.enqueue("a", []string{"delayed"}, queue.Delay(400*time.Millisecond))
		r.at(0)
		r.at(400 * time.Millisecond)
		r.wants(delayed[0], queue.StateWaiting, epoch.Add(400*time.Millisecond), 0)
		r.at(700 * time.Millisecond)
		r.enqueue("a", []string{"later"})
		for s := 1; s <= 3; s++ {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, []string{"2"}, r.started(1*time.Second))
		require.Equal(t, []string{"delayed"}, r.started(2*time.Second))
		require.Equal(t, []string{"later"}, r.started(3*time.Second))
	})
}

func TestAJobNeverStartsBeforeItsDelayEnds(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		id := r.enqueue("a", []string{"1"}, queue.Delay(time.Minute))[0]
		r.at(time.Minute - time.Microsecond)
		require.Zero(t, r.count())
		require.Equal(t, queue.StateScheduled, r.get(id).State)
		r.at(time.Minute)
		require.Equal(t, 1, r.count())
	})
}

func TestStartsComeInOrderOfPriorityThenFirstDueThenArrival(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/s"), scheduler.Burst(1))
		r.enqueue("a", numbered(40))
		r.at(0)
		for tick := 1; tick <= 20; tick++ {
			r.at(time.Duration(tick) * 100 * time.Millisecond)
		}
		r.enqueue("a", []string{"low"}, queue.Priority(-1))
		r.enqueue("a", []string{"high 1", "high 2"}, queue.Priority(3))
		r.enqueue("a", []string{"highest"}, queue.Priority(100))
		for tick := 21; tick <= 60; tick++ {
			r.at(time.Duration(tick) * 100 * time.Millisecond)
		}
		want := append(numbered(21), "highest", "high 1", "high 2")
		want = append(append(want, numbered(40)[21:]...), "low")
		got := []string{}
		for _, x := range r.ledger() {
			got = append(got, x.args)
		}
		require.Equal(t, want, got)
	})
}

func TestWhatAPausedLimitCoversNeitherStartsNorIsShedNorDeferred(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/m"))
		r.task("b", nil, scheduler.RateLimit("2/m"), scheduler.OnExcess(scheduler.Drop))
		r.task("free", nil)
		r.drain()
		r.meddle(`update weir_limits set paused = ` + r.true() + ` where name = 'queue:q'`)
		before := r.limits()
		ids := append(r.enqueue("a", numbered(5), queue.Queue("q")), r.enqueue("b", numbered(5), queue.Queue("q"))...)
		r.enqueue("free", numbered(1))
		for s := range 5 {
			r.at(time.Duration(s) * time.Second)
		}
		require.Equal(t, 1, r.count(), "only what the limit does not cover")
		require.Empty(t, r.letters())
		for _, id := range ids {
			r.wants(id, queue.StateWaiting, epoch, 0)
			require.Zero(t, r.get(id).Attempt)
		}
		require.Equal(t, before, r.limits(), "no token, no deferral, no hold")

		r.meddle(`update weir_limits set paused = ` + r.false() + ` where name = 'queue:q'`)
		r.at(5 * time.Second)
		require.Equal(t, 2, r.tally("a"))
		require.Equal(t, 2, r.tally("b"))
		require.Len(t, r.letters(), 3)
	}, scheduler.QueueLimit("q", "100/m"))
}

// A pause goes before the hold of another limit, under which drop work is shed.
func TestAPauseSavesDropWorkFromTheHoldOfAnotherLimit(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.task("b", nil, scheduler.RateLimit("1/m"), scheduler.OnExcess(scheduler.Drop))
		r.drain()
		r.meddle(`update weir_limits set paused = ` + r.true() + ` where name = 'task:b'`)
		r.enqueue("a", numbered(2), queue.Queue("q"))
		r.at(0)
		require.Positive(t, r.heldFor("queue:q"))
		r.enqueue("b", numbered(3), queue.Queue("q"))
		r.at(0)
		require.Empty(t, r.letters())
		require.Len(t, r.jobs(queue.StateWaiting), 4)
	}, scheduler.QueueLimit("q", "1/m"))
}

func (r *rig) true() string {
	if r.db.Dialect == store.Postgres {
		return "true"
	}
	return "1"
}

func (r *rig) false() string {
	if r.db.Dialect == store.Postgres {
		return "false"
	}
	return "0"
}

// limits are all limits' rows.
func (r *rig) limits() []store.Limit {
	r.t.Helper()
	rows, err := r.client.Store().Limits(r.t.Context())
	require.NoError(r.t, err)
	return rows
}

func TestAFullSetOfHandlerSlotsMakesJobsWait(t *testing.T) {
	for _, excess := range []scheduler.Excess{scheduler.Drop, scheduler.Postpone} {
		t.Run(string(excess), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				begun, end := make(chan string, 10), make(chan struct{})
				r.task("a", func(job *queue.Job[string]) error {
					begun <- job.Args
					<-end
					return nil
				}, scheduler.RateLimit("4/m"), scheduler.OnExcess(excess))
				ids := r.enqueue("a", []string{"1", "2", "3", "4", "5"})
				drained := make(chan error, 1)
				go func() { drained <- r.s.Drain(context.Background()) }()
				require.ElementsMatch(t, []string{"1", "2"}, []string{<-begun, <-begun})
				more := r.enqueue("a", []string{"6"})
				for _, id := range append(ids[2:], more...) {
					r.wants(id, queue.StateWaiting, epoch, 0)
				}
				require.Empty(t, r.letters())
				require.EqualValues(t, 2e6, r.limit("task:a").Level)

				close(end)
				require.NoError(t, <-drained)
				require.Equal(t, 4, r.count())
				if excess == scheduler.Drop {
					require.Len(t, r.letters(), 2, "once there are slots, what has no token is excess")
				} else {
					require.Len(t, r.jobs(queue.StateWaiting), 2)
				}
			}, scheduler.Concurrency(2))
		})
	}
}

func TestAThrottledTaskDelaysNoOther(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("slow", nil, scheduler.RateLimit("1/h"))
		r.task("quick", nil)
		r.task("limited", nil, scheduler.RateLimit("100/s"))
		r.enqueue("slow", numbered(3000), queue.Queue("q"), queue.Priority(100))
		r.enqueue("quick", []string{"same queue"}, queue.Queue("q"), queue.Priority(-100))
		r.enqueue("quick", []string{"another"}, queue.Queue("r"), queue.Priority(-100))
		r.enqueue("limited", []string{"limited"}, queue.Queue("q"), queue.Priority(-100))
		r.at(0)
		require.ElementsMatch(t, []string{"same queue", "another", "limited", "000000"}, r.started(0))
		looks := r.s.Stats().Looks
		r.at(time.Second) // the hold's end: one look
		require.Equal(t, looks+1, r.s.Stats().Looks)

		r.enqueue("quick", []string{"while it is held"}, queue.Queue("q"), queue.Priority(-100))
		r.at(1500 * time.Millisecond)
		require.Equal(t, []string{"while it is held"}, r.started(1500*time.Millisecond))
	})
}

func TestTasksUnderAQueuesLimitTakeItsTokensInOneOrder(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.task("b", nil)
		r.enqueue("a", []string{"a0"}, queue.Queue("q"))
		r.enqueue("b", []string{"b0", "b1"}, queue.Queue("q"))
		r.enqueue("a", []string{"a1", "a2"}, queue.Queue("q"))
		r.enqueue("b", []string{"b high"}, queue.Queue("q"), queue.Priority(1))
		r.enqueue("a", []string{"a low"}, queue.Queue("q"), queue.Priority(-1))
		r.at(0)
		require.ElementsMatch(t, []string{"b high", "a0", "b0"}, r.started(0))
		r.at(time.Second)
		require.ElementsMatch(t, []string{"b1", "a1", "a2"}, r.started(time.Second))
		r.at(2 * time.Second)
		require.Equal(t, []string{"a low"}, r.started(2*time.Second))
	}, scheduler.QueueLimit("q", "3/s"))
}
