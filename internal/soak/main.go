// Command soak runs Weir for minutes under conditions that no test of a second
// shows, and prints what came of it as a table. scripts/soak starts it beside a
// PostgreSQL server of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	if config := os.Getenv(childEnv); config != "" {
		exit(runChild(config))
	}
	rounds := flag.Int("rounds", 5, "how many rounds on each database")
	jobs := flag.Int("jobs", 2000, "jobs in a round")
	kills := flag.Int("kills", 20, "kill -9 in a round")
	windows := flag.Duration("windows", 0, "instead: measure fixed windows for so long on each database, as in 2m")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *windows > 0 {
		exit(runWindows(ctx, *windows))
	}
	exit(run(ctx, *rounds, *jobs, *kills))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, rounds, jobs, kills int) error {
	dir, err := os.MkdirTemp("", "weir-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("| database | round | jobs | kills | lost | repeated effects | over the bound | slowest reclaim after its lease | jobs/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	var failed error
	for _, database := range []string{"sqlite", "postgres"} {
		for n := 1; n <= rounds; n++ {
			folder := filepath.Join(dir, fmt.Sprintf("%s-%d", database, n))
			if err := os.Mkdir(folder, 0o700); err != nil {
				return err
			}
			k := killRound{dir: folder, jobs: jobs, kills: kills}
			if k.dsn, err = dsn(database, folder, n); err != nil {
				return err
			}
			result, err := k.run(ctx)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", database, n, err)
			}
			fmt.Printf("| %s | %d | %s |\n", database, n, result)
			failed = errors.Join(failed, result.check(kills))
		}
	}
	return failed
}
