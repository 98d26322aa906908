package queue_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestQueuesAreListedWithWhatIsInThem(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		queues, err := b.Queues(t.Context())
		require.NoError(t, err)
		require.Empty(t, queues)
		require.NotNil(t, queues)

		b.inEveryState(t)
		require.NoError(t, b.Store().Register(t.Context(), []store.Task{{Name: "a", Queue: "idle", Definition: "{}"}}, nil))
		b.clock.Advance(time.Minute)
		_, err = b.EnqueueMany(t.Context(), []queue.NewJob{{Task: "t-waiting", Queue: "q", Priority: 100}, {Task: "z", Queue: "r"}})
		require.NoError(t, err)
		queues, err = b.Queues(t.Context())
		require.NoError(t, err)
		require.Equal(t, []queue.QueueInfo{
			{Name: "idle"},
			{Name: "q", Waiting: 2, Scheduled: 1, Running: 1, OldestWaitingAt: start},
			{Name: "r", Waiting: 1, OldestWaitingAt: start.Add(time.Minute)},
		}, queues)
		require.JSONEq(t, `{"name":"q","waiting":2,"scheduled":1,"running":1,"oldest_waiting_at":"2030-01-02T03:04:05.000000Z","paused":false}`, jsonText(t, queues[1]))
	})
}

func TestAPausedQueueIsShownAsSuchWithOrWithoutJobs(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Queue: "full"})
		require.NoError(t, err)
		paused := func() map[string]bool {
			queues, err := b.Queues(t.Context())
			require.NoError(t, err)
			out := map[string]bool{}
			for _, q := range queues {
				out[q.Name] = q.Paused
			}
			return out
		}
		require.NoError(t, b.PauseQueue(t.Context(), "full"))
		require.NoError(t, b.PauseQueue(t.Context(), "empty"))
		require.Equal(t, map[string]bool{"full": true, "empty": true}, paused())
		require.NoError(t, b.ResumeQueue(t.Context(), "full"))
		require.NoError(t, b.ResumeQueue(t.Context(), "full"), "again")
		require.Equal(t, map[string]bool{"full": false, "empty": true}, paused())
		require.ErrorIs(t, b.PauseQueue(t.Context(), ""), queue.ErrInvalid)
	})
}

func TestTasksAreListedAsTheyWereLastRegistered(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		register := func(definition string) {
			require.NoError(t, b.Store().Register(t.Context(), []store.Task{{Name: "a", Queue: "q", MaxRetries: 2, Definition: definition}}, nil))
		}
		register(`{"rate_limit":"1/s"}`)
		b.clock.Advance(time.Second)
		register(`{"rate_limit":"2/s"}`)
		tasks, err := b.Tasks(t.Context())
		require.NoError(t, err)
		require.JSONEq(t, `[{"name":"a","queue":"q","max_retries":2,"definition":{"rate_limit":"2/s"},"waiting":0,"registered_at":"2030-01-02T03:04:06.000000Z"}]`, jsonText(t, tasks))
	})
}

// Jobs of a task that no process has a handler for wait, and show.
func TestATaskThatNobodyRegisteredIsListedWhileJobsWaitForIt(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		require.NoError(t, b.Store().Register(t.Context(), []store.Task{{Name: "b", Queue: "q", Definition: "{}"}}, nil))
		_, err := b.EnqueueMany(t.Context(), []queue.NewJob{
			{Task: "a"}, {Task: "a", Queue: "r"}, {Task: "b"}, {Task: "é"}, {Task: "later", Delay: time.Hour},
		})
		require.NoError(t, err)
		tasks, err := b.Tasks(t.Context())
		require.NoError(t, err)
		require.Equal(t, []queue.TaskInfo{
			{Name: "a", Queue: "default", MaxRetries: 3, Waiting: 2},
			{Name: "b", Queue: "q", Definition: json.RawMessage("{}"), Waiting: 1, RegisteredAt: start},
			{Name: "é", Queue: "default", MaxRetries: 3, Waiting: 1},
		}, tasks)
		require.JSONEq(t, `{"name":"a","queue":"default","max_retries":3,"definition":null,"waiting":2,"registered_at":null}`, jsonText(t, tasks[0]))
	})
}

