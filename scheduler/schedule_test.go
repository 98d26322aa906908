package scheduler_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
	"github.com/weirq/weir/scheduler"
)

var utc = scheduler.TimeZone("UTC")

// schedule declares one of task "a". Its jobs have its name as arguments.
func (r *rig) schedule(name, spec string, opts ...scheduler.ScheduleOption) {
	r.t.Helper()
	require.NoError(r.t, scheduler.Schedule(r.s, name, spec, queue.Task[string]("a"), name, opts...))
}

// fires lists when jobs of a schedule started, as times of the day.
func (r *rig) fires(name string) []string {
	out := []string{}
	for _, x := range r.ledger() {
		if x.args == name {
			out = append(out, epoch.Add(x.at).Format(time.TimeOnly))
		}
	}
	return out
}

// every moves the clock in steps until it has gone on by a time.
func (r *rig) every(step, until time.Duration) {
	r.t.Helper()
	for end := r.clock.Now().Add(until); r.clock.Now().Before(end); {
		r.clock.Advance(step)
		r.drain()
	}
}

// info is a schedule as the client shows it.
func (r *rig) info(name string) queue.ScheduleInfo {
	r.t.Helper()
	list, err := r.client.Schedules(r.t.Context())
	require.NoError(r.t, err)
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	r.t.Fatalf("no schedule %q", name)
	return queue.ScheduleInfo{}
}

// tickOf is the tick that a job is of.
func tickOf(t *testing.T, job queue.JobInfo) string {
	t.Helper()
	var m struct{ Tick string }
	require.NoError(t, json.Unmarshal(job.Metadata, &m))
	return m.Tick
}

func TestAScheduleEnqueuesItsJobAtItsTimes(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.Queue("reports"))
		require.NoError(t, scheduler.Schedule(r.s, "nightly", "30 14 * * *", queue.Task[string]("a"), "nightly", scheduler.TimeZone("Europe/Paris"),
			scheduler.JobOptions(queue.Priority(7), queue.Metadata(map[string]any{"team": "books"}), queue.MaxRetries(0), queue.StartWithin(time.Hour))))
		r.drain()
		require.Equal(t, epoch.Add(90*time.Minute), r.info("nightly").NextTicks[0].UTC())
		r.at(90*time.Minute - time.Microsecond)
		require.Zero(t, r.count(), "not before its time")
		r.at(90 * time.Minute)
		require.Equal(t, []string{"13:30:00"}, r.fires("nightly"))

		job := r.jobs()[0]
		require.Equal(t, "reports", job.Queue)
		require.Equal(t, 7, job.Priority)
		require.Zero(t, *job.MaxRetries)
		require.Equal(t, r.clock.Now().Add(time.Hour), job.ExpiresAt.UTC())
		require.JSONEq(t, `{"schedule": "nightly", "tick": "2026-01-01T13:30:00Z", "team": "books"}`, string(job.Metadata))
		require.JSONEq(t, `"nightly"`, string(job.Args))
		require.Equal(t, epoch.Add(90*time.Minute), r.info("nightly").LastTickAt.UTC())
		r.every(time.Hour, 48*time.Hour)
		require.Len(t, r.fires("nightly"), 3)
	})
}

func TestARunningSchedulerWakesForATick(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("often", "@every 30s")
		stop, done := r.serve()
		require.Eventually(t, func() bool { // intervals count from when it is declared
			list, err := r.client.Schedules(t.Context())
			return err == nil && len(list) == 1
		}, time.Minute, time.Millisecond)
		r.pass(500*time.Millisecond, r.faults.Count(`with recursive l`), func() bool { return r.count() == 3 })
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
		var ticks []string
		for _, j := range r.jobs() { // the latest first
			ticks = append(ticks, tickOf(t, j))
		}
		require.Equal(t, []string{"2026-01-01T12:01:30Z", "2026-01-01T12:01:00Z", "2026-01-01T12:00:30Z"}, ticks[len(ticks)-3:])
	})
}

// An interval longer than the time between restarts.
func TestRestartsLoseNoTickAndMakeNone(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		for range 20 {
			r.again()
			r.task("a", nil)
			r.schedule("every", "@every 10m")
			r.schedule("daily", "9 12 * * *", utc)
			r.drain()
			r.every(time.Minute, 2*time.Minute)
		}
		require.Equal(t, []string{"12:10:00", "12:20:00", "12:30:00", "12:40:00"}, r.fires("every"))
		require.Equal(t, []string{"12:09:00"}, r.fires("daily"))
	})
}

