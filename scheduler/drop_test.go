package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestExcessOfADropTaskIsDeadLetteredOnTheSpot(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		require.NoError(t, scheduler.Register(r.s, queue.Task[[]byte]("sample"), func(context.Context, *queue.Job[[]byte]) error { return nil },
			scheduler.RateLimit("10/m"), scheduler.OnExcess(scheduler.Drop)))
		const jobs = 1000
		args := func(i int) []byte { return []byte{'"', 0, 0xff, byte(i), byte(i >> 8), '\\', '\''} }
		batch := make([]queue.NewJob, jobs)
		for i := range batch {
			batch[i] = queue.NewJob{
				Task: "sample", Args: args(i), Metadata: []byte(`{"shed":"mine","n":` + strconv.Itoa(i) + `}`),
				Priority: i % 3, MaxRetries: new(i % 2), Timeout: time.Duration(i) * time.Second, UniqueKey: "k" + strconv.Itoa(i),
			}
		}
		r.clock.Advance(time.Second)
		receipts, err := r.client.EnqueueMany(t.Context(), batch)
		require.NoError(t, err)

		r.at(2 * time.Second)

		require.Len(t, r.jobs(queue.StateCompleted), 10)
		require.Empty(t, r.jobs(queue.StatePending, queue.StateRunning))
		letters := r.letters()
		require.Len(t, letters, 990)
		byJob := map[string]dlq.Entry{}
		for _, e := range letters {
			byJob[e.JobID] = e
		}
		for i, receipt := range receipts {
			e, dead := byJob[receipt.ID]
			if !dead {
				require.Equal(t, 2, i%3, "the highest priority has the tokens")
				continue
			}
			require.Equal(t, dlq.Shed, e.Kind)
			require.Equal(t, "rate_limit: task:sample 10/m", e.Reason)
			require.JSONEq(t, `{"shed":"rate_limit"}`, string(e.Metadata))
			require.Equal(t, string(batch[i].Metadata), string(e.JobMetadata))
			require.Equal(t, batch[i].Priority, e.Priority)
			require.Equal(t, batch[i].MaxRetries, e.MaxRetries)
			require.Equal(t, batch[i].Timeout, e.Timeout)
			require.Equal(t, batch[i].UniqueKey, e.UniqueKey)
			require.Equal(t, "sample", e.Task)
			require.Equal(t, "default", e.Queue)
			require.Zero(t, e.Attempts)
			require.Empty(t, e.Errors)
			require.Zero(t, e.Deferrals)
			require.Zero(t, e.Replays)
			require.Equal(t, epoch.Add(time.Second), e.EnqueuedAt.UTC())
			require.Equal(t, epoch.Add(time.Second), e.FirstDueAt.UTC())
			require.Equal(t, epoch.Add(2*time.Second), e.DeadAt.UTC())
			if i%100 == 0 {
				require.Equal(t, args(i), r.letter(receipt.ID).RawArgs)
			}
		}
		r.conserved(jobs)
		row := r.limit("task:sample")
		require.EqualValues(t, 990, row.Shed)
		require.EqualValues(t, 10, row.Started)
		require.Zero(t, row.HeldUntil, "it put nothing off")
		require.Zero(t, row.Deferred)
		require.EqualValues(t, 990, r.s.Stats().Shed)
		require.Zero(t, r.s.Stats().Failed)
	})
}

func TestAFloodIsShedBatchAfterBatch(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("a", make([]string, 9000))
		r.at(0)
		require.Equal(t, 10, r.count())
		require.EqualValues(t, 8990, r.limit("task:a").Shed)
		require.Empty(t, r.jobs(queue.StatePending))
	})
}

func TestALimitOfDropTasksIsAskedAtEveryArrival(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("10/m"), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("a", numbered(30))
		r.at(0)
		require.Zero(t, r.limit("task:a").HeldUntil)
		for ms := 5900; ms <= 6100; ms += 50 {
			r.clock.Advance(time.Duration(ms)*time.Millisecond - r.clock.Now().Sub(epoch))
			r.enqueue("a", []string{strconv.Itoa(ms)})
			r.drain()
		}
		require.Equal(t, []string{"6000"}, r.started(6*time.Second), "the token's instant")
		require.Equal(t, 11, r.count())
		require.Len(t, r.letters(), 24)
	})
}

func TestTheTasksOwnWishDecidesWhicheverLimitRefuses(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("drops", nil, scheduler.OnExcess(scheduler.Drop))
		r.task("waits", nil)
		r.enqueue("drops", numbered(5), queue.Queue("q"))
		late := r.enqueue("waits", numbered(2), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 2, r.tally("drops"))
		letters := r.letters()
		require.Len(t, letters, 3)
		for _, e := range letters {
			require.Equal(t, "rate_limit: queue:q 2/m", e.Reason)
			require.Equal(t, "q", e.Queue)
		}
		for _, id := range late {
			r.wants(id, queue.StateWaiting, epoch.Add(time.Second), 1)
		}
	}, scheduler.QueueLimit("q", "2/m"))
}

