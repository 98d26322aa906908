package scheduler_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// TestTwoSchedulersKeepEveryPromiseWhateverOperatorsDo lets two schedulers on
// one database work through random histories of enqueues, pauses, overrides,
// cancellations, vanished processes and lost replies. After each step each job
// is in one place, what is paused has rested, and no limit was exceeded; in the
// end each job has run as often as it should.
func TestTwoSchedulersKeepEveryPromiseWhateverOperatorsDo(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		o := &operated{rig: newRig(t, db, clock.NewFake(epoch)), sql: db.SQL(t)}
		o.other = o.beside()
		rapid.Check(t, o.history)
	})
}

// operated is a database with two schedulers, and what a model knows of it.
type operated struct {
	*rig
	other *rig
	sql   *sql.DB
	procs []*scheduler.Scheduler

	jobs     map[string]*modelJob
	paused   map[string]bool // queues and limits
	rates    []rateFrom      // of the limit of "slow"
	starts   []time.Duration // of "slow"
	breaches []string        // what handlers saw that must not be
	// A Drain that does not know its commit's outcome ends, and cancels the
	// handlers of what it claimed.
	interrupted int
}

type modelJob struct {
	task, queue     string
	runs            int
	cancelled, lost bool
}

// rateFrom is what a limit allows from a time on.
type rateFrom struct {
	at       time.Duration
	capacity int
	perSec   float64
}

func (o *operated) now() time.Duration { return o.clock.Now().Sub(epoch) }

func (o *operated) begin(rt *rapid.T) {
	_, err := o.sql.ExecContext(context.Background(), `delete from weir_jobs; delete from weir_history; delete from weir_dead;
delete from weir_limits; delete from weir_queues; delete from weir_gates`)
	require.NoError(rt, err)
	o.jobs, o.paused, o.procs, o.interrupted = map[string]*modelJob{}, map[string]bool{}, nil, 0
	o.rates, o.starts, o.breaches = []rateFrom{{o.now(), 2, 2}}, nil, nil
	for _, r := range []*rig{o.rig, o.other} {
		r.again(scheduler.Lease(5 * time.Second))
		if r == o.other {
			r.s.WriteAllBeside()
		}
		for task, opts := range map[string][]scheduler.TaskOption{
			"slow":  {scheduler.RateLimit("2/s")},
			"shed":  {scheduler.RateLimit("3/s"), scheduler.OnExcess(scheduler.Drop)},
			"fails": {scheduler.MaxRetries(1)},
			"plain": {scheduler.Cap(2)},
		} {
			r.task(task, func(job *queue.Job[string]) error { return o.ran(job) }, opts...)
		}
		o.procs = append(o.procs, r.s)
		o.drain(rt, r.s)
	}
}

// ran is what every handler does.
func (o *operated) ran(job *queue.Job[string]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jobs[job.ID].runs++
	if o.paused["queue:"+job.Queue] || o.paused["task:"+job.Task] {
		o.breaches = append(o.breaches, fmt.Sprintf("%s of queue %s ran while paused", job.Task, job.Queue))
	}
	switch job.Task {
	case "slow":
		o.starts = append(o.starts, o.now())
	case "fails":
		return errAlways
	}
	return nil
}

func (o *operated) drain(rt *rapid.T, s *scheduler.Scheduler) {
	for range 5 {
		err := s.Drain(o.t.Context())
		if err == nil {
			return
		}
		require.ErrorIs(rt, err, queue.ErrOutcomeUnknown)
		o.interrupted++
	}
	rt.Fatalf("a look goes on failing")
}

func (o *operated) history(rt *rapid.T) {
	o.begin(rt)
	steps := []struct {
		name string
		do   func(*rapid.T)
	}{
		{"enqueue", o.add},
		{"enqueue", o.add},
		{"look", o.look},
		{"look", o.look},
		{"look", o.look},
		{"clock", o.tick},
		{"clock", o.tick},
		{"pause", o.pause},
		{"override", o.override},
		{"cancel", o.cancel},
		{"a process takes jobs and vanishes", o.vanish},
	}
	for range rapid.IntRange(5, 30).Draw(rt, "steps") {
		step := rapid.SampledFrom(steps).Draw(rt, "step")
		step.do(rt)
		o.check(rt, step.name)
	}
	o.finish(rt)
}

func (o *operated) add(rt *rapid.T) {
	task := rapid.SampledFrom([]string{"slow", "slow", "shed", "fails", "plain"}).Draw(rt, "task")
	in := rapid.SampledFrom([]string{"default", "side"}).Draw(rt, "queue")
	if rapid.IntRange(0, 7).Draw(rt, "reply, lost at 7") == 7 {
		o.faults.LoseReply(insert, 1)
	}
	for _, id := range o.enqueue(task, make([]string, rapid.IntRange(1, 5).Draw(rt, "jobs")), queue.Queue(in)) {
		o.jobs[id] = &modelJob{task: task, queue: in}
	}
}

