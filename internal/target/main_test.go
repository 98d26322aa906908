package target

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is its own scheduler where a test needs one to kill.
const victimEnv = "WEIR_TEST_VICTIM"

func TestMain(m *testing.M) {
	if script := os.Getenv(victimEnv); script != "" {
		_ = Exec{Command: []string{"/bin/sh", "-c", script}}.Run(context.Background(), Call{})
		return
	}
	goleak.VerifyTestMain(m)
}
