package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// quotas declares limits of ten a minute.
func (b *bundle) quotas(t testing.TB, names ...string) {
	t.Helper()
	var list []store.DeclaredQuota
	for _, name := range names {
		list = append(list, store.DeclaredQuota{Name: name, Quota: bucket.Quota{Count: 10, Period: time.Minute}, Tasks: []string{"a"}})
	}
	require.NoError(t, b.DeclareQuotas(t.Context(), list))
}

// window is a limit's row, which must be there.
func (b *bundle) window(t testing.TB, name string) store.Window {
	t.Helper()
	rows, err := b.Windows(t.Context(), []string{name})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	return rows[0]
}

func TestOneReadShowsTheWindowsOfAllLimitsAndTheClock(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.quotas(t, "Stripe", "stripe", "é")
		rows, err := b.Windows(t.Context(), []string{"stripe", "gone", "é", "Stripe"})
		require.NoError(t, err)
		require.ElementsMatch(t, []store.Window{{Name: "Stripe", Now: b.now()}, {Name: "stripe", Now: b.now()}, {Name: "é", Now: b.now()}}, rows,
			"names are told apart by their bytes, and a row that is gone is missing")
		rows, err = b.Windows(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, rows)
	})
}

// counts counts a start in a window, in the background: what landed comes then.
func (b *bundle) counts(t *testing.T) <-chan []string {
	t.Helper()
	done := make(chan []string, 1)
	go func() {
		landed, err := b.CountWindows(t.Context(), []store.WindowID{{Name: "l"}})
		if err != nil {
			t.Error(err)
		}
		done <- landed
	}()
	return done
}

// roll opens the windows after these.
func (b *bundle) roll(t *testing.T, skip bool, windows ...store.WindowID) []store.RolledWindow {
	t.Helper()
	rolled, err := b.RollWindows(t.Context(), windows, skip)
	require.NoError(t, err)
	return rolled
}

