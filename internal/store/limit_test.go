package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func declared(t testing.TB, name, rate string) store.Declared {
	t.Helper()
	l, err := bucket.NewLimit(rate, 0)
	require.NoError(t, err)
	return store.Declared{Name: name, Limit: l, Tasks: []string{"a"}}
}

func (b *bundle) limit(t testing.TB, name string) store.Limit {
	t.Helper()
	rows, err := b.Limits(t.Context())
	require.NoError(t, err)
	for _, l := range rows {
		if l.Name == name {
			return l
		}
	}
	require.Fail(t, "no such limit", name)
	return store.Limit{}
}

func TestANewLimitStartsFullAndAnOldOneKeepsWhatItHas(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		d := declared(t, "task:a", "1.5/15m")
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{d}))
		want := store.Limit{
			Name: "task:a", RateCount: 1_500_000, RatePeriod: 900 * second, Level: 1_500_000, Stamp: b.now(), Covers: `{"tasks":["a"]}`,
		}
		require.Equal(t, want, b.limit(t, "task:a"))
		full, err := (&want).Bucket()
		require.NoError(t, err)
		require.Equal(t, bucket.Full(d.Limit, b.now()), full)

		taken, ok := full.Take(1)
		require.True(t, ok)
		b.turn(t, store.TurnRequest{Limits: []store.Declared{d}, Admit: &saving{change: func(l *store.Limit) {
			l.SetBucket(taken)
			l.HeldFrom, l.HeldUntil, l.DeferredAt, l.Started, l.Deferred, l.Shed = 1, 2, 3, 4, 5, 1<<53+1
		}}})
		want.Level, want.HeldFrom, want.HeldUntil, want.DeferredAt = 500_000, 1, 2, 3
		want.Started, want.Deferred, want.Shed = 4, 5, 1<<53+1
		require.Equal(t, want, b.limit(t, "task:a"))

		// Another rate reaches it at a look; what it covers, at once.
		again := declared(t, "task:a", "9/s")
		again.Limit.Burst, again.Queues = 3, []string{"q"}
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{again}))
		want.Covers = `{"tasks":["a"],"queues":["q"]}`
		require.Equal(t, want, b.limit(t, "task:a"))
	})
}

// saving changes the first limit and writes it back.
type saving struct {
	admission
	change func(*store.Limit)
}

func (s *saving) Decide([][]store.Candidate) store.Plan {
	changed := s.limits[0]
	s.change(&changed)
	return store.Plan{Save: []store.Limit{changed}}
}

func TestTheLargestNumbersOfALimitSurviveASave(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		d := declared(t, "task:a", "1/s")
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{d}))
		const most = 1<<63 - 1
		b.turn(t, store.TurnRequest{Limits: []store.Declared{d}, Admit: &saving{change: func(l *store.Limit) {
			*l = store.Limit{
				Name: l.Name, RateCount: most, RatePeriod: most, Burst: most, Level: -most - 1, Remainder: most, Stamp: -most - 1,
				HeldFrom: most, HeldUntil: most, DeferredAt: most, Started: most, Deferred: most, Shed: most, Covers: "not saved",
			}
		}}})
		require.Equal(t, store.Limit{
			Name: "task:a", RateCount: most, RatePeriod: most, Burst: most, Level: -most - 1, Remainder: most, Stamp: -most - 1,
			HeldFrom: most, HeldUntil: most, DeferredAt: most, Started: most, Deferred: most, Shed: most, Covers: `{"tasks":["a"]}`,
		}, b.limit(t, "task:a"))
	})
}

func TestASaveLeavesAnOperatorsWordAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		d := declared(t, "task:a", "1/s")
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{d}))
		b.exec(t, `update weir_limits set paused = true, override_rate = '5/m', override_burst = 6, override_until = 7, override_reason = 'sale'`)
		b.turn(t, store.TurnRequest{Limits: []store.Declared{d}, Admit: &saving{change: func(l *store.Limit) {
			require.True(t, l.Paused)
			l.Paused, l.Rate, l.OverBurst, l.Started = false, text(""), noNumber, 1
		}}})
		require.NoError(t, b.Register(t.Context(), nil, []store.Declared{d}))
		got := b.limit(t, "task:a")
		require.EqualValues(t, 1, got.Started)
		require.True(t, got.Paused)
		require.Equal(t, []any{text("5/m"), number(6), number(7), text("sale")}, []any{got.Rate, got.OverBurst, got.OverUntil, got.OverReason})
	})
}