func TestAChangedSpecIsPlannedFromNowAndAnUnchangedOneIsNot(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		declare := func(spec, zone, args string) {
			r.again()
			r.task("a", nil)
			require.NoError(t, scheduler.Schedule(r.s, "s", spec, queue.Task[string]("a"), args, scheduler.TimeZone(zone)))
			r.drain()
		}
		next := func() string { return r.info("s").NextTicks[0].UTC().Format(time.TimeOnly) }
		declare("@every 10m", "UTC", "one")
		r.at(4 * time.Minute)
		declare("@every  10m", "UTC", "two") // the same
		require.Equal(t, "12:10:00", next())
		r.at(10 * time.Minute)
		require.Equal(t, []string{"12:10:00"}, r.fires("two"), "what is enqueued may change without that")
		r.at(14 * time.Minute)
		declare("@every 5m", "UTC", "two")
		require.Equal(t, "12:19:00", next())
		declare("20 13 * * *", "UTC", "two")
		require.Equal(t, "13:20:00", next())
		declare("20 13 * * *", "Asia/Kathmandu", "two")
		require.Equal(t, "07:35:00", next())
		declare("@every 10m", "UTC", "two")
		require.Equal(t, "12:24:00", next(), "it counts anew")
		require.Len(t, r.fires("two"), 1, "none of that fires")
	})
}

// All processes are away for three hours and ten minutes.
func TestTicksThatWereMissedFollowThePolicy(t *testing.T) {
	for _, c := range []struct {
		missed                  scheduler.MissedTicks
		minutely, hourly, daily []string
	}{
		{scheduler.Skip, []string{"12:01:00", "15:11:30", "15:12:00"}, []string{"16:00:00"}, []string{}},
		{scheduler.Once, []string{"12:01:00", "15:11:30", "15:12:00"}, []string{"15:11:30", "16:00:00"}, []string{"15:11:30"}},
	} {
		t.Run(string(c.missed), func(t *testing.T) {
			each(t, func(t *testing.T, r *rig) {
				start := func() {
					r.task("a", nil)
					r.schedule("minutely", "* * * * *", utc, c.missed)
					r.schedule("hourly", "@hourly", utc, c.missed)
					r.schedule("daily", "0 14 * * *", utc, c.missed)
					r.drain()
				}
				start()
				r.at(time.Minute)
				r.clock.Advance(3*time.Hour + 10*time.Minute + 30*time.Second)
				r.again()
				start()
				r.at(3*time.Hour + 12*time.Minute)
				r.again() // and once more, to no effect
				start()
				require.Equal(t, c.minutely, r.fires("minutely"))
				r.at(4 * time.Hour)
				require.Equal(t, c.hourly, r.fires("hourly"))
				require.Equal(t, c.daily, r.fires("daily"))
			})
		})
	}
}

func TestWhatIsMadeUpForPassesTheLimits(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("5/m"))
		for i := range 100 {
			r.schedule(fmt.Sprintf("s%02d", i), "@daily", utc, scheduler.Once)
		}
		r.drain()
		inserts := r.faults.Count(insert)
		r.clock.Advance(30 * time.Hour)
		r.drain()
		require.Len(t, r.jobs(), 100)
		require.LessOrEqual(t, inserts.Statements(), int64(3), "they are enqueued as a set") // on SQLite of 64, 32 and 4
		r.every(3*time.Second, time.Minute)
		require.LessOrEqual(t, r.count(), 10, "five at once and five a minute")
		require.GreaterOrEqual(t, r.count(), 9)
	})
}

func TestAClockThatStepsBackRepeatsNoTick(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("hourly", "@hourly", utc)
		r.schedule("every", "@every 30m")
		r.drain()
		r.every(30*time.Minute, time.Hour)
		require.Equal(t, []string{"13:00:00"}, r.fires("hourly"))
		require.Equal(t, []string{"12:30:00", "13:00:00"}, r.fires("every"))

		r.clock.Advance(-8 * time.Hour)
		r.every(30*time.Minute, 10*time.Hour) // until 15:00
		require.Equal(t, []string{"13:00:00", "14:00:00", "15:00:00"}, r.fires("hourly"))
		require.Len(t, r.fires("every"), 2+19, "an interval counts from the step")

		// A clock that was wrong by far does not silence it.
		r.clock.Advance(-1000 * 24 * time.Hour)
		r.every(30*time.Minute, 2*time.Hour)
		require.Len(t, r.fires("hourly"), 3+2)
		require.Len(t, r.fires("every"), 21+3)
	})
}

