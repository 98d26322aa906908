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

// begun tells a command from a child that died before it became one.
func (g group) begun() bool {
	leader, err := syscall.Getpgid(int(g))
	return err != nil || leader == int(g)
}

// alive tells whether anything of the group is left.
func (g group) alive() bool { return syscall.Kill(-int(g), 0) == nil }