func TestDeclaringKeepsTheWindowAndStoresWhatWasDeclaredLast(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.quotas(t, "l")
		require.Len(t, b.roll(t, false, store.WindowID{Name: "l"}), 1)
		for range 3 {
			_, err := b.CountWindows(t.Context(), []store.WindowID{{Name: "l", ID: 1}})
			require.NoError(t, err)
		}
		again := store.DeclaredQuota{Name: "l", Quota: bucket.Quota{Count: 0, Period: 1500 * time.Millisecond}, Queues: []string{"q"}}
		for range 2 {
			require.NoError(t, b.DeclareQuotas(t.Context(), []store.DeclaredQuota{again}))
		}
		list, err := b.Quotas(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		declared, err := list[0].Declared()
		require.NoError(t, err)
		require.Equal(t, again.Quota, declared)
		require.JSONEq(t, `{"queues":["q"]}`, list[0].Covers)
		require.EqualValues(t, 3, list[0].Started)
		require.Equal(t, bucket.Window{ID: 1, From: b.now(), Count: 3}, list[0].State())
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_limits`), "one row a limit, for ever")
	})
}

func TestOfAnyNumberThatReadAWindowOneOpensTheNext(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.quotas(t, "l", "m")
		b.clock.Advance(time.Second)
		var wg sync.WaitGroup
		wins := make([]bool, 8)
		for i := range wins {
			wg.Go(func() {
				rolled, err := b.RollWindows(t.Context(), []store.WindowID{{Name: "l"}}, false)
				if err != nil {
					t.Error(err)
				}
				wins[i] = len(rolled) == 1
			})
		}
		wg.Wait()
		won := 0
		for _, w := range wins {
			if w {
				won++
			}
		}
		require.Equal(t, 1, won)
		require.Equal(t, bucket.Window{ID: 1, From: b.now()}, new(b.window(t, "l")).State())
		require.Zero(t, b.window(t, "m").ID, "another limit's window is its own")

		b.clock.Advance(time.Second)
		require.ElementsMatch(t, []store.RolledWindow{{Name: "l", From: b.now()}, {Name: "m", From: b.now()}},
			b.roll(t, false, store.WindowID{Name: "m"}, store.WindowID{Name: "gone"}, store.WindowID{Name: "l", ID: 1}))
		require.Empty(t, b.roll(t, false, store.WindowID{Name: "l", ID: 1}))
	})
}

func TestACountLandsInTheGenerationThatWasReadAndNowhereElse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.quotas(t, "l", "m", "n")
		for range 2 {
			require.Len(t, b.roll(t, false, store.WindowID{Name: "m", ID: b.window(t, "m").ID}), 1)
		}
		b.exec(t, `update weir_limits set window_count = 500 where name = 'l'`)
		b.exec(t, `update weir_limits set window_count = -3 where name = 'n'`)
		landed, err := b.CountWindows(t.Context(), []store.WindowID{{Name: "l"}, {Name: "m", ID: 1}, {Name: "n"}, {Name: "gone"}})
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"l", "n"}, landed, "however much was counted, nothing refuses")
		require.EqualValues(t, 501, b.window(t, "l").Count)
		require.Zero(t, b.window(t, "m").Count)
		require.EqualValues(t, 1, b.window(t, "n").Count, "a damaged count is none")

		for name, there := range map[string]bool{"l": true, "m": false, "gone": false} {
			ok, err := b.ProbeWindow(t.Context(), store.WindowID{Name: name})
			require.NoError(t, err)
			require.Equal(t, there, ok, "a probe lands where a count would: %s", name)
		}
		require.EqualValues(t, 501, b.window(t, "l").Count, "and counts nothing")
	})
}

func TestProcessesThatCountUnderTheSameLimitsDoNotBlockEachOther(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.quotas(t, "l", "m")
		both := []store.WindowID{{Name: "l"}, {Name: "m"}}
		other := []store.WindowID{{Name: "m"}, {Name: "l"}}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for range 20 {
					set := both
					if i%2 == 0 {
						set = other
					}
					if landed, err := b.CountWindows(t.Context(), set); err != nil || len(landed) != 2 {
						t.Errorf("%v, %v", landed, err)
					}
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 160, b.window(t, "l").Count)
		require.EqualValues(t, 160, b.window(t, "m").Count)
	})
}

// The count waits for a row that is being rolled, and then finds another
// generation.
func TestACountThatWaitsForARollMatchesNoRow(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	b.quotas(t, "l")
	release := b.inside(t, `update weir_limits set window_id = 1`)
	done := b.counts(t)
	b.blocked(t, 1)
	release()
	require.Empty(t, <-done)
	require.Zero(t, b.window(t, "l").Count)
}

// Processes that count have the row locked again and again: to pass over it at once
// would lose a good part of the counts.
func TestACountWaitsForAnotherCount(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	b.quotas(t, "l")
	release := b.inside(t, `update weir_limits set window_count = window_count + 1`)
	done := b.counts(t)
	b.blocked(t, 1)
	release()
	require.Equal(t, []string{"l"}, <-done)
}

// Nobody waits for long for a row that another session keeps locked, once it is known
// that one does.
func TestALockedWindowIsPassedOver(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	b.quotas(t, "l", "m")
	release := b.inside(t, `update weir_limits set paused = paused where name = 'l'`)
	landed, err := b.CountWindows(t.Context(), []store.WindowID{{Name: "l"}, {Name: "m"}})
	require.NoError(t, err)
	require.Equal(t, []string{"m"}, landed)
	require.Empty(t, b.roll(t, true, store.WindowID{Name: "l"}))
	there, err := b.ProbeWindow(t.Context(), store.WindowID{Name: "l"})
	require.NoError(t, err)
	require.False(t, there)
	w := &windowed{}
	b.turn(t, store.TurnRequest{Windows: []string{"l", "m"}, Admit: w, SkipLocked: true})
	require.Equal(t, []store.Window{{Name: "l", Busy: true}, {Name: "m", Count: 1, Now: b.now()}}, w.locked.Windows)

	release()
	require.Len(t, b.roll(t, true, store.WindowID{Name: "l"}), 1)
	landed, err = b.CountWindows(t.Context(), []store.WindowID{{Name: "l", ID: 1}})
	require.NoError(t, err)
	require.Equal(t, []string{"l"}, landed)
}

func TestExactLimitsAreLockedAndSavedWithTheClaim(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.quotas(t, "l", "m")
		b.insert(t, newJob("a"))
		w := &windowed{save: []store.SavedWindow{{Name: "l", ID: 1, From: 7, Count: 5, Started: 1}}}
		w.admission = admission{asks: []store.Ask{ask("a", 1)}, decide: startAll}
		out := b.turn(t, store.TurnRequest{Claim: 1, Windows: []string{"l", "m"}, Admit: w})
		require.Len(t, out.Started, 1)
		require.Equal(t, b.now(), w.now)
		require.Equal(t, []store.Window{{Name: "l", Now: b.now()}, {Name: "m", Now: b.now()}}, w.locked.Windows)
		require.Equal(t, bucket.Window{ID: 1, From: 7, Count: 5}, new(b.window(t, "l")).State())
		require.EqualValues(t, 1, b.count(t, `select started from weir_limits where name = 'l'`))

		b.insert(t, newJob("a"))
		w.save = append(w.save, store.SavedWindow{Name: "gone"})
		_, err := b.Turn(t.Context(), store.TurnRequest{Claim: 2, Windows: []string{"l"}, Admit: w, Lease: lease})
		require.ErrorContains(t, err, "turn: count in exact limits: 1 of 2 rows were there")
		_, err = b.Turn(t.Context(), store.TurnRequest{Claim: 2, Windows: []string{"gone", "l"}, Admit: w, Lease: lease})
		require.ErrorContains(t, err, "turn: lock exact limits: 1 of 2 rows are there")
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs where state = 0`), "what could not be counted was not started")
	})
}

// windowed notes what a turn holds, and saves windows.
type windowed struct {
	admission
	locked store.Locked
	save   []store.SavedWindow
}

func (w *windowed) Ask(now int64, locked store.Locked) []store.Ask {
	w.locked = locked
	return w.admission.Ask(now, locked)
}

func (w *windowed) Decide(read [][]store.Candidate) store.Plan {
	p := w.admission.Decide(read)
	p.SaveWindows = w.save
	return p
}