func (o *operated) look(rt *rapid.T) {
	who := rapid.IntRange(0, 1).Draw(rt, "process")
	if rapid.IntRange(0, 7).Draw(rt, "reply, lost at 7") == 7 {
		faults := []*rig{o.rig, o.other}[who].faults
		faults.LoseReply(grant, 1)
		defer faults.Clear()
	}
	o.drain(rt, o.procs[who])
}

func (o *operated) tick(rt *rapid.T) {
	o.clock.Advance(time.Duration(rapid.SampledFrom([]int{1, 100, 500, 999, 1000, 1001, 2500, 7000}).Draw(rt, "ms")) * time.Millisecond)
}

func (o *operated) pause(rt *rapid.T) {
	what := rapid.SampledFrom([]string{"queue:default", "queue:side", "task:slow", "task:shed"}).Draw(rt, "what")
	o.setPaused(rt, what, rapid.Bool().Draw(rt, "pause"))
}

func (o *operated) setPaused(rt *rapid.T, what string, paused bool) {
	change := map[string]func(context.Context, string) error{
		"queue true": o.client.PauseQueue, "queue false": o.client.ResumeQueue,
		"task true": o.client.PauseLimit, "task false": o.client.ResumeLimit,
	}
	name := what
	kind := "task"
	if what[:6] == "queue:" {
		kind, name = "queue", what[6:]
	}
	require.NoError(rt, change[fmt.Sprint(kind, " ", paused)](o.t.Context(), name))
	o.paused[what] = paused
}

func (o *operated) override(rt *rapid.T) {
	per := rapid.SampledFrom([]int{0, 1, 4}).Draw(rt, "a second, 0 for none")
	if per == 0 {
		per = 2
		require.NoError(rt, o.client.UnsetLimit(o.t.Context(), "task:slow"))
	} else {
		require.NoError(rt, o.client.SetLimit(o.t.Context(), "task:slow", queue.Override{Rate: fmt.Sprintf("%d/s", per)}))
	}
	o.rates = append(o.rates, rateFrom{o.now(), per, float64(per)})
}

func (o *operated) cancel(rt *rapid.T) {
	live := o.rig.jobs(queue.StateWaiting, queue.StateScheduled)
	if len(live) == 0 {
		return
	}
	id := live[rapid.IntRange(0, len(live)-1).Draw(rt, "job")].ID
	require.NoError(rt, o.client.Cancel(o.t.Context(), id))
	o.jobs[id].cancelled = true
}

// vanish takes the jobs of "plain" as a process would that then dies. It asks
// no cap, so that there is something to come back.
func (o *operated) vanish(*rapid.T) {
	for _, job := range o.claim("plain") {
		o.jobs[job.UID].lost = true
	}
}

func (o *operated) check(rt *rapid.T, after string) {
	o.conserved(len(o.jobs))
	require.Empty(rt, o.breaches, after)
	for i := range o.starts {
		for j := i; j < len(o.starts); j++ {
			most := o.most(o.starts[i], o.starts[j])
			require.LessOrEqual(rt, float64(j-i+1), most, "starts of slow from %v to %v, after %s", o.starts[i], o.starts[j], after)
		}
	}
}

// most is how many starts the rates in force allow between two times: what the
// fullest bucket held, and what was earned. A new rate is in force from the next
// look on: until then the old one earns.
func (o *operated) most(from, to time.Duration) float64 {
	capacity, perSec := 0, 0.0
	for i, r := range o.rates {
		over := i+1 < len(o.rates) && o.rates[i+1].at < from
		if r.at > to || over && i+2 < len(o.rates) && o.rates[i+2].at < from {
			continue
		}
		capacity, perSec = max(capacity, r.capacity), max(perSec, r.perSec)
	}
	return float64(capacity) + perSec*(to-from).Seconds() + 1e-9
}

// finish lets all run that may, and looks at how it ended.
func (o *operated) finish(rt *rapid.T) {
	for _, what := range []string{"queue:default", "queue:side", "task:slow", "task:shed"} {
		o.setPaused(rt, what, false)
	}
	for range 300 {
		o.clock.Advance(time.Second)
		for _, s := range o.procs {
			o.drain(rt, s)
		}
		if len(o.rig.jobs(queue.StateWaiting, queue.StateScheduled, queue.StateRunning)) == 0 {
			break
		}
	}
	o.check(rt, "the end")
	letters := map[string]dlq.Kind{}
	for _, e := range o.letters() {
		letters[e.JobID] = e.Kind
	}
	for id, job := range o.jobs {
		kind, dead := letters[id]
		switch {
		case dead && kind == dlq.Shed:
			require.Equal(rt, "shed", job.task)
			require.Zero(rt, job.runs)
		case dead:
			require.Equal(rt, "fails", job.task)
			require.Equal(rt, dlq.Failed, kind)
			require.GreaterOrEqual(rt, job.runs, 2)
			require.LessOrEqual(rt, job.runs, 2+o.interrupted, "an attempt that is interrupted does not count")
		case job.cancelled:
			_, err := o.client.Get(o.t.Context(), id)
			require.NoError(rt, err)
		default:
			require.Equal(rt, queue.StateCompleted, o.get(id).State)
			require.Equal(rt, 1, job.runs)
		}
	}
}