func TestAClockThatJumpsMakesOneJobNotAStorm(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("often", "@every 5s")
		r.schedule("hourly", "@hourly", utc)
		r.schedule("once", "@hourly", utc, scheduler.Once)
		r.drain()
		r.at(8*time.Hour + 30*time.Minute)
		require.Len(t, r.fires("often"), 1)
		require.Empty(t, r.fires("hourly"))
		require.Len(t, r.fires("once"), 1)
		r.at(8*time.Hour + 30*time.Minute + 5*time.Second)
		require.Len(t, r.fires("often"), 2)
		r.at(9 * time.Hour)
		require.Len(t, r.fires("hourly"), 1)
		require.Len(t, r.fires("once"), 2)
	})
}

// Six processes on one database, one of them with a clock that is ahead, some of
// which go and come.
func TestATickHasOneJobOverAllProcesses(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ours, ahead := clock.NewFake(epoch), clock.NewFake(epoch.Add(2*time.Second))
		start := func(r *rig) {
			r.task("a", nil)
			r.schedule("every", "@every 1s")
			r.drain()
		}
		processes := []*rig{newRig(t, db, ours)}
		start(processes[0])
		for range 4 {
			processes = append(processes, newRig(t, db, ours))
		}
		processes = append(processes, newRig(t, db, ahead))
		for _, r := range processes[1:] {
			start(r)
		}
		const seconds = 15
		for n := range seconds {
			ours.Advance(time.Second)
			ahead.Advance(time.Second)
			var wg sync.WaitGroup
			for _, r := range processes {
				wg.Go(func() {
					if err := r.s.Drain(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n%3 == 0 {
				r := processes[n%len(processes)]
				r.again()
				start(r)
			}
		}
		jobs := map[string]int{}
		for _, j := range processes[0].jobs() {
			jobs[tickOf(t, j)]++
		}
		want := map[string]int{}
		for n := 1; n <= seconds+2; n++ {
			want[epoch.Add(time.Duration(n)*time.Second).Format(time.RFC3339)] = 1
		}
		require.Equal(t, want, jobs)
	})
}

func TestAPauseHoldsInEveryProcessAndThroughRestarts(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		start := func(r *rig) {
			r.task("a", nil)
			r.schedule("s", "@every 10m", scheduler.Once)
			r.drain()
		}
		start(r)
		other := r.beside()
		start(other)
		require.NoError(t, other.client.PauseSchedule(t.Context(), "s"))
		require.True(t, r.info("s").Paused)
		require.Empty(t, r.info("s").NextTicks)
		r.at(10 * time.Minute)
		other.drain()
		r.again()
		start(r)
		r.every(time.Minute, 25*time.Minute)
		require.Zero(t, r.count()+other.count())

		require.NoError(t, r.client.PauseSchedule(t.Context(), "s"), "again")
		require.NoError(t, r.client.ResumeSchedule(t.Context(), "s"))
		require.NoError(t, r.client.ResumeSchedule(t.Context(), "s"), "again")
		r.drain()
		require.Zero(t, r.count(), "what came meanwhile is not made up for")
		require.Equal(t, epoch.Add(40*time.Minute), r.info("s").NextTicks[0].UTC())
		r.at(40 * time.Minute)
		require.Equal(t, 1, r.count())
		require.ErrorIs(t, r.client.PauseSchedule(t.Context(), "none"), queue.ErrNotFound)
		require.ErrorIs(t, r.client.ResumeSchedule(t.Context(), "none"), queue.ErrNotFound)
	})
}

