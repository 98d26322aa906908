package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// Somebody has left a transaction open that holds the row of a limit. Who starts
// meanwhile waits for it only where it has something to write.
func TestDeclaringWaitsForALockedLimitOnlyToChangeIt(t *testing.T) {
	for name, declare := range map[string]func(b *bundle, names []string, covers string) error{
		"token buckets": func(b *bundle, names []string, covers string) error {
			var limits []store.Declared
			for _, name := range names {
				d := declared(t, name, "1/s")
				d.Tasks = []string{covers}
				limits = append(limits, d)
			}
			return b.Register(t.Context(), []store.Task{{Name: "a", Queue: "q", Definition: "{}"}}, limits)
		},
		"fixed windows": func(b *bundle, names []string, covers string) error {
			var quotas []store.DeclaredQuota
			for _, name := range names {
				quotas = append(quotas, store.DeclaredQuota{Name: name, Quota: bucket.Quota{Count: 10, Period: time.Minute}, Tasks: []string{covers}})
			}
			return b.DeclareQuotas(t.Context(), quotas)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, storetest.Postgres(t))
			require.NoError(t, declare(b, []string{"l"}, "a"))
			release := b.inside(t, `update weir_limits set paused = paused`)
			require.NoError(t, declare(b, []string{"l", "new"}, "a"))
			err := declare(b, []string{"l"}, "b")
			require.ErrorIs(t, err, store.ErrLocked)
			require.ErrorContains(t, err, "find that session in pg_stat_activity, end its transaction, and start again")
			release()
			require.NoError(t, declare(b, []string{"l"}, "b"))
			require.EqualValues(t, 1, b.count(t, `select count(*) from weir_limits where covers = '{"tasks":["b"]}'`))
		})
	}
}
