package target

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestACommandDoesNotOutliveASchedulerThatIsKilled(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	self, err := os.Executable()
	require.NoError(t, err)
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), victimEnv+`=trap "" TERM; echo $$ > `+pids+`; while :; do sleep 1; done`)
	require.NoError(t, victim.Start())
	require.Eventually(t, exists(pids), 10*time.Second, time.Millisecond)

	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()

	assert.Eventually(t, gone(readPIDs(t, pids)[0]), 10*time.Second, time.Millisecond)
}

func TestAStopDoesNotWaitForProcessesThatHaveEndedAndNobodyCollects(t *testing.T) {
	t.Parallel()
	// Orphans come to this process, as they come to process 1 in a container.
	const setChildSubreaper = 36
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	require.Zero(t, errno)

	ready := filepath.Join(t.TempDir(), "ready")
	why := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	e := sh(`sleep 1000 & echo > ` + ready + `; wait`)
	e.KillAfter = time.Hour
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, Call{}) }()
	require.Eventually(t, exists(ready), 10*time.Second, time.Millisecond)
	cancel(why)
	select {
	case err := <-done:
		require.ErrorIs(t, err, why)
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a process that has ended")
	}
}