func TestAPauseReachesARunningSchedulerWithinASecond(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("s", "@every 1s")
		stop, done := r.serve()
		step := func() { r.clock.Advance(100 * time.Millisecond) }
		require.Eventually(t, func() bool { step(); return r.count() >= 2 }, time.Minute, time.Millisecond)
		operator := r.beside() // another process
		require.NoError(t, operator.client.PauseSchedule(t.Context(), "s"))
		before := len(r.jobs())
		for range 50 {
			step()
		}
		require.Len(t, r.jobs(), before)
		require.NoError(t, operator.client.ResumeSchedule(t.Context(), "s"))
		require.Eventually(t, func() bool { step(); return len(r.jobs()) > before }, time.Minute, time.Millisecond)
		stop()
		require.NoError(t, until(r, 100*time.Millisecond, done))
	})
}

func TestAScheduleRunsAtAWordWhichIsNoTick(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil, scheduler.RateLimit("1/h"))
		r.schedule("s", "@hourly", utc, scheduler.JobOptions(queue.Priority(3)))
		r.drain()
		require.NoError(t, r.client.PauseSchedule(t.Context(), "s"))
		before := r.info("s")
		for range 2 {
			receipt, err := r.client.RunSchedule(t.Context(), "s")
			require.NoError(t, err)
			job := r.get(receipt.ID)
			require.JSONEq(t, `{"schedule": "s"}`, string(job.Metadata))
			require.Equal(t, 3, job.Priority)
		}
		r.drain()
		require.Equal(t, 1, r.count(), "it passes the limits")
		require.Equal(t, before, r.info("s"))
		_, err := r.client.RunSchedule(t.Context(), "none")
		require.ErrorIs(t, err, queue.ErrNotFound)
		acts, err := r.client.Audit(t.Context(), queue.AuditFilter{})
		require.NoError(t, err)
		var done []string
		for _, act := range acts.Items {
			done = append(done, act.Action+" "+act.Subject)
		}
		require.Equal(t, []string{"schedules run s", "schedules run s", "schedules pause s"}, done)
	})
}

func TestATickAddsNothingWhileTheJobOfAnEarlierOneLives(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.schedule("s", "@every 10m", scheduler.JobOptions(queue.UniqueKey("s")))
		require.ErrorContains(t, r.s.Validate(), `schedule "s": it names the task "a", which is not registered`)
		r.again(scheduler.Elsewhere("a"))
		r.schedule("s", "@every 10m", scheduler.JobOptions(queue.UniqueKey("s")))
		r.drain()
		r.every(10*time.Minute, 30*time.Minute)
		require.Len(t, r.jobs(), 1)
		receipt, err := r.client.RunSchedule(t.Context(), "s")
		require.NoError(t, err)
		require.True(t, receipt.Duplicate)
		r.again()
		r.task("a", nil)
		r.schedule("s", "@every 10m", scheduler.JobOptions(queue.UniqueKey("s")))
		r.drain()
		r.at(40 * time.Minute)
		require.Len(t, r.jobs(queue.StateCompleted), 2)
	})
}

func TestWhatNoProcessDeclaresDoesNotFireAndIsShownAsSuch(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("s", "@every 10m")
		r.drain()
		require.True(t, r.info("s").Declared)
		require.Len(t, r.info("s").NextTicks, 3)
		r.again()
		r.task("a", nil)
		r.every(10*time.Minute, 30*time.Minute)
		require.Zero(t, r.count())
		require.False(t, r.info("s").Declared)
		require.Empty(t, r.info("s").NextTicks)
	})
}

func TestTheLatestDeclarationHoldsInAllProcessesAndTheOthersSaySoOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		logs := [2]*bytes.Buffer{{}, {}}
		r := newRig(t, db, clock.NewFake(epoch), scheduler.Logger(slog.New(slog.NewTextHandler(logs[0], nil))))
		other := r.beside(scheduler.Logger(slog.New(slog.NewTextHandler(logs[1], nil))))
		for _, x := range []*rig{r, other} {
			x.task("a", nil)
		}
		r.schedule("s", "0 * * * *", utc)
		r.drain()
		other.schedule("s", "@every 30m")
		other.drain()
		for range 8 {
			r.clock.Advance(15 * time.Minute)
			r.drain()
			other.drain()
		}
		require.Equal(t, []string{"12:30:00", "13:00:00", "13:30:00", "14:00:00"}, r.fires("s"), "who comes first fires")
		require.Empty(t, other.fires("s"))
		for i, want := range []string{`schedule=s from="0 * * * * UTC" to="@every 30m"`, `schedule=s from="0 * * * * UTC" to="@every 30m"`} {
			require.Equal(t, 1, strings.Count(logs[i].String(), "schedule_changed"), logs[i])
			require.Contains(t, logs[i].String(), want)
		}
	})
}

