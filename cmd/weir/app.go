package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/config"
	"github.com/weirq/weir/queue"
)

// app is one run of the program: what it was given, and where it speaks. Tests
// run it in their own process.
type app struct {
	in          io.Reader
	out         *bufio.Writer
	err         io.Writer
	env         func(string) string
	clock       clock.Clock
	inTerminal  bool // somebody can be asked
	outTerminal bool // what is printed is read at once
	errTerminal bool // somebody is watching
	errWidth    func() int
	// signals delivers what asks the program to stop; exit ends it at once.
	signals func() (<-chan os.Signal, func())
	exit    func(code int)

	// The flags that every command takes.
	files    []string
	database string
	json     bool

	file  *config.File        // of files, once it was read
	noted map[string]struct{} // tasks that it does not have
}

func newApp() *app {
	return &app{
		in: os.Stdin, out: bufio.NewWriter(os.Stdout), err: os.Stderr,
		env: os.Getenv, clock: clock.System{},
		inTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		outTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		errTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		errWidth: func() int {
			width, _, _ := term.GetSize(int(os.Stderr.Fd())) // 0: not known
			return width
		},
		signals: stopSignals, exit: os.Exit,
	}
}

func stopSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	return c, func() { signal.Stop(c) }
}

// run runs the command that args name and returns the program's exit code.
func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(queue.WithActor(context.Background(), a.actor()))
	if flushed := a.out.Flush(); err == nil && flushed != nil {
		err = flushed
	}
	return a.report(err)
}
