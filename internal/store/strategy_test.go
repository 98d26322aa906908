package store_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func process(id string) store.Process { return store.Process{ID: id, Host: "web-" + id, PID: 7} }

func TestTheFirstProcessThatRunsJobsGivesTheDatabaseItsStrategy(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		b.insert(t, newJob("a"))
		stored, err := b.Strategy(t.Context())
		require.NoError(t, err)
		require.Empty(t, stored, "neither the schema nor an enqueue stores one")

		require.NoError(t, b.Join(t.Context(), process("1"), store.FixedWindow, lease))
		require.NoError(t, b.Join(t.Context(), process("2"), store.FixedWindow, lease))
		err = b.Join(t.Context(), process("3"), store.TokenBucket, lease)
		require.ErrorIs(t, err, store.ErrStrategy)
		require.ErrorContains(t, err, "its jobs run under fixed_window, and this process comes with token_bucket: change its strategy, or stop all processes and run `weir migrate strategy token_bucket`")
		require.EqualValues(t, 2, b.count(t, `select count(*) from weir_processes`))
		stored, err = b.Strategy(t.Context())
		require.NoError(t, err)
		require.Equal(t, store.FixedWindow, stored)
	})
}

func TestOfTwoThatComeFirstWithTwoStrategiesOneIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = b.Join(t.Context(), process(newID()), []string{store.TokenBucket, store.FixedWindow}[i%2], lease)
			})
		}
		wg.Wait()
		stored, err := b.Strategy(t.Context())
		require.NoError(t, err)
		for i, err := range errs {
			if (i%2 == 0) == (stored == store.TokenBucket) {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, store.ErrStrategy)
			}
		}
	})
}

func TestTheStrategyIsSwitchedOnlyWhenNoProcessIsLive(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Join(t.Context(), process("1"), store.TokenBucket, lease))
		require.NoError(t, b.Join(t.Context(), process("2"), store.TokenBucket, lease))
		b.quotas(t, "l", "m")
		found, err := b.SetOverride(t.Context(), "l", store.Override{Rate: "5/s"})
		require.NoError(t, err)
		require.True(t, found)

		_, err = b.SwitchStrategy(t.Context(), store.FixedWindow)
		require.ErrorIs(t, err, store.ErrLive)
		require.ErrorContains(t, err, "web-1 (process 7), web-2 (process 7): stop them; one that was killed counts for another 30s at most")
		out, err := b.SwitchStrategy(t.Context(), store.TokenBucket)
		require.NoError(t, err, "there is nothing to switch")
		require.Equal(t, store.Switched{From: store.TokenBucket}, out)

		require.NoError(t, b.Leave(t.Context(), "1"))
		b.clock.Advance(lease - time.Second)
		_, err = b.SwitchStrategy(t.Context(), store.FixedWindow)
		require.ErrorContains(t, err, "web-2 (process 7): stop them; one that was killed counts for another 1s at most")
		b.clock.Advance(time.Second)
		out, err = b.SwitchStrategy(t.Context(), store.FixedWindow)
		require.NoError(t, err)
		require.Equal(t, store.Switched{From: store.TokenBucket, Overrides: 1}, out)
		require.False(t, b.window(t, "l").Rate.Valid, "an override means something else now")

		require.ErrorIs(t, b.Join(t.Context(), process("2"), store.TokenBucket, lease), store.ErrStrategy, "one that was suspended meanwhile hears of it")
		require.NoError(t, b.Join(t.Context(), process("3"), store.FixedWindow, lease))
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_processes`), "those that are gone leave nothing behind")
	})
}

func TestASwitchStoresTheStrategyWhereThereIsNone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		out, err := b.SwitchStrategy(t.Context(), store.FixedWindow)
		require.NoError(t, err)
		require.Equal(t, store.Switched{}, out)
		require.ErrorIs(t, b.Join(t.Context(), process("1"), store.TokenBucket, lease), store.ErrStrategy)
	})
}

// A process that joins while the strategy is being switched waits, and is refused
// then: it cannot slip in between.
func TestAProcessThatJoinsDuringASwitchWaitsForIt(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	require.NoError(t, b.Join(t.Context(), process("1"), store.TokenBucket, lease))
	require.NoError(t, b.Leave(t.Context(), "1"))
	release := b.inside(t, `update weir_settings set value = 'fixed_window'`)
	done := make(chan error, 1)
	go func() { done <- b.Join(t.Context(), process("2"), store.TokenBucket, lease) }()
	b.blocked(t, 1)
	release()
	require.ErrorIs(t, <-done, store.ErrStrategy)
}

// A process says that it is live without a lock of the strategy, and may do so at
// the moment at which it would count as gone.
func TestASwitchWaitsForAProcessThatIsSayingThatItIsLive(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	require.NoError(t, b.Join(t.Context(), process("1"), store.TokenBucket, lease))
	b.clock.Advance(lease)
	release := b.inside(t, `update weir_processes set live_until = live_until + 30000000`)
	done := make(chan error, 1)
	go func() {
		_, err := b.SwitchStrategy(t.Context(), store.FixedWindow)
		done <- err
	}()
	b.blocked(t, 1)
	release()
	require.ErrorIs(t, <-done, store.ErrLive)
	stored, err := b.Strategy(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.TokenBucket, stored)
}

func TestAProcessThatSaysThatItIsLiveDuringASwitchHasToJoin(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	require.NoError(t, b.Join(t.Context(), process("1"), store.TokenBucket, lease))
	release := b.inside(t, `delete from weir_processes`) // as a switch does a moment later
	stayed := make(chan bool, 1)
	go func() {
		ok, err := b.Stay(t.Context(), process("1"), lease)
		stayed <- ok || err != nil
	}()
	b.blocked(t, 1)
	release()
	require.False(t, <-stayed)
}

func TestADatabaseThatRanJobsBeforeThereWereStrategiesRanThemUnderTokenBuckets(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := &bundle{db: db, beside: db.SQL(t)}
		for _, ran := range []bool{false, true} {
			m, err := store.OpenForMigration(t.Context(), db.DSN, true)
			require.NoError(t, err)
			require.NoError(t, m.MigrateUp(t.Context()))
			for b.count(t, `select max(version_id) from weir_migrations where is_applied`) > 1 {
				require.NoError(t, m.MigrateDown(t.Context()))
			}
			if ran {
				b.exec(t, `insert into weir_tasks (name, queue, max_retries, definition, registered_at) values ('a', 'q', 3, '', 1)`)
			}
			require.NoError(t, m.MigrateUp(t.Context()))
			stored, err := m.Strategy(t.Context())
			require.NoError(t, err)
			require.NoError(t, m.Close())
			if ran {
				require.Equal(t, store.TokenBucket, stored)
			} else {
				require.Empty(t, stored)
			}
		}
	})
}