// A backlog is not walked to its end, and one queue's does not hide another's
// jobs.
func TestCountsOverTenThousandAreCappedAndOthersExact(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.declare(t, "task:a", "1/m", 0, "a")
		b.declare(t, "task:b", "1/m", 0, "b")
		jobs := slices.Repeat([]queue.NewJob{{Task: "a", Queue: "long"}}, 10_000)
		_, err := b.EnqueueMany(t.Context(), append(jobs, queue.NewJob{Task: "b", Queue: "short"}))
		require.NoError(t, err)
		waiting := func() (queues []queue.QueueInfo, limits []queue.LimitInfo) {
			queues, err := b.Queues(t.Context())
			require.NoError(t, err)
			limits, err = b.Limits(t.Context())
			require.NoError(t, err)
			return queues, limits
		}
		queues, limits := waiting()
		require.EqualValues(t, 10_000, queues[0].Waiting)
		require.False(t, queues[0].WaitingCapped)
		require.EqualValues(t, 10_000, limits[0].Waiting)
		require.False(t, limits[0].WaitingCapped)

		_, err = b.EnqueueMany(t.Context(), []queue.NewJob{{Task: "a", Queue: "long"}, {Task: "c", Queue: "short"}})
		require.NoError(t, err)
		queues, limits = waiting()
		require.EqualValues(t, 10_000, queues[0].Waiting)
		require.True(t, queues[0].WaitingCapped)
		require.EqualValues(t, 2, queues[1].Waiting)
		require.False(t, queues[1].WaitingCapped)
		require.Contains(t, jsonText(t, limits[0]), `"waiting":10000,"waiting_capped":true,`)
		require.EqualValues(t, 1, limits[1].Waiting)
		require.False(t, limits[1].WaitingCapped)
	})
}

func TestALimitIsShownWithTheTokensItHasNow(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.declare(t, "task:a", "6/m", 0, "a")
		b.declare(t, "stripe", "1.5/s", 20, "b")
		limits, err := b.Limits(t.Context())
		require.NoError(t, err)
		require.JSONEq(t, `[`+
			`{"name":"stripe","rate":"1.5/s","burst":20,"strategy":"token_bucket","source":"declared","level":20,"capacity":20,"held_until":null,`+
			`"next_token_at":null,"waiting":0,"deferred":0,"shed":0,"started":0,"paused":false},`+
			`{"name":"task:a","rate":"6/m","burst":null,"strategy":"token_bucket","source":"declared","level":6,"capacity":6,"held_until":null,`+
			`"next_token_at":null,"waiting":0,"deferred":0,"shed":0,"started":0,"paused":false}]`, jsonText(t, limits))
		require.Equal(t, []string{"b"}, limits[0].Tasks)

		b.change(t, "task:a", func(l *store.Limit) {
			bk, err := l.Bucket()
			require.NoError(t, err)
			bk, ok := bk.Take(6)
			require.True(t, ok)
			l.SetBucket(bk)
			l.HeldFrom, l.HeldUntil = start.UnixMicro(), start.Add(time.Second).UnixMicro()
			l.Started, l.Deferred, l.Shed = 6, 3, 1
		})
		_, err = b.EnqueueMany(t.Context(), []queue.NewJob{{Task: "a"}, {Task: "a", Queue: "q"}, {Task: "b"}, {Task: "a", Delay: time.Hour}})
		require.NoError(t, err)
		limit := func() *queue.LimitInfo {
			info, err := b.Limit(t.Context(), "task:a")
			require.NoError(t, err)
			return info
		}
		require.JSONEq(t, `{"name":"task:a","rate":"6/m","burst":null,"strategy":"token_bucket","source":"declared","level":0,"capacity":6,`+
			`"held_until":"2030-01-02T03:04:06.000000Z","next_token_at":"2030-01-02T03:04:15.000000Z","waiting":2,"deferred":3,"shed":1,"started":6,"paused":false}`,
			jsonText(t, limit()))

		b.clock.Advance(12500 * time.Millisecond)
		info := limit()
		require.InDelta(t, 1.25, info.Level, 0)
		require.Zero(t, info.HeldUntil)
		require.Equal(t, start.Add(20*time.Second), info.NextTokenAt)

		b.clock.Advance(-14 * time.Second)
		info = limit()
		require.Zero(t, info.Level, "a clock that stepped back earns nothing")
		require.Zero(t, info.HeldUntil, "and ends the hold")
	})
}

