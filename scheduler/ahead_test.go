package scheduler_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// crowd brings a scheduler with one slot to a moment at which a stuck handler
// has the slot and five jobs of task "quick" were claimed ahead.
func crowd(t *testing.T, r *rig, more func()) (s *stuck, quick []string) {
	t.Helper()
	s = r.stuck("stuck")
	r.task("quick", nil)
	if more != nil {
		more()
	}
	r.enqueue("quick", numbered(10)) // they end at this moment, so as many may be claimed ahead
	r.drain()
	r.enqueue("stuck", []string{"x"}, queue.Priority(100))
	quick = r.enqueue("quick", []string{"a", "b", "c", "d", "e"})
	return s, quick
}

// claimed waits until so many jobs are running, as the database has it.
func (r *rig) claimedAhead(n int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.jobs(queue.StateRunning)) == n }, time.Minute, time.Millisecond)
}

// after is what was started since the first ten.
func (r *rig) after() (out []string) {
	for _, x := range r.ledger()[10:] {
		out = append(out, x.args)
	}
	return out
}

func TestJobsThatWereClaimedAheadRunInTheirOrderWithoutALook(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s, _ := crowd(t, r, nil)
		done := r.aside()
		<-s.begun
		r.claimedAhead(6)
		looks := r.faults.Count(grant)
		s.answer <- nil
		require.NoError(t, <-done)
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, r.after())
		require.Zero(t, looks.Statements())
		require.Len(t, r.jobs(queue.StateCompleted), 16)
		for _, j := range r.jobs() {
			require.Equal(t, 1, j.Attempt)
		}
	}, scheduler.Concurrency(1))
}

// The goroutine of a handler goes on to the next job, or another does, however the
// handler ends.
func TestTheNextJobHasTheSlotHoweverAHandlerEnds(t *testing.T) {
	for name, end := range map[string]func() error{
		"it returns an error": func() error { return errAlways },
		"it panics":           func() error { panic("boom") },
		"its goroutine ends":  func() error { runtime.Goexit(); return nil },
		"it panics while its goroutine ends": func() error {
			defer func() { panic("while it ends") }()
			runtime.Goexit()
			return nil
		},
		"its error's text ends the goroutine": func() error { return endingError{} },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				begun, goOn := make(chan struct{}), make(chan struct{})
				require.NoError(t, scheduler.Register(r.s, queue.Task[string]("odd"), func(context.Context, *queue.Job[string]) error {
					close(begun)
					<-goOn
					return end()
				}, scheduler.MaxRetries(0)))
				_, _ = crowd(t, r, nil)
				r.meddle(`delete from weir_jobs where task = 'stuck'`)
				r.enqueue("odd", []string{"x"}, queue.Priority(100))
				done := r.aside()
				<-begun
				r.claimedAhead(6)
				close(goOn)
				require.NoError(t, <-done)
				require.Equal(t, []string{"a", "b", "c", "d", "e"}, r.after())
				require.Len(t, r.letters(), 1)
			}, scheduler.Concurrency(1))
		})
	}
}

// Under fixed windows a slot is left for the second job that limits cover: what was
// claimed ahead does not take it, where it comes later.
func TestASlotThatIsKeptForALimitedJobIsNotHandedOut(t *testing.T) {
	eachWindow(t, func(t *testing.T, r *rig) {
		s := r.stuck("stuck")
		hold := make(chan struct{})
		r.task("quick", func(job *queue.Job[string]) error {
			if job.Args == "a" {
				<-hold
			}
			return nil
		})
		r.task("limited", func(job *queue.Job[string]) error {
			if job.Args == "L1" {
				<-hold
			}
			return nil
		}, scheduler.RateLimit("100/h"))
		r.enqueue("quick", numbered(10))
		r.drain()
		r.enqueue("stuck", numbered(8), queue.Priority(100))
		r.enqueue("quick", []string{"a", "b", "c", "d"})
		ended := r.aside()
		for range 8 {
			<-s.begun
		}
		r.claimedAhead(12)
		r.faults.Before(grant, 1, func() {
			s.answer <- nil
			s.answer <- nil
			assert.Eventually(t, func() bool { return r.s.Delivered() == 2 }, time.Minute, time.Millisecond)
		})
		r.enqueue("limited", []string{"L1", "L2", "L3"}, queue.Priority(50))
		r.enqueue("quick", []string{"e"})
		require.Eventually(t, func() bool { return slices.Contains(r.after(), "L3") }, time.Minute, time.Millisecond)
		close(hold)
		for range 6 {
			s.answer <- nil
		}
		require.NoError(t, <-ended)
	}, scheduler.Concurrency(8))
}

