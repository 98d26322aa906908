package target

import (
	"os"
	"os/exec"
	"path/filepath"
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