func TestTheReasonNamesTheFirstByBytesOfTheLimitsThatRefuse(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("60/60s"), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("a", make([]string, 61), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 5, r.count())
		for i, e := range r.letters() {
			if i == 0 {
				require.Equal(t, "rate_limit: queue:q 5/h", e.Reason)
			}
		}
		// The queue alone refused so far. Now the task does too, and "Zoo".
		r.meddle(`update weir_limits set level = 0 where name <> 'queue:q'`)
		r.enqueue("a", []string{"x"}, queue.Queue("q"))
		r.at(0)
		require.Equal(t, "rate_limit: Zoo 70/m", r.letters()[0].Reason, "upper case comes before lower case")
		r.enqueue("a", []string{"x"})
		r.at(0)
		require.Equal(t, "rate_limit: Zoo 70/m", r.letters()[0].Reason)
		r.meddle(`update weir_limits set level = 70000000 where name = 'Zoo'`)
		r.enqueue("a", []string{"x"})
		r.at(0)
		require.Equal(t, "rate_limit: task:a 60/m", r.letters()[0].Reason, "the canonical rate")
	}, scheduler.QueueLimit("q", "5/h"), scheduler.SharedLimit("Zoo", "70/m", scheduler.Tasks("a")))
}

// The job ran before, so it is not excess: it waits for the next token, ahead
// of what comes after it.
func TestARetryOfADropTaskIsDeferredAndKeepsItsPlace(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Attempt == 1 && job.Args == "first" {
				return errors.New("once")
			}
			return nil
		}, scheduler.RateLimit("12/m"), scheduler.Burst(1), scheduler.OnExcess(scheduler.Drop), scheduler.Backoff{Base: time.Second})
		id := r.enqueue("a", []string{"first"})[0]
		r.at(0)
		require.Equal(t, 1, r.count())

		r.at(time.Second) // its back-off ends, the next token comes at 5 s
		r.wants(id, queue.StateWaiting, epoch.Add(2*time.Second), 1)
		require.Empty(t, r.letters())
		require.Equal(t, time.Second, r.heldFor("task:a"), "the ordinary hold ends before the next token")

		r.at(1500 * time.Millisecond)
		shed := r.enqueue("a", []string{"fresh"}, queue.Priority(100))
		r.drain()
		require.Equal(t, dlq.Shed, r.letter(shed[0]).Kind, "under the hold, whatever its priority")
		for s := 2; s <= 4; s++ {
			r.at(time.Duration(s) * time.Second)
			require.Equal(t, 1, r.count())
		}
		require.Equal(t, time.Second, r.heldFor("task:a"))
		r.at(4900 * time.Millisecond)
		r.at(5 * time.Second)
		require.Equal(t, []start{{0, "a", "first", 1}, {5 * time.Second, "a", "first", 2}}, r.ledger())
		require.Equal(t, 2, r.get(id).Attempt)
		require.Len(t, r.letters(), 1)
	})
}

// Where the next token comes sooner than the ordinary hold's end, the hold
// ends with it.
func TestADeferredDropJobHoldsTheLimitUntilTheNextTokenOnly(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		fail := true
		r.task("a", func(*queue.Job[string]) error {
			if fail {
				return errors.New("once")
			}
			return nil
		}, scheduler.RateLimit("4/s"), scheduler.OnExcess(scheduler.Drop), scheduler.Backoff{Base: 10 * time.Millisecond})
		r.enqueue("a", []string{"1", "2", "3", "4"})
		r.at(0)
		fail = false
		r.at(10 * time.Millisecond)
		require.Equal(t, 240*time.Millisecond, r.heldFor("task:a"))
		require.Len(t, r.jobs(queue.StateWaiting), 4)
		for n := 1; n <= 4; n++ {
			at := time.Duration(n) * 250 * time.Millisecond
			r.at(at)
			require.Len(t, r.started(at), 1)
		}
		require.Empty(t, r.letters())
		require.Len(t, r.jobs(queue.StateCompleted), 4)
	})
}

// Also where the limit's own holds last until its next token, a minute from now.
func TestADeferredDropJobHoldsTheLimitNoLongerThanAnOrdinaryHold(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Attempt == 1 {
				return errors.New("once")
			}
			return nil
		}, scheduler.RateLimit("1/m"), scheduler.Defer(scheduler.UntilToken), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("a", []string{"x"})
		r.at(0)
		r.at(time.Second)
		require.Equal(t, time.Second, r.heldFor("task:a"))
		r.at(time.Minute)
		require.Equal(t, 2, r.count())
	})
}

