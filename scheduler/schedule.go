package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirq/weir/internal/cron"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// schedule is a schedule that this process declares.
type schedule struct {
	scheduleConfig
	name string
	spec cron.Spec
	job  store.NewJob
	told map[string]struct{} // other processes' specs that were logged
}

// scheduleConfig is what the options of Schedule say.
type scheduleConfig struct {
	zone    string
	missed  MissedTicks
	options []queue.EnqueueOption
}

// ScheduleOption configures a schedule.
type ScheduleOption interface{ applySchedule(*scheduleConfig) error }

type scheduleOptionFunc func(*scheduleConfig) error

func (f scheduleOptionFunc) applySchedule(c *scheduleConfig) error { return f(c) }

// TimeZone names the zone on whose clock the fields of a cron spec are read, by
// its name in the IANA database: "Europe/Paris", "UTC". Such a spec needs one;
// an interval does not.
func TimeZone(name string) ScheduleOption {
	return scheduleOptionFunc(func(c *scheduleConfig) error {
		c.zone = name
		return nil
	})
}

// MissedTicks says what happens to ticks that came while nobody could fire them.
type MissedTicks string

// What may happen to ticks that are a minute late or more. One that is less late
// is fired as if it were on time.
const (
	// Skip forgets them. The default.
	Skip MissedTicks = "skip"
	// Once fires the latest of them, however many there were.
	Once MissedTicks = "once"
)

func (m MissedTicks) applySchedule(c *scheduleConfig) error {
	if m != Skip && m != Once {
		return fmt.Errorf("missed %q: use %q or %q", string(m), Skip, Once)
	}
	c.missed = m
	return nil
}

// Missed says what happens to ticks that came while nobody could fire them:
// default Skip.
func Missed(what MissedTicks) ScheduleOption { return what }

// JobOptions are those of each job that a schedule enqueues, such as
// [queue.Priority] and [queue.UniqueKey]. With a unique key a tick adds nothing
// while the job of an earlier one waits or runs. An id and times of the calendar
// are refused: they would suit one job alone.
func JobOptions(opts ...queue.EnqueueOption) ScheduleOption {
	return scheduleOptionFunc(func(c *scheduleConfig) error {
		c.options = append(c.options, opts...)
		return nil
	})
}

// Schedule makes s enqueue a job of a task at each tick of a cron spec: five
// fields, minute hour day month weekday, as in "0 3 * * *", which need a
// [TimeZone]; one of @hourly, @daily, @weekly, @monthly and @yearly, likewise;
// or an interval, as in "@every 10m", of whole seconds up to 366 days, counted
// from when the schedule was first declared.
//
// A tick has one job over all processes that declare the schedule, through
// restarts; what the latest of them declared holds in all. A changed spec is
// planned anew from then on, an unchanged one goes on where it was. The job
// passes its limits as any other. Its metadata has "schedule", the name, and
// "tick", the time in RFC 3339.
//
// The name is 1 to 255 bytes. An error names the schedule and what to mend;
// nothing is declared then. The task is registered with s, or named by
// [Elsewhere]: Run and Validate check it. Schedules are declared before Run.
func Schedule[Args any](s *Scheduler, name, spec string, task queue.Task[Args], args Args, opts ...ScheduleOption) error {
	c := &schedule{name: name, scheduleConfig: scheduleConfig{missed: Skip}}
	errs := []error{queue.CheckName("schedule", name)} //nolint:prealloc // a handful
	for _, o := range opts {
		errs = append(errs, o.applySchedule(&c.scheduleConfig))
	}
	var err error
	c.spec, err = cron.Parse(spec, c.zone)
	errs = append(errs, err)
	job, err := task.Job(args, c.options...)
	if err == nil {
		err = c.readJob(s, job)
	}
	errs = append(errs, err)
	if err := about(fmt.Sprintf("schedule %q", name), errs...); err != nil {
		return err
	}
	return s.schedule(c)
}

// readJob checks what is to be enqueued.
func (c *schedule) readJob(s *Scheduler, job queue.NewJob) (err error) {
	switch {
	case job.ID != "":
		return errors.New("an id of its jobs: leave it out, each has its own")
	case !job.RunAt.IsZero():
		return errors.New("a time at which its jobs may start: use a delay, or leave it to the spec")
	case !job.StartBefore.IsZero():
		return errors.New("a time before which its jobs must start: use StartWithin")
	}
	c.job, err = s.prepare(job)
	return err
}

func (s *Scheduler) schedule(c *schedule) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return fmt.Errorf("schedule %q: %w: declare schedules before Run", c.name, ErrRunning)
	}
	if _, twice := s.schedules[c.name]; twice {
		return fmt.Errorf("schedule %q is declared twice: keep one", c.name)
	}
	s.schedules[c.name] = c
	i, _ := slices.BinarySearch(s.ticks.names, c.name)
	s.ticks.names = slices.Insert(s.ticks.names, i, c.name)
	return nil
}

// checkSchedules reports schedules of tasks that nobody runs.
func (s *Scheduler) checkSchedules() error {
	var errs []error
	for _, name := range s.ticks.names {
		task := s.schedules[name].job.Task
		if _, known := s.tasks[task]; !known && !slices.Contains(s.config.elsewhere, task) {
			errs = append(errs, fmt.Errorf("schedule %q: it names the task %q, which is not registered: register it, or declare it with Elsewhere if another process runs it", name, task))
		}
	}
	return together(errs...)
}