func TestATickSurvivesADatabaseThatFails(t *testing.T) {
	const fire = `update \S*weir_schedules`
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("s", "@hourly", utc)
		r.drain()
		for n, fail := range []func(){
			func() { r.faults.LoseReply(fire, 1) },
			func() { r.faults.FailCommit(fire, 1) },
			func() { r.faults.Fail(insert, 1) },
			func() { r.faults.Fail(fire, 1) },
		} {
			r.clock.Advance(time.Duration(n+1)*time.Hour - r.clock.Now().Sub(epoch))
			fail()
			require.Error(t, r.s.Drain(t.Context()))
			r.clock.Advance(30 * time.Second)
			r.drain()
			require.Equal(t, n+1, r.count())
			require.Len(t, r.jobs(), n+1)
			require.Equal(t, epoch.Add(time.Duration(n+2)*time.Hour), r.info("s").NextTicks[0].UTC())
		}
	})
}

// A caller's transaction that holds a unique key must not keep the loop, nor
// other schedules.
func TestAScheduleThatCannotFireKeepsNoOther(t *testing.T) {
	r := newRig(t, storetest.Postgres(t), clock.NewFake(epoch))
	r.task("a", nil)
	r.schedule("free", "@hourly", utc)
	r.schedule("held", "@hourly", utc, scheduler.JobOptions(queue.UniqueKey("k")))
	r.drain()
	tx, err := r.db.SQL(t).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = queue.Task[string]("a").EnqueueTx(t.Context(), r.client, tx, "theirs", queue.UniqueKey("k"))
	require.NoError(t, err)
	r.clock.Advance(time.Hour)
	require.ErrorContains(t, r.s.Drain(t.Context()), "lock timeout")
	require.Error(t, r.s.Drain(t.Context()))
	require.Equal(t, []string{"13:00:00"}, r.fires("free"))
	require.NoError(t, tx.Commit())
	r.drain()
	require.Equal(t, []string{"13:00:00"}, r.fires("theirs"))
	require.Empty(t, r.fires("held"), "the other job stands for it")
	require.Equal(t, epoch.Add(2*time.Hour), r.info("held").NextTicks[0].UTC())
}

func TestDamagedRowsOfSchedulesAreDeclaredAnewAndKeepNoOther(t *testing.T) {
	damages := map[string]string{
		"a spec that is none":       `update weir_schedules set cron = '* * *' where name = ?`,
		"a zone that is none":       `update weir_schedules set timezone = 'Mars/Base' where name = ?`,
		"a job that cannot be read": `update weir_schedules set job = '{' where name = ?`,
		"a tick that is never":      `update weir_schedules set next_tick = 9000000000000000000 where name = ?`,
		"a tick that is none":       `update weir_schedules set next_tick = next_tick - 1234567 where name = ?`,
		"a tick of the past":        `update weir_schedules set next_tick = -5 where name = ?`,
		"no row at all":             `delete from weir_schedules where name = ?`,
	}
	each(t, func(t *testing.T, r *rig) {
		r.task("a", nil)
		r.schedule("other", "@hourly", utc)
		for name := range damages {
			r.schedule(name, "@hourly", utc)
		}
		r.drain()
		for name, damage := range damages {
			r.meddle(damage, name)
		}
		_, err := r.client.Schedules(t.Context())
		require.NoError(t, err, "what can be read is shown")
		r.every(30*time.Minute, 3*time.Hour)
		require.Equal(t, []string{"13:00:00", "14:00:00", "15:00:00"}, r.fires("other"))
		for name := range damages {
			fires := r.fires(name)
			require.Equal(t, []string{"14:00:00", "15:00:00"}, fires[len(fires)-2:], name)
			require.LessOrEqual(t, len(fires), 4, name)
		}
	})
}