func TestLimitsAreLockedAndHandedOverByName(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		names := []string{"A", "Z", "a", "stripe", "task:a", "task:é", "task:\U0001F600"}
		var declares []store.Declared
		for _, name := range names {
			declares = append(declares, declared(t, name, "1/s"))
		}
		require.NoError(t, b.Register(t.Context(), nil, append(declares[3:], declares[:3]...)))
		a := &admission{}
		b.turn(t, store.TurnRequest{Limits: declares, Admit: a})
		var got []string
		for _, l := range a.limits {
			got = append(got, l.Name)
		}
		require.Equal(t, names, got)
		a = &admission{}
		b.turn(t, store.TurnRequest{Limits: declares[1:2], Admit: a})
		require.Equal(t, "Z", a.limits[0].Name)
		require.Len(t, a.limits, 1)
	})
}

func TestALimitWhoseRowIsGoneIsMadeAnewAndFull(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		d := []store.Declared{declared(t, "one", "10/m"), declared(t, "two", "20/m")}
		require.NoError(t, b.Register(t.Context(), nil, d))
		b.exec(t, `update weir_limits set level = 0`)
		b.exec(t, `delete from weir_limits where name = 'two'`)
		a := &admission{}
		b.turn(t, store.TurnRequest{Limits: d, Admit: a})
		require.Len(t, a.limits, 2)
		require.Zero(t, a.limits[0].Level)
		require.EqualValues(t, 20_000_000, a.limits[1].Level)
		require.Equal(t, b.now(), a.limits[1].Stamp)
		require.Equal(t, a.limits[1], b.limit(t, "two"))
	})
}

func TestALimitThatCannotBeSavedIsAnErrorAndStartsNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		d := declared(t, "task:a", "1/s")
		job := newJob("a")
		b.insert(t, job)
		_, err := b.Turn(t.Context(), store.TurnRequest{
			Claim: 1, Lease: lease, Limits: []store.Declared{d},
			Admit: &admission{asks: []store.Ask{ask("a", 1)}, decide: func(read [][]store.Candidate) store.Plan {
				return store.Plan{Start: ids(read[0]), Save: []store.Limit{{Name: "task:a"}, {Name: "gone"}}}
			}},
		})
		require.ErrorContains(t, err, "turn: save limits: 1 of 2 rows were there")
		require.Equal(t, store.Waiting, b.stored(t, job.UID).State)
		require.Zero(t, b.count(t, `select count(*) from weir_limits`))
	})
}

func TestADamagedRowIsReadAsTheNearestPossibleBucket(t *testing.T) {
	damaged := store.Limit{Name: "task:a", RateCount: 10_000_000, RatePeriod: 60 * second, Level: -5, Remainder: -1, Stamp: 3}
	b, err := damaged.Bucket()
	require.NoError(t, err)
	require.Equal(t, bucket.Bucket{Limit: limit(t, "10/m"), Stamp: 3}, b)
	damaged.RatePeriod = 0
	_, err = damaged.Bucket()
	require.ErrorContains(t, err, `its row holds no possible rate: `)
}

// Two processes that start together, or one that starts beside looks, must not
// wait for each other's rows crosswise.
func TestRowsAreMadeInTheOrderInWhichTheyAreLocked(t *testing.T) {
	db := storetest.Postgres(t) // new pages: rows stand in the order in which they came
	b := &bundle{Store: db.Open(t, store.Options{}), db: db, beside: db.SQL(t)}
	inOrder := []string{"Zed", "alpha", "task:B", "task:a"}
	var tasks []store.Task
	var limits []store.Declared
	for _, i := range []int{2, 3, 1, 0} {
		tasks = append(tasks, store.Task{Name: inOrder[i], Queue: "q", Definition: "{}"})
		limits = append(limits, declared(t, inOrder[i], "1/s"))
	}
	require.NoError(t, b.Register(t.Context(), tasks, limits))
	b.turn(t, store.TurnRequest{Gates: inOrder, Admit: &gated{}})
	for _, table := range []string{"weir_tasks", "weir_limits", "weir_gates"} {
		var names string
		require.NoError(t, b.beside.QueryRowContext(t.Context(), `select string_agg(name, ' ' order by ctid) from `+table).Scan(&names))
		require.Equal(t, strings.Join(inOrder, " "), names, table)
	}
}
