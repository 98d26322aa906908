package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// The program's exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// usageError is a call that cannot succeed whatever the database holds.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// wrong is a usageError of a command.
func wrong(cmd *cobra.Command, format string, args ...any) error {
	if _, name, ok := strings.Cut(cmd.CommandPath(), " "); ok {
		return usage(name+": "+format, args...)
	}
	return usage(format, args...)
}

// asUsage marks what the library refused of a command's own arguments.
func asUsage(err error) error {
	if errors.Is(err, queue.ErrInvalid) || errors.Is(err, dlq.ErrInvalid) || errors.Is(err, dlq.ErrFilterRequired) {
		return usageError{err}
	}
	return err
}

// report prints an error, if there is one, and returns the exit code for it.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	for line := range strings.SplitSeq(strings.TrimRight(store.Mended(err).Error(), "\n"), "\n") {
		fmt.Fprintf(a.err, "weir: %s\n", printable(line))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

// args makes a check of a command's arguments: their number, and what to say
// where it is wrong.
func args(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return wrong(cmd, "name %s, as in: %s", what, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
		case most >= 0 && len(args) > most && isFile(args[most]):
			return wrong(cmd, "%q is one argument too many: name a file by -c, as in: %s -c %[1]s", args[most], cmd.CommandPath())
		case most >= 0 && len(args) > most && most == 0:
			return wrong(cmd, "%q is one argument too many: see %s --help", args[0], cmd.CommandPath())
		case most >= 0 && len(args) > most:
			return wrong(cmd, "%q is one argument too many: name %s", args[most], what)
		}
		return nil
	}
}

// isFile tells what reads like the name of a configuration file.
func isFile(arg string) bool {
	return strings.HasSuffix(arg, ".yaml") || strings.HasSuffix(arg, ".yml")
}

var noArgs = args(0, 0, "")
