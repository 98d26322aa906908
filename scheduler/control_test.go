package scheduler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestAnOverrideBeatsTheDeclarationUntilItIsUnset(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("2/s"))
		r.enqueue("a", numbered(50))
		r.at(0)
		require.Equal(t, 2, r.count())

		require.NoError(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "10/s", Reason: "catching up"}))
		require.Zero(t, r.limit("task:a").HeldUntil, "it ends the hold")
		r.at(500 * time.Millisecond)
		require.Equal(t, 3, r.count(), "the time before is credited at the old rate, and nothing is added")
		r.at(1500 * time.Millisecond)
		require.Equal(t, 13, r.count())
		info, err := r.client.Limit(t.Context(), "task:a")
		require.NoError(t, err)
		require.Equal(t, "10/s", info.Rate)
		require.Equal(t, queue.SourceOverride, info.Source)

		require.NoError(t, r.client.UnsetLimit(t.Context(), "task:a"))
		r.at(2500 * time.Millisecond)
		require.Equal(t, 15, r.count(), "ten are there, and two remain: the level is cut to the capacity")
	})
}

func TestAnOverrideEndsByItself(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/s"))
		r.at(0)
		require.NoError(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "100/s", For: 10 * time.Second}))
		r.at(9 * time.Second)
		require.EqualValues(t, 100_000_000, r.limit("task:a").RateCount, "in force although nothing waits")
		r.enqueue("a", numbered(300))
		r.at(9 * time.Second)
		require.Equal(t, 1, r.count(), "the level is never raised")
		r.at(10 * time.Second)
		require.Equal(t, 2, r.count(), "a second at 100/s earned a hundred, of which the capacity of 1 is left")
	})
}

func TestABadOverrideIsRefusedBeforeAnythingIsStored(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/s"))
		r.at(0)
		require.ErrorContains(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "100/mo"}), `limit "task:a": rate "100/mo"`)
		require.ErrorIs(t, r.client.SetLimit(t.Context(), "task:b", queue.Override{Rate: "100/m"}), queue.ErrNotFound)
		require.False(t, r.limit("task:a").Rate.Valid)
	})
}

func TestPausesHoldEverythingAndLoseNothing(t *testing.T) {
	for name, c := range map[string]struct{ pause, resume func(*rig) error }{
		"a limit": {
			func(r *rig) error { return r.client.PauseLimit(r.t.Context(), "task:a") },
			func(r *rig) error { return r.client.ResumeLimit(r.t.Context(), "task:a") },
		},
		"a queue": {
			func(r *rig) error { return r.client.PauseQueue(r.t.Context(), "default") },
			func(r *rig) error { return r.client.ResumeQueue(r.t.Context(), "default") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.task("a", nil, scheduler.RateLimit("5/s"), scheduler.OnExcess(scheduler.Drop))
				r.at(0)
				require.NoError(t, c.pause(r))
				r.enqueue("a", numbered(8))
				r.at(time.Minute)
				require.Zero(t, r.count())
				stats, err := r.dead.Stats(t.Context())
				require.NoError(t, err)
				require.Empty(t, stats.Groups, "a pause sheds nothing")

				require.NoError(t, c.resume(r))
				r.at(time.Minute)
				require.Equal(t, 5, r.count())
			})
		})
	}
}

func TestAJobThatIsNotStartedInTimeExpiresHeldOrNot(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/m"))
		r.enqueue("a", numbered(10), queue.StartWithin(90*time.Second))
		r.at(0)
		r.at(60 * time.Second)
		require.Equal(t, 2, r.count())
		level := r.limit("task:a").Level
		r.at(90 * time.Second)
		require.Equal(t, 2, r.count())
		require.Equal(t, level, r.limit("task:a").Level, "expiry takes no token")
		stats, err := r.dead.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []dlq.Group{{Kind: dlq.Expired, Task: "a", Reason: "expired: not started", Count: 8}}, stats.Groups)
	})
}

func TestARetryDoesNotExpire(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("a", func(job *queue.Job[string]) error {
			if job.Attempt == 1 {
				return scheduler.RetryAfter(time.Hour)
			}
			return nil
		})
		ids := r.enqueue("a", []string{"x"}, queue.StartWithin(time.Minute))
		r.at(0)
		r.at(time.Hour)
		job, err := r.client.Get(t.Context(), ids[0])
		require.NoError(t, err)
		require.Equal(t, queue.StateCompleted, job.State)
	})
}

