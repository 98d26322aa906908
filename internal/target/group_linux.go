package target

import (
	"os/exec"
	"runtime"
	"syscall"
)

// ownGroup makes the command the leader of a process group, which a signal
// reaches as a whole, and lets the kernel kill it when its parent dies.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// onOwnThread runs do on an operating system thread that nothing else uses
// until do returns. The parent whose death Pdeathsig means is the thread that
// started the command, not the process: a thread of the pool may be ended by
// the runtime at any time, and would take a healthy command with it.
func onOwnThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		do()
	}()
	<-done
}
