package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestAProcessIsShownAsItLastSaidOfItself(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		p := process("1")
		p.Slots = 100
		began := b.now()
		require.NoError(t, b.Join(t.Context(), p, store.TokenBucket, lease))
		b.clock.Advance(time.Second)
		p.Running, p.Spell = 7, store.Spell{Error: "disk full: é\n", From: 1, Until: 2}
		stayed, err := b.Stay(t.Context(), p, lease)
		require.NoError(t, err)
		require.True(t, stayed)

		shown, err := b.Processes(t.Context())
		require.NoError(t, err)
		p.StartedAt, p.SeenAt, p.LiveUntil, p.Now = began, b.now(), b.now()+lease.Microseconds(), b.now()
		require.Equal(t, []store.Process{p}, shown)

		p.Running, p.Spell = 0, store.Spell{}
		require.NoError(t, b.Join(t.Context(), p, store.TokenBucket, lease), "it may join again")
		shown, err = b.Processes(t.Context())
		require.NoError(t, err)
		require.Equal(t, []store.Process{p}, shown)
	})
}

// Whoever was away for longer than it counted as live has to join anew: the
// strategy may be another one by now.
func TestAProcessThatNoLongerCountedAsLiveHasNotStayed(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Join(t.Context(), process("1"), store.TokenBucket, lease))
		b.clock.Advance(lease - time.Microsecond)
		stayed, err := b.Stay(t.Context(), process("1"), lease)
		require.NoError(t, err)
		require.True(t, stayed)
		b.clock.Advance(lease)
		shown, err := b.Processes(t.Context())
		require.NoError(t, err)
		require.Empty(t, shown)
		for _, id := range []string{"1", "never seen"} {
			stayed, err = b.Stay(t.Context(), process(id), lease)
			require.NoError(t, err)
			require.False(t, stayed, id)
		}
	})
}

func TestASignOfLifeIsOneStatement(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b, watch := setup(t, db), &watcher{}
		s := b.db.Open(t, store.Options{Clock: b.clock, Wrap: watch.wrap})
		require.NoError(t, s.Join(t.Context(), process("1"), store.TokenBucket, lease))
		watch.reset()
		stayed, err := s.Stay(t.Context(), process("1"), lease)
		require.NoError(t, err)
		require.True(t, stayed)
		var words []string
		for _, seen := range watch.all() {
			words = append(words, strings.Fields(seen.text)[0])
		}
		want := []string{"update"}
		if db.Dialect == store.SQLite {
			want = []string{"begin", "pragma", "update", "commit"} // none of which leaves this process
		}
		require.Equal(t, want, words)
	})
}

// A connection that broke, or a server that is the primary no longer, is no reason
// for a process not to be seen.
func TestASignOfLifeThatFailsIsGivenOnceMore(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b, faults := setup(t, db), &storetest.Faults{}
		s := b.db.Open(t, store.Options{Clock: b.clock, Wrap: faults.Wrap})
		require.NoError(t, s.Join(t.Context(), process("1"), store.TokenBucket, lease))
		faults.Fail(`^update \S*weir_processes`, 1)
		stayed, err := s.Stay(t.Context(), process("1"), lease)
		if db.Dialect == store.SQLite {
			require.ErrorIs(t, err, storetest.ErrInjected)
			return
		}
		require.NoError(t, err)
		require.True(t, stayed)
	})
}

func TestWhoEndedWithoutAWordIsForgotten(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := setup(t, db)
		require.NoError(t, b.Join(t.Context(), process("gone"), store.TokenBucket, lease))
		b.clock.Advance(lease / 2)
		require.NoError(t, b.Join(t.Context(), process("live"), store.TokenBucket, lease))
		b.clock.Advance(lease / 2)
		require.NoError(t, b.ForgetGone(t.Context()))
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_processes`))
		require.EqualValues(t, 1, b.count(t, `select count(*) from weir_processes where id = 'live'`))
	})
}