func TestASchedulesFaultsAreToldTogether(t *testing.T) {
	s, err := scheduler.New(queuetest.Open(t))
	require.NoError(t, err)
	a := queue.Task[string]("a")
	for _, c := range []struct {
		name, spec string
		opts       []scheduler.ScheduleOption
		want       string
	}{
		{"", "0 3 * * *", []scheduler.ScheduleOption{utc}, `schedule "": schedule "": it is empty: use 1 to 255 bytes`},
		{"s", "0 3 * * *", nil, `schedule "s": no timezone: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"s", "0 3 * * *", []scheduler.ScheduleOption{scheduler.TimeZone("Paris")}, `schedule "s": timezone "Paris": unknown: name one of the IANA database, as in "Europe/Paris" or "UTC"`},
		{"s", "@every 500ms", nil, `schedule "s": cron "@every 500ms": 500ms is no interval: use whole seconds from 1s to 366 days, as in @every 10m`},
		{
			"s", "0 0 31 2 *",
			[]scheduler.ScheduleOption{utc, scheduler.Missed("all"), scheduler.JobOptions(queue.Priority(101))},
			`schedule "s": missed "all": use "skip" or "once"
schedule "s": cron "0 0 31 2 *": no month has such a day, so it never comes: use another day or month
schedule "s": task "a": priority 101: use -100 (last) to 100 (first)`,
		},
		{"s", "@daily", []scheduler.ScheduleOption{utc, scheduler.JobOptions(queue.ID("018f2f5e-0000-7000-8000-000000000000"))}, `schedule "s": an id of its jobs: leave it out, each has its own`},
		{"s", "@daily", []scheduler.ScheduleOption{utc, scheduler.JobOptions(queue.At(epoch))}, `schedule "s": a time at which its jobs may start: use a delay, or leave it to the spec`},
		{"s", "@daily", []scheduler.ScheduleOption{utc, scheduler.JobOptions(queue.StartBefore(epoch))}, `schedule "s": a time before which its jobs must start: use StartWithin`},
		{"s", "@daily", []scheduler.ScheduleOption{utc, scheduler.JobOptions(queue.Queue(""))}, `schedule "s": task "a": queue "": it is empty: use 1 to 255 bytes`},
	} {
		require.EqualError(t, scheduler.Schedule(s, c.name, c.spec, a, "x", c.opts...), c.want)
	}
	require.NoError(t, scheduler.Schedule(s, "s", "@daily", a, "x", utc))
	require.EqualError(t, scheduler.Schedule(s, "s", "@hourly", a, "x", utc), `schedule "s" is declared twice: keep one`)
	const unknown = `schedule "s": it names the task "a", which is not registered: register it, or declare it with Elsewhere if another process runs it`
	require.EqualError(t, s.Validate(), unknown)
	require.EqualError(t, s.Drain(t.Context()), "scheduler: "+unknown)
	require.NoError(t, scheduler.Register(s, a, nothing))
	require.NoError(t, s.Drain(t.Context()))
	require.ErrorIs(t, scheduler.Schedule(s, "late", "@daily", a, "x", utc), scheduler.ErrRunning)
}

func TestWhatBecomesOfTicksIsLogged(t *testing.T) {
	var out bytes.Buffer
	r := newRig(t, storetest.SQLite(t), clock.NewFake(epoch), scheduler.Logger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	r.task("a", nil)
	r.schedule("s", "@every 10m", scheduler.Once)
	r.drain()
	r.at(10 * time.Minute)
	id := r.jobs()[0].ID
	r.at(35 * time.Minute)
	r.clock.Advance(-8 * time.Hour)
	r.drain()
	r.meddle(`update weir_schedules set cron = 'x'`)
	r.at(-6 * time.Hour)
	r.faults.Fail(`update \S*weir_schedules`, 1)
	r.clock.Advance(10 * time.Minute)
	require.Error(t, r.s.Drain(t.Context()))
	for _, want := range []string{
		`level=DEBUG msg=schedule_fired schedule=s tick=2026-01-01T12:10:00.000Z job_id=` + id + ` duplicate=false`,
		`level=WARN msg=schedule_missed schedule=s from=2026-01-01T12:20:00.000Z until=2026-01-01T12:30:00.000Z fired=1`,
		`level=WARN msg=schedule_replanned schedule=s next=2026-01-01T04:45:00.000Z`,
		`level=WARN msg=schedule_repaired schedule=s error="cron \"x\": fields found: 1: `,
		`level=ERROR msg=schedules_failed error="fire schedules: `,
	} {
		require.Contains(t, out.String(), want)
	}
}
