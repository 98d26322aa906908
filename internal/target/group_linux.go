package target

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
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

// begun tells a command from a child that died before it became one.
func (g group) begun() bool {
	const forkedNoExec = 0x40 // PF_FORKNOEXEC
	p, known := readProcess(strconv.Itoa(int(g)))
	return !known || p.flags&forkedNoExec == 0
}

// alive tells whether anything of the group still runs. A process that has
// ended does not, although it is there until somebody collects it: nobody does
// that with orphans where process 1 is no init.
func (g group) alive() bool {
	if syscall.Kill(-int(g), 0) != nil {
		return false
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, entry := range all {
		if p, known := readProcess(entry.Name()); known && p.group == int(g) && p.state != "Z" && p.state != "X" {
			return true
		}
	}
	return false
}

// process is what the kernel tells of one.
type process struct {
	state string
	group int
	flags uint64
}

func readProcess(pid string) (process, bool) {
	if pid[0] < '1' || pid[0] > '9' {
		return process{}, false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat") //nolint:gosec // the kernel's own files
	if err != nil {
		return process{}, false
	}
	// The name is in brackets and may hold anything. Behind it: state, parent,
	// group, session, terminal, the terminal's group, flags.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return process{}, false
	}
	group, _ := strconv.Atoi(fields[2])
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return process{fields[0], group, flags}, err == nil
}
