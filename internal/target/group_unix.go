//go:build unix

package target

import (
	"os/exec"
	"syscall"
)

// group is the process group of a command: it and what it started.
type group int

func groupOf(cmd *exec.Cmd) group { return group(cmd.Process.Pid) }

func (g group) terminate() { _ = syscall.Kill(-int(g), syscall.SIGTERM) }
func (g group) kill()      { _ = syscall.Kill(-int(g), syscall.SIGKILL) }
