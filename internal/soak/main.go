// Command soak runs Weir for minutes under conditions that no test of a second
// shows, and prints what came of it as a table. scripts/soak starts it beside a
// PostgreSQL server of its own.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// modes are what soak does, by its first argument; without one it kills
// schedulers.
var modes = map[string]func(ctx context.Context, args []string) error{
	"":           kills,
	"rough-seas": roughSeas,
	"windows":    fixedWindows,
}

func main() {
	if config := os.Getenv(childEnv); config != "" {
		exit(runChild(config))
	}
	name, args := "", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	mode, ok := modes[name]
	if !ok {
		exit(fmt.Errorf("%q: use one of %q", name, slices.Sorted(maps.Keys(modes))))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(mode(ctx, args))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
