//go:build unix

package target

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is its own scheduler where a test needs one to kill, or to
// interrupt.
const (
	victimEnv      = "WEIR_TEST_VICTIM"
	interruptedEnv = "WEIR_TEST_INTERRUPTED"
)

func TestMain(m *testing.M) {
	if script := os.Getenv(victimEnv); script != "" {
		_ = Exec{Command: []string{"/bin/sh", "-c", script}}.Run(context.Background(), Call{})
		return
	}
	if os.Getenv(interruptedEnv) != "" {
		os.Exit(runInterrupted())
	}
	goleak.VerifyTestMain(m)
}