func TestWhatWasGivenBackOrLostItsLeaseIsNotShed(t *testing.T) {
	for _, c := range []struct {
		name    string
		outcome store.Outcome
		attempt int // of the start that follows
	}{
		{"never handed over", store.GiveBack, 1},
		{"cut off by a stop", store.Interrupted, 2},
		{"its lease was lost", store.Lost, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("1/s"), scheduler.OnExcess(scheduler.Drop))
				r.drain()
				id := r.enqueue("a", []string{"granted"})[0]
				job := r.claim("a")[0]
				r.report(job, c.outcome)
				fresh := r.enqueue("a", []string{"fresh"}, queue.Priority(5))
				r.meddle(`update weir_limits set level = 0`)

				r.at(0)
				require.Zero(t, r.count())
				r.wants(id, queue.StateWaiting, epoch.Add(time.Second), 1)
				require.Equal(t, dlq.Shed, r.letter(fresh[0]).Kind)
				r.at(500 * time.Millisecond)
				r.enqueue("a", []string{"later"})
				r.at(time.Second)
				require.Equal(t, []start{{time.Second, "a", "granted", c.attempt}}, r.ledger())
				require.Len(t, r.letters(), 2)
			})
		})
	}
}

// claim starts the jobs of a task's default line as a process would that then
// never says a word.
func (r *rig) claim(task string) []store.Job {
	r.t.Helper()
	out, err := r.client.Store().Turn(r.t.Context(), store.TurnRequest{
		Claim: claims.Add(1), Lease: 30 * time.Second, Admit: wholeLine{store.Line{Task: task, Queue: "default"}},
	})
	require.NoError(r.t, err)
	return out.Started
}

// report writes a result.
func (r *rig) report(job store.Job, outcome store.Outcome) {
	r.t.Helper()
	out, err := r.client.Store().Turn(r.t.Context(), store.TurnRequest{
		Results: []store.Result{{ID: job.ID, UID: job.UID, Claim: job.Claim.Int64, Outcome: outcome}},
	})
	require.NoError(r.t, err)
	require.Empty(r.t, out.Refused)
}

func TestUnderAHoldFreshDropJobsAreShedBatchAfterBatch(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("waits", nil)
		r.task("drops", nil, scheduler.OnExcess(scheduler.Drop))
		r.enqueue("waits", numbered(3), queue.Queue("q"))
		r.at(0)
		require.Equal(t, 1, r.count())
		require.Equal(t, time.Second, r.heldFor("queue:q"))
		held := r.limit("queue:q")

		r.at(300 * time.Millisecond)
		r.enqueue("drops", make([]string, 4500), queue.Queue("q"), queue.Priority(100))
		r.drain()
		require.Len(t, r.letters(), 4500)
		require.Empty(t, r.jobs(queue.StateRunning))
		require.Len(t, r.jobs(queue.StateWaiting), 2)
		after := r.limit("queue:q")
		require.EqualValues(t, 4500, after.Shed)
		after.Shed = 0
		require.Equal(t, held, after, "a shed moves nothing but its count")

		r.at(time.Second)
		require.Equal(t, 2, r.count(), "the hold was not put off")
	}, scheduler.QueueLimit("q", "1/s"))
}

// Work of another line that comes first must not leave them standing either.
func TestDropJobsUnderAHoldAreShedBesideABusyLine(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("waits", nil)
		r.task("drops", nil, scheduler.OnExcess(scheduler.Drop))
		r.task("busy", nil)
		r.enqueue("waits", numbered(3), queue.Queue("q"))
		r.at(0)
		r.enqueue("busy", numbered(30), queue.Priority(1))
		r.enqueue("drops", numbered(3), queue.Queue("q"))
		r.at(100 * time.Millisecond)
		require.Equal(t, 30, r.tally("busy"))
		require.Len(t, r.letters(), 3)
	}, scheduler.QueueLimit("q", "1/h"), scheduler.Concurrency(10))
}

func TestAShedFreesTheUniqueKey(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("a", []string{"takes the token"})
		shed := r.enqueue("a", []string{"x"}, queue.UniqueKey("k"))
		r.at(0)
		require.Equal(t, dlq.Shed, r.letter(shed[0]).Kind)
		again, err := queue.Task[string]("a").Enqueue(t.Context(), r.client, "y", queue.UniqueKey("k"))
		require.NoError(t, err)
		require.False(t, again.Duplicate)
		require.NotEqual(t, shed[0], again.ID)
	})
}

// One line a limit and second says how many were shed: not one a job.
func TestShedsAreLoggedInSumsOnceASecond(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var log bytes.Buffer
		r := newRig(t, db, clock.NewFake(epoch), scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		r.task("a", nil, scheduler.RateLimit("1/h"), scheduler.OnExcess(scheduler.Drop))
		r.enqueue("a", numbered(1001))
		r.at(0)
		for ms := 100; ms < 1000; ms += 100 {
			r.clock.Advance(100 * time.Millisecond)
			r.enqueue("a", numbered(10))
			r.drain()
		}
		r.clock.Advance(100 * time.Millisecond)
		r.enqueue("a", numbered(10))
		r.drain()
		lines, sum := 0, 0
		for line := range strings.Lines(log.String()) {
			_, count, told := strings.Cut(strings.TrimSpace(line), "msg=jobs_shed limit=task:a count=")
			require.True(t, told, "nothing else is logged: %s", line)
			n, err := strconv.Atoi(count)
			require.NoError(t, err)
			lines, sum = lines+1, sum+n
		}
		require.Equal(t, []int{2, 1100}, []int{lines, sum})
	})
}
