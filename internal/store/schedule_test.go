package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// hourly makes a row due each hour, and says what is enqueued.
func hourly(now int64, row *store.Schedule) {
	row.Cron, row.Timezone, row.SeenAt = "@hourly", "UTC", now
	row.NextTick = now - now%(3600*second) + 3600*second
	row.SetJob(store.NewJob{Task: "report", Args: []byte("\x00\xff")})
}

func (b *bundle) declare(t *testing.T, names ...string) {
	t.Helper()
	require.NoError(t, b.DeclareSchedules(t.Context(), names, func(now int64, rows []*store.Schedule) []store.NewJob {
		for _, row := range rows {
			hourly(now, row)
		}
		return nil
	}))
}

// onTime fires what is due and moves on by an hour.
func onTime(_ int64, rows []*store.Schedule) (jobs []store.NewJob) {
	for _, row := range rows {
		job, err := row.TickJob(row.NextTick)
		if err != nil {
			panic(err)
		}
		jobs = append(jobs, job)
		row.LastTick, row.NextTick, row.SeenAt = row.NextTick, row.NextTick+3600*second, row.NextTick
	}
	return jobs
}

func (b *bundle) schedules(t *testing.T) []store.Schedule {
	t.Helper()
	rows, err := b.Schedules(t.Context())
	require.NoError(t, err)
	return rows
}

func TestADeclaredScheduleKeepsWhatIsKnownOfIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.declare(t, "b", "a")
		require.Equal(t, []string{"a", "b"}, []string{b.schedules(t)[0].Name, b.schedules(t)[1].Name})
		found, err := b.ChangeSchedule(t.Context(), "a", store.Act{Action: "schedules pause", Subject: "a"}, func(_ int64, row *store.Schedule) { row.Paused, row.LastTick = true, 7 })
		require.NoError(t, err)
		require.True(t, found)
		before := b.schedules(t)
		require.True(t, before[0].Paused)
		require.False(t, before[1].Paused)
		require.NoError(t, b.DeclareSchedules(t.Context(), []string{"a"}, func(now int64, rows []*store.Schedule) []store.NewJob {
			require.Equal(t, b.now(), now)
			require.Len(t, rows, 1)
			require.Equal(t, before[0], *rows[0])
			return nil
		}))
		require.Equal(t, before, b.schedules(t))

		found, err = b.ChangeSchedule(t.Context(), "c", store.Act{Action: "schedules pause", Subject: "a"}, func(int64, *store.Schedule) { t.Error("there is none") })
		require.NoError(t, err)
		require.False(t, found)
	})
}

func TestATickHasOneJobHoweverManyFireIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.declare(t, "a", "b")
		const hours, processes = 5, 4
		stores := make([]*store.Store, processes)
		for i := range stores {
			stores[i] = b.db.Open(t, store.Options{Clock: b.clock})
		}
		var jobs atomic.Int64
		for range hours {
			b.clock.Advance(time.Hour)
			var wg sync.WaitGroup
			for _, s := range stores {
				wg.Go(func() {
					out, err := s.FireSchedules(t.Context(), []string{"a", "b"}, onTime)
					if err != nil {
						t.Error(err)
					}
					jobs.Add(int64(len(out)))
				})
			}
			wg.Wait()
		}
		require.EqualValues(t, 2*hours, jobs.Load())
		require.EqualValues(t, 2*hours, b.count(t, `select count(*) from weir_jobs`))
		for _, row := range b.schedules(t) {
			require.Equal(t, b.now(), row.LastTick)
			require.Equal(t, b.now()+3600*second, row.NextTick)
		}
	})
}

func TestWhatIsNotDueOrPausedOrOfOthersIsLeftAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.declare(t, "due", "paused", "others'", "later")
		for name, change := range map[string]func(*store.Schedule){
			"paused": func(row *store.Schedule) { row.Paused = true },
			"later":  func(row *store.Schedule) { row.NextTick += second },
		} {
			_, err := b.ChangeSchedule(t.Context(), name, store.Act{Action: "schedules pause", Subject: "a"}, func(_ int64, row *store.Schedule) { change(row) })
			require.NoError(t, err)
		}
		b.clock.Advance(time.Hour)
		b.exec(t, `update weir_schedules set seen_at = $1`, b.now())
		var seen []string
		_, err := b.FireSchedules(t.Context(), []string{"due", "paused", "later", "gone"}, func(_ int64, rows []*store.Schedule) []store.NewJob {
			for _, row := range rows {
				seen = append(seen, row.Name)
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"due"}, seen)
	})
}