func TestAnOverrideBeatsTheDeclaredRateUntilItEnds(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.declare(t, "task:a", "100/m", 0, "a")
		_, err := b.db.SQL(t).ExecContext(t.Context(), `update weir_limits set override_rate = '10/m', override_burst = 4, override_until = $1, override_reason = 'calm'`,
			start.Add(time.Minute).UnixMicro())
		require.NoError(t, err)
		info, err := b.Limit(t.Context(), "task:a")
		require.NoError(t, err)
		require.Equal(t, "10/m", info.Rate)
		require.EqualValues(t, 4, *info.Burst)
		require.Equal(t, queue.SourceOverride, info.Source)
		require.InDelta(t, 4.0, info.Level, 0, "cut to its capacity")
		require.Equal(t, start.Add(time.Minute), info.OverrideUntil)
		require.Equal(t, "calm", info.OverrideReason)
		require.Contains(t, jsonText(t, info), `"paused":false,"override_until":"2030-01-02T03:05:05.000000Z","override_reason":"calm"}`)

		b.clock.Advance(time.Minute)
		info, err = b.Limit(t.Context(), "task:a")
		require.NoError(t, err)
		require.Equal(t, "100/m", info.Rate)
		require.Equal(t, queue.SourceDeclared, info.Source)
	})
}

func TestAnOverrideOfOneOfAListOfRatesKeepsItsPeriod(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.declare(t, "task@m:a:b", "100/m", 0, "a:b")
		for _, rate := range []string{"50/s", "50/2m", "50/h"} {
			err := b.SetLimit(t.Context(), "task@m:a:b", queue.Override{Rate: rate})
			require.EqualError(t, err, `limit "task@m:a:b": rate "`+rate+`": one of a list of rates keeps its period: use a count per m, as in "100/m"`)
		}
		info, err := b.Limit(t.Context(), "task@m:a:b")
		require.NoError(t, err)
		require.Equal(t, queue.SourceDeclared, info.Source)
		require.NoError(t, b.SetLimit(t.Context(), "task@m:a:b", queue.Override{Rate: "50/60s", Burst: 5, For: 48 * time.Hour}))
		info, err = b.Limit(t.Context(), "task@m:a:b")
		require.NoError(t, err)
		require.Equal(t, "50/m", info.Rate)
		require.Equal(t, start.Add(48*time.Hour), info.OverrideUntil)
	})
}

func TestALimitThatNobodyDeclaredIsNotFound(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.Limit(t.Context(), "task:\x00")
		require.ErrorIs(t, err, queue.ErrNotFound)
		require.EqualError(t, err, `limit "task:\x00": not found: `+"`weir limits list` shows those that a scheduler has declared")
	})
}

// There may be thousands of limits, and lines of a million jobs.
func TestOneLimitIsReadWithoutTheOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		faults := &storetest.Faults{}
		b := &bundle{Client: queue.From(db.Open(t, store.Options{Wrap: faults.Wrap})), db: db}
		for _, task := range []string{"a", "b", "c"} {
			b.declare(t, "task:"+task, "1/s", 0, task)
			_, err := b.EnqueueMany(t.Context(), []queue.NewJob{{Task: task}, {Task: task, Queue: "q"}})
			require.NoError(t, err)
		}
		limits, err := bucket.NewLimit("1/s", 0)
		require.NoError(t, err)
		require.NoError(t, b.Store().Register(t.Context(), nil, []store.Declared{{Name: "queue:q", Limit: limits, Queues: []string{"q"}}}))
		rows, lines := faults.Count(`from \S*weir_limits`), faults.Count(`from lines`)
		info, err := b.Limit(t.Context(), "task:b")
		require.NoError(t, err)
		require.EqualValues(t, 2, info.Waiting)
		require.Equal(t, []int64{1, 2}, []int64{rows.Rows(), lines.Rows()})
		info, err = b.Limit(t.Context(), "queue:q")
		require.NoError(t, err)
		require.EqualValues(t, 3, info.Waiting)
		require.Equal(t, []int64{2, 5}, []int64{rows.Rows(), lines.Rows()})
	})
}

func (b *bundle) declare(t *testing.T, name, rate string, burst int64, tasks ...string) {
	t.Helper()
	limit, err := bucket.NewLimit(rate, burst)
	require.NoError(t, err)
	require.NoError(t, b.Store().Register(t.Context(), nil, []store.Declared{{Name: name, Limit: limit, Tasks: tasks}}))
}

// change writes a limit's row as a turn does.
func (b *bundle) change(t *testing.T, name string, do func(*store.Limit)) {
	t.Helper()
	rows, err := b.Store().Limits(t.Context())
	require.NoError(t, err)
	for _, row := range rows {
		if row.Name != name {
			continue
		}
		limit, err := row.Bucket()
		require.NoError(t, err)
		_, err = b.Store().Turn(t.Context(), store.TurnRequest{Limits: []store.Declared{{Name: name, Limit: limit.Limit}}, Admit: changing(do)})
		require.NoError(t, err)
		return
	}
	t.Fatalf("no limit %q", name)
}
