package store_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// pragma sets something of the writer's connection.
func (b *bundle) pragma(t testing.TB, name string, value int64) {
	t.Helper()
	_, err := b.WriterForTest().ExecContext(t.Context(), `pragma `+name+` = `+strconv.FormatInt(value, 10))
	require.NoError(t, err)
}

// What cannot be written is refused with the mend, changes nothing, and is
// written when it can be, without opening the file anew.
func TestAFileThatCannotBeWrittenToIsWrittenToAfterwards(t *testing.T) {
	for name, c := range map[string]struct {
		spoil, mend func(*testing.T, *bundle)
		says        string
	}{
		"the disk is full": {
			spoil: func(t *testing.T, b *bundle) { b.pragma(t, "max_page_count", b.count(t, `pragma page_count`)) },
			mend:  func(t *testing.T, b *bundle) { b.pragma(t, "max_page_count", 1<<30) },
			says:  "make room on the disk of ",
		},
		"it is read-only": {
			spoil: func(t *testing.T, b *bundle) { b.pragma(t, "query_only", 1) },
			mend:  func(t *testing.T, b *bundle) { b.pragma(t, "query_only", 0) },
			says:  "let this process write to ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, storetest.SQLite(t))
			held := b.running(t, 1, newJob("a"))
			large := newJob("a")
			large.Args = make([]byte, 1<<20)
			c.spoil(t, b)

			_, err := b.Insert(t.Context(), []store.NewJob{newJob("a"), large})
			require.ErrorContains(t, err, c.says)
			_, err = b.InsertOne(t.Context(), large)
			require.ErrorContains(t, err, c.says)
			require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))

			c.mend(t, b)
			b.insert(t, large)
			b.turn(t, store.TurnRequest{Results: []store.Result{end(held, store.Done)}})
			require.EqualValues(t, 1, b.count(t, `select count(*) from weir_history`))
			b.requireOnce(t, held.UID)
		})
	}
}