func TestWhatMayNotWaitInAProcessIsNotClaimedAhead(t *testing.T) {
	for name, c := range map[string]struct {
		task []scheduler.TaskOption
		job  []queue.EnqueueOption
	}{
		"a limit":                 {[]scheduler.TaskOption{scheduler.RateLimit("1000/s")}, nil},
		"a cap":                   {[]scheduler.TaskOption{scheduler.Cap(100)}, nil},
		"a breaker":               {[]scheduler.TaskOption{scheduler.Breaker{Failures: 3}}, nil},
		"the task's only start":   {[]scheduler.TaskOption{scheduler.MaxRetries(0)}, nil},
		"the job's only start":    {nil, []queue.EnqueueOption{queue.MaxRetries(0)}},
		"to be started before":    {nil, []queue.EnqueueOption{queue.StartWithin(time.Hour)}},
		"behind one of the sort":  {nil, []queue.EnqueueOption{queue.MaxRetries(0), queue.Priority(1)}},
		"granted once before now": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				s := r.stuck("stuck")
				r.task("quick", nil)
				r.task("other", nil, c.task...)
				r.enqueue("quick", numbered(10))
				r.drain()
				ids := r.enqueue("other", []string{"first"}, c.job...)
				if name == "granted once before now" {
					r.meddle(`update weir_jobs set started_at = 1 where task = 'other'`)
				}
				r.enqueue("stuck", []string{"x"}, queue.Priority(100))
				if name == "behind one of the sort" {
					ids = append(ids, r.enqueue("other", []string{"second"})...)
				}
				done := r.aside()
				<-s.begun
				r.enqueue("quick", []string{"may wait"}) // something to look for
				r.claimedAhead(2)
				for _, id := range ids {
					require.Equal(t, queue.StateWaiting, r.get(id).State)
				}
				s.answer <- nil
				require.NoError(t, <-done)
				for _, id := range ids {
					require.Equal(t, queue.StateCompleted, r.get(id).State)
				}
			}, scheduler.Concurrency(1))
		})
	}
}

// Full of work as it is, a process has no reason to look for what only a free
// slot can start.
func TestAProcessWithoutAFreeSlotDoesNotAskForWhatCannotWaitInIt(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s := r.stuck("stuck")
		r.task("quick", nil)
		r.task("once", nil, scheduler.MaxRetries(0))
		r.enqueue("quick", numbered(10))
		r.drain()
		r.enqueue("stuck", []string{"x"}, queue.Priority(100))
		id := r.enqueue("once", []string{"a"})[0]
		done := r.aside()
		<-s.begun
		r.enqueue("quick", []string{"b"})
		r.claimedAhead(2)
		before := r.s.Looks()
		for range 100 {
			require.Equal(t, queue.StateWaiting, r.get(id).State)
		}
		require.LessOrEqual(t, r.s.Looks(), before+1, "the one that claimed b may not have been counted")
		s.answer <- nil
		require.NoError(t, <-done)
		require.Equal(t, []string{"a", "b"}, r.after())
	}, scheduler.Concurrency(1))
}

func TestALimitedJobThatComesFirstHasTheNextSlot(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s, _ := crowd(t, r, func() { r.task("limited", nil, scheduler.RateLimit("2/s")) })
		done := r.aside()
		<-s.begun
		r.claimedAhead(6)
		r.enqueue("limited", []string{"first"}, queue.Priority(1))
		r.enqueue("limited", []string{"last"}, queue.Priority(-1))
		require.Eventually(t, r.s.Yields, time.Minute, time.Millisecond) // it has heard of them
		s.answer <- nil
		require.NoError(t, <-done)
		require.Equal(t, []string{"first", "a", "b", "c", "d", "e", "last"}, r.after())
	}, scheduler.Concurrency(1))
}

