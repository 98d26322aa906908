//go:build !unix

package target

import (
	"os"
	"os/exec"
)

// group is the command alone: this system has no process groups to signal.
type group struct{ process *os.Process }

func groupOf(cmd *exec.Cmd) group { return group{cmd.Process} }

func ownGroup(*exec.Cmd) {}

// terminate kills: there is no gentler way here.
func (g group) terminate()  { _ = g.process.Kill() }
func (g group) kill()       { _ = g.process.Kill() }
func (g group) alive() bool { return false }
func (g group) begun() bool { return true }

func onOwnThread(do func()) { do() }