func TestTheNextTickIsTheFirstThatSomebodyHasToLookAt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		next := func(names ...string) (known int, after time.Duration) {
			n, err := b.NextTick(t.Context(), names)
			require.NoError(t, err)
			require.Equal(t, b.now(), n.Now)
			if !n.At.Valid {
				return n.Known, -1
			}
			return n.Known, time.Duration(n.At.Int64-b.now()) * time.Microsecond
		}
		expect := func(known int, after time.Duration, names ...string) {
			t.Helper()
			k, a := next(names...)
			require.Equal(t, []any{known, after}, []any{k, a})
		}
		expect(0, -1, "a")
		b.declare(t, "a", "b", "c")
		b.exec(t, `update weir_schedules set next_tick = next_tick + 60000000 where name = 'a'`)
		expect(1, time.Hour+time.Minute, "a", "gone")
		expect(2, time.Hour, "a", "b")
		b.exec(t, `update weir_schedules set paused = true where name <> 'a'`)
		expect(3, time.Hour+time.Minute, "a", "b", "c")
		expect(2, -1, "b", "c")
		b.clock.Advance(time.Minute)
		expect(2, -1, "b", "c")
		b.clock.Advance(time.Second)
		expect(1, 0, "b") // nobody has looked after it for more than a minute
		b.clock.Advance(-2 * time.Minute)
		expect(1, -1, "b")
		b.clock.Advance(-2 * time.Second)
		expect(1, 0, "b") // somebody will, in more than a minute: the clock stepped back
	})
}

func TestAScheduleThatIsLockedIsNotWaitedFor(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	b.declare(t, "a", "b")
	b.clock.Advance(time.Hour)
	release := b.inside(t, `update weir_schedules set missed = 'once' where name = 'a'`)
	out, err := b.FireSchedules(t.Context(), []string{"a", "b"}, onTime)
	require.NoError(t, err)
	require.Len(t, out, 1)
	release()
	out, err = b.FireSchedules(t.Context(), []string{"a", "b"}, onTime)
	require.NoError(t, err)
	require.Len(t, out, 1)
}

func TestATickWhoseJobHasEndedIsNotEnqueuedAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.declare(t, "a")
		b.clock.Advance(time.Hour)
		fire := func() store.Inserted {
			out, err := b.FireSchedules(t.Context(), []string{"a"}, onTime)
			require.NoError(t, err)
			require.Len(t, out, 1)
			return out[0]
		}
		first := fire()
		require.False(t, first.Existed)
		job := b.stored(t, first.UID)
		require.Equal(t, []byte("\x00\xff"), job.Args)
		require.Equal(t, "default", job.Queue)
		require.JSONEq(t, `{"schedule": "a", "tick": "2026-03-01T13:00:00Z"}`, job.Metadata.String)
		started := b.turn(t, store.TurnRequest{Claim: 1, Admit: &admission{
			asks: []store.Ask{{Line: store.Line{Task: "report", Queue: "default"}, Max: 1}}, decide: startAll,
		}}).Started
		b.turn(t, store.TurnRequest{Results: []store.Result{end(started[0], store.Done)}})
		b.exec(t, `update weir_schedules set next_tick = next_tick - 3600000000`)
		again := fire()
		require.Equal(t, store.Inserted{UID: first.UID, Existed: true}, again)
		b.requireOnce(t, first.UID)
	})
}

func TestTheJobOfATickIsNamedByIt(t *testing.T) {
	t.Parallel()
	row := store.Schedule{Name: "nightly", Anchor: 7}
	row.SetJob(store.NewJob{Task: "report", Metadata: `{"tick": "mine", "a": 1}`, UniqueKey: "k", Priority: -3, Delay: 5, ExpiresIn: 6, Timeout: 8})
	at := time.Date(2026, 3, 1, 3, 0, 0, 7000, time.UTC)
	job, err := row.TickJob(at.UnixMicro())
	require.NoError(t, err)
	require.JSONEq(t, `{"schedule": "nightly", "tick": "mine", "a": 1}`, job.Metadata)
	id := uuid.MustParse(job.UID)
	require.EqualValues(t, 7, id.Version())
	require.Equal(t, uuid.RFC4122, id.Variant())
	seconds, nanos := id.Time().UnixTime()
	require.Equal(t, at.Truncate(time.Millisecond), time.Unix(seconds, nanos).UTC().Truncate(time.Millisecond))
	require.Equal(t, store.NewJob{
		UID: job.UID, Task: "report", Metadata: job.Metadata, UniqueKey: "k", Priority: -3, Delay: 5, ExpiresIn: 6, Timeout: 8, Repeat: true,
	}, job)

	ids := map[string]bool{job.UID: true}
	for _, other := range []struct {
		row  store.Schedule
		tick int64
	}{
		{store.Schedule{Name: "nightly", Anchor: 7, Job: row.Job}, at.UnixMicro() + 1},
		{store.Schedule{Name: "nightly", Anchor: 8, Job: row.Job}, at.UnixMicro()},
		{store.Schedule{Name: "nightly 7", Job: row.Job}, at.UnixMicro()},
	} {
		job, err := other.row.TickJob(other.tick)
		require.NoError(t, err)
		require.False(t, ids[job.UID])
		ids[job.UID] = true
	}

	_, err = (&store.Schedule{Name: "x", Job: "{"}).TickJob(1)
	require.ErrorContains(t, err, `schedule "x": its job cannot be read`)
}
