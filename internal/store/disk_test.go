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
		pragma      string
		spoil, mend int64
		says        string
	}{
		"the disk is full": {"max_page_count", 1, 1 << 30, "make room on the disk of "}, // no less than there are
		"it is read-only":  {"query_only", 1, 0, "let this process write to "},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, storetest.SQLite(t))
			held := b.running(t, 1, newJob("a"))
			large := newJob("a")
			large.Args = make([]byte, 1<<20)
			b.pragma(t, c.pragma, c.spoil)

			_, err := b.Insert(t.Context(), []store.NewJob{newJob("a"), large})
			require.ErrorContains(t, err, c.says)
			_, err = b.InsertOne(t.Context(), large)
			require.ErrorContains(t, err, c.says)
			require.EqualValues(t, 1, b.count(t, `select count(*) from weir_jobs`))

			b.pragma(t, c.pragma, c.mend)
			b.insert(t, large)
			b.turn(t, store.TurnRequest{Results: []store.Result{end(held, store.Done)}})
			require.EqualValues(t, 1, b.count(t, `select count(*) from weir_history`))
			b.requireOnce(t, held.UID)
		})
	}
}
