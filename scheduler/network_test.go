package scheduler_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestASchedulerWarnsOfASQLiteFileOnANetwork(t *testing.T) {
	for number, warnings := range map[uint32]int{0x6969: 1, 0xef53: 0} {
		client := queue.From(storetest.SQLite(t).Open(t, store.Options{Statfs: func(string) uint32 { return number }}))
		var log bytes.Buffer
		s, err := scheduler.New(client, scheduler.Logger(slog.New(slog.NewTextHandler(&log, nil))))
		require.NoError(t, err)
		require.NoError(t, s.Drain(t.Context()))
		require.Equal(t, warnings, strings.Count(log.String(), "level=WARN msg=database_on_network filesystem=NFS"))
	}
}