func TestALimitedJobWhoseHoldEndsHasTheNextSlot(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s := r.stuck("stuck")
		r.task("quick", nil)
		r.task("limited", nil, scheduler.RateLimit("1/s"))
		stop, done := r.serve()
		r.enqueue("limited", numbered(2), queue.Priority(1))
		require.Eventually(t, func() bool { return r.count() == 1 && r.heldFor("task:limited") == time.Second }, time.Minute, time.Millisecond)
		r.clock.Advance(900 * time.Millisecond)
		r.enqueue("quick", numbered(9))
		require.Eventually(t, func() bool { return len(r.jobs(queue.StateCompleted)) == 10 }, time.Minute, time.Millisecond)
		r.enqueue("stuck", []string{"x"}, queue.Priority(100))
		<-s.begun
		r.enqueue("quick", []string{"a", "b"})
		r.claimedAhead(3)
		require.False(t, r.s.Yields())
		r.clock.Advance(100 * time.Millisecond)
		require.Eventually(t, r.s.Yields, time.Minute, time.Millisecond)
		s.answer <- nil
		require.Eventually(t, func() bool { return len(r.after()) == 3 }, time.Minute, time.Millisecond)
		require.Equal(t, []string{"000001", "a", "b"}, r.after())
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
	}, scheduler.Concurrency(1))
}

func TestAPauseTakesBackWhatWasClaimedAhead(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s, quick := crowd(t, r, nil)
		done := r.aside()
		<-s.begun
		r.claimedAhead(6)
		require.NoError(t, r.client.PauseQueue(t.Context(), "default"))
		r.claimedAhead(1)
		s.answer <- nil
		require.NoError(t, <-done)
		require.Empty(t, r.after())
		for _, id := range quick {
			j := r.get(id)
			require.Equal(t, queue.StateWaiting, j.State)
			require.Zero(t, j.Attempt)
		}
		require.NoError(t, r.client.ResumeQueue(t.Context(), "default"))
		r.drain()
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, r.after())
	}, scheduler.Concurrency(1))
}

func TestAStopGivesBackWhatWasClaimedAhead(t *testing.T) {
	for name, hangs := range map[string]bool{"": false, "the database hangs": true} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				s := r.stuck("stuck")
				r.task("quick", nil)
				r.enqueue("quick", numbered(10))
				stop, done := r.serve()
				require.Eventually(t, func() bool { return len(r.jobs(queue.StateCompleted)) == 10 }, time.Minute, time.Millisecond)
				r.enqueue("stuck", []string{"x"}, queue.Priority(100))
				<-s.begun
				quick := r.enqueue("quick", numbered(5))
				r.claimedAhead(6)
				asked, answer := make(chan struct{}), make(chan struct{})
				if hangs {
					r.faults.Before(`with recursive l`, 1, func() { close(asked); <-answer })
					r.clock.Advance(500 * time.Millisecond)
					<-asked
				}
				stop()
				if !hangs {
					r.claimedAhead(1)
				}
				s.answer <- nil
				require.Eventually(t, func() bool { return r.s.Delivered() > 0 || !hangs }, time.Minute, time.Millisecond)
				close(answer)
				require.NoError(t, <-done)
				require.Empty(t, r.after())
				for _, id := range quick {
					require.Equal(t, queue.StateWaiting, r.get(id).State)
					require.Zero(t, r.get(id).Attempt)
				}
			}, scheduler.Concurrency(1))
		})
	}
}

func TestAJobThatIsCancelledWhileItWaitsInAProcessDoesNotRun(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s, quick := crowd(t, r, nil)
		done := r.aside()
		<-s.begun
		r.claimedAhead(6)
		require.NoError(t, r.client.Cancel(t.Context(), quick[1]))
		r.claimedAhead(5)
		require.Eventually(t, func() bool { return r.s.Lost() == 1 }, time.Minute, time.Millisecond, "the renewal tells of it at once")
		s.answer <- nil
		require.NoError(t, <-done)
		require.Equal(t, []string{"a", "c", "d", "e"}, r.after())
		require.Equal(t, queue.StateCancelled, r.get(quick[1]).State)
	}, scheduler.Concurrency(1))
}

// Handlers have become slow: others may have slots, and work may come that is more
// urgent.
func TestWhatWaitsTooLongInAProcessGoesBack(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		s, quick := crowd(t, r, func() { r.task("urgent", nil) })
		done := r.aside()
		<-s.begun
		r.claimedAhead(6)
		r.clock.Advance(500 * time.Millisecond)
		r.enqueue("urgent", []string{"first"}, queue.Priority(1))
		r.claimedAhead(1)
		for _, id := range quick {
			require.Equal(t, queue.StateWaiting, r.get(id).State)
			require.Zero(t, r.get(id).Attempt)
		}
		s.answer <- nil
		require.NoError(t, <-done)
		require.Equal(t, []string{"first", "a", "b", "c", "d", "e"}, r.after())
	}, scheduler.Concurrency(1))
}
