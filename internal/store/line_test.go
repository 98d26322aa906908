package store_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestTheWriterServesRenewalsFirstThenInOrderOfArrival(t *testing.T) {
	var line store.WriterLine
	require.True(t, line.Wait(nil, false))
	served := make(chan string)
	gone := make(chan struct{})
	for i, who := range []string{"one", "gone", "two", "renewal", "gone renewal", "second renewal"} {
		var done chan struct{}
		if strings.HasPrefix(who, "gone") {
			done = gone
		}
		go func() {
			if !line.Wait(done, i > 2) {
				served <- "went away"
				return
			}
			served <- who
			line.Leave()
		}()
		require.Eventually(t, func() bool { return line.Waiting() == i+1 }, waitFor, tick)
	}
	close(gone)
	for range 2 {
		require.Equal(t, "went away", <-served)
	}
	require.Equal(t, 4, line.Waiting())
	line.Leave()
	for _, who := range []string{"renewal", "second renewal", "one", "two"} {
		require.Equal(t, who, <-served)
	}
	require.True(t, line.Wait(nil, false))
}

func TestAFileThatIsDeletedOrReplacedIsWrittenToNoMore(t *testing.T) {
	b := setup(t, storetest.SQLite(t))
	b.insert(t, newJob("a"))
	_, path, _, _, err := store.TargetForTest(b.db.DSN)
	require.NoError(t, err)
	aside := path + ".aside"
	mustBeRefused := func() {
		t.Helper()
		_, err := b.Insert(t.Context(), newJobs("a", 1))
		require.ErrorIs(t, err, store.ErrFileGone)
		require.ErrorContains(t, err, path)
		_, err = b.Turn(t.Context(), store.TurnRequest{Sweep: true})
		require.ErrorIs(t, err, store.ErrFileGone)
		_, err = b.Survey(t.Context(), []string{"a"}, nil)
		require.ErrorIs(t, err, store.ErrFileGone)
	}
	require.NoError(t, os.Rename(path, aside))
	mustBeRefused()
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	mustBeRefused()
	require.NoError(t, errors.Join(os.Remove(path), os.Rename(aside, path)))
	b.insert(t, newJob("a"))
}
