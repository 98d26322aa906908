package main

import (
	"os/exec"
	"syscall"
	"time"
)

// process is a server that runs beside. Somebody waits for it from the start,
// so that its end is seen.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended
}

func begin(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// end sends a signal and waits for the end; what outlives it by ten seconds is
// killed.
func (p *process) end(with syscall.Signal) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(with)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