func TestVerbsDecideWhatFollowsAnAttempt(t *testing.T) {
	eachStrategy(t, func(t *testing.T, r *rig) {
		r.task("later", func(job *queue.Job[string]) error {
			if job.Attempt < 3 {
				return scheduler.RetryAfter(10*time.Second, errors.New("busy"))
			}
			return nil
		})
		r.task("never", func(*queue.Job[string]) error { return scheduler.Discard(errors.New("no such user")) })
		later, never := r.enqueue("later", []string{"x"}), r.enqueue("never", []string{"x"})
		r.at(0)
		r.wants(later[0], queue.StateScheduled, epoch.Add(10*time.Second), 0)
		entry, err := r.dead.Get(t.Context(), never[0])
		require.NoError(t, err)
		require.Equal(t, "no such user", entry.Reason)
		require.Equal(t, 1, entry.Attempts)
		r.at(10 * time.Second)
		r.at(20 * time.Second)
		job, err := r.client.Get(t.Context(), later[0])
		require.NoError(t, err)
		require.Equal(t, queue.StateCompleted, job.State)
		require.Len(t, job.Errors, 2)
		require.Equal(t, "busy", job.Errors[0].Error)
	})
}

func TestAListOfRatesTakesATokenOfEach(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimits(scheduler.Rate{Rate: "5/s"}, scheduler.Rate{Rate: "8/m", Burst: 8}))
		r.enqueue("a", numbered(20))
		r.at(0)
		require.Equal(t, 5, r.count())
		r.at(time.Second)
		require.Equal(t, 8, r.count(), "the minute's bucket is empty")
		require.EqualValues(t, 8, r.limit("task@m:a").Started)
		require.EqualValues(t, 8, r.limit("task@s:a").Started)
	})
}

func TestAShedCallsNoMiddlewareAndSendsNoEvent(t *testing.T) {
	var seen []string
	wrap := func(next scheduler.Handler) scheduler.Handler {
		return func(ctx context.Context, job *queue.Envelope) error {
			seen = append(seen, job.ID)
			return next(ctx, job)
		}
	}
	each(t, func(t *testing.T, r *rig) {
		seen = nil
		r.task("a", nil, scheduler.RateLimit("1/s"), scheduler.OnExcess(scheduler.Drop))
		events, cancel := r.s.Subscribe()
		ids := r.enqueue("a", numbered(5))
		r.at(0)
		cancel()
		var got []scheduler.Event
		for e := range events {
			got = append(got, e)
		}
		require.Equal(t, ids[:1], seen)
		require.Equal(t, []scheduler.Event{{Kind: scheduler.JobCompleted, JobID: ids[0], Task: "a", Queue: "default", At: epoch}}, got)
	}, scheduler.Middleware(wrap))
}

// A bucket of which nobody asks for anything is brought to another rate as well:
// it would go on filling at the old one, and jobs would be shed for it.
func TestABucketThatRestsIsBroughtToItsRate(t *testing.T) {
	drop := []scheduler.TaskOption{scheduler.RateLimit("10/s"), scheduler.OnExcess(scheduler.Drop)}
	for name, c := range map[string]struct {
		want   int
		change func(*rig)
	}{
		"an override is taken away": {9, func(r *rig) {
			require.NoError(r.t, r.client.UnsetLimit(r.t.Context(), "task:a"))
			r.drain() // woken by it, or by the next survey
		}},
		"an override ends while nobody looks": {10, func(r *rig) { r.clock.Advance(time.Minute) }},
		"a process comes back with another rate": {9, func(r *rig) {
			require.NoError(r.t, r.client.UnsetLimit(r.t.Context(), "task:a"))
			r.again()
			r.task("a", nil, drop...)
			r.drain()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				r.task("a", nil, drop...)
				r.drain()
				require.NoError(t, r.client.SetLimit(t.Context(), "task:a", queue.Override{Rate: "5/m", For: time.Minute}))
				r.enqueue("a", numbered(50))
				r.drain()
				require.Equal(t, 5, r.count())
				c.change(r)
				r.clock.Advance(900 * time.Millisecond)
				r.enqueue("a", numbered(50))
				r.drain()
				require.Equal(t, 5+c.want, r.count())
			})
		})
	}
}
