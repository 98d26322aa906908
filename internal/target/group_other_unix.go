//go:build unix && !linux

package target

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the leader of a process group, which a signal
// reaches as a whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func onOwnThread(do func()) { do() }
