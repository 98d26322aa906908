package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is something that goes wrong with a database, a network or a clock
// while schedulers work. What each does has a file of its own.
type fault struct {
	name  string // as the table shows it
	long  bool   // not part of the short form
	alone bool   // it changes what others would feel
	// run makes it happen to a sea and says what came of it. An error says that
	// the experiment could not be made, and fails the run; missing does not.
	run func(ctx context.Context, s *sea) (outcome, error)
}

// faults in the order of the table.
var faults = []fault{
	{name: "PostgreSQL restarted, -m immediate", run: restarted(installed, syscall.SIGQUIT)},
	{name: "PostgreSQL restarted, -m fast", run: restarted(installed, syscall.SIGINT)},
	{name: "PostgreSQL 18 restarted, -m immediate", long: true, run: restarted(eighteen, syscall.SIGQUIT)},
	{name: "a primary killed, its synchronous standby promoted", run: failover},
	{name: "the address moved to another server, the old one read-only", run: switchover},
	{name: "pgbouncer in transaction mode, 5 connections", run: pooler},
	{name: "default isolation repeatable read, rows cancelled meanwhile", run: strict("repeatable read")},
	{name: "default isolation serializable, rows cancelled meanwhile", run: strict("serializable")},
	{name: "a REPEATABLE READ transaction left open", run: oldSnapshot},
	{name: "the listening connections ended every 2 s", run: deafened},
	{name: "the network cut without a word", run: cut},
	{name: "the server's clock an hour on, and back", run: serverClock},
}

// outcome is what came of a fault.
type outcome struct {
	what     string        // what happened, in a few words
	lost     int           // jobs that were acknowledged and never done
	repeated int           // effects beyond the first of each job
	allowed  int           // how many of these at-least-once explains
	over     int           // intervals that held more starts than the bound
	back     time.Duration // from the end of the fault to the next start; negative: none came
	within   time.Duration // the longest that this may take
	broken   []string      // promises of another kind that did not hold
}

func (o outcome) String() string {
	return fmt.Sprintf("%s | %d | %d | %d | %v", o.what, o.lost, o.repeated, o.over, o.back.Round(time.Millisecond))
}

// check says what must not come of a fault.
func (o outcome) check() (err error) {
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if o.lost > 0 {
		bad("%d acknowledged jobs were lost", o.lost)
	}
	if o.repeated > o.allowed {
		bad("%d effects were repeated, and %d can be explained", o.repeated, o.allowed)
	}
	if o.over > 0 {
		bad("the bound was broken %d times", o.over)
	}
	if o.back < 0 || o.back > o.within {
		bad("work came back after %v, and not within %v", o.back, o.within)
	}
	for _, b := range o.broken {
		bad("%s", b)
	}
	return err
}

// roughSeas makes the faults happen.
func roughSeas(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("soak rough-seas", flag.ExitOnError)
	short := flags.Bool("short", false, "a short form of each")
	only := flags.String("only", "", "those whose name contains this")
	_ = flags.Parse(args) // it exits
	fmt.Println("| fault | what happened | lost | repeated | over the bound | back after |")
	fmt.Println("|---|---|---|---|---|---|")
	// Most of the time they wait, so short ones go two by two.
	lanes := make(chan struct{}, 1)
	if *short {
		lanes = make(chan struct{}, 2)
	}
	var met sync.WaitGroup
	all := slices.Concat(faults, tides)
	errs := make([]error, len(all))
	for n, f := range all {
		if !strings.Contains(f.name, *only) || f.long && *short {
			continue
		}
		if f.alone {
			met.Wait()
			errs[n] = f.show(ctx, n+1, *short)
			continue
		}
		lanes <- struct{}{}
		met.Go(func() {
			defer func() { <-lanes }()
			errs[n] = f.show(ctx, n+1, *short)
		})
	}
	met.Wait()
	return errors.Join(errs...)
}

// show makes a fault happen and prints its row.
func (f fault) show(ctx context.Context, n int, short bool) error {
	began := time.Now()
	o, err := meet(ctx, f, n, short)
	lack, lacks := errors.AsType[missing](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lacks:
		fmt.Printf("| %s | NOT RUN: %s | | | | |\n", f.name, lack)
		fmt.Fprintf(os.Stderr, "soak: *** NOT RUN: %s: %s ***\n", f.name, lack)
		return nil
	case err == nil:
		fmt.Printf("| %s | %s |\n", f.name, o)
		err = o.check()
	}
	fmt.Fprintf(os.Stderr, "soak: %s: %.0f s\n", f.name, time.Since(began).Seconds())
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// meet makes one fault happen. Its folder is kept where it did not go well.
func meet(ctx context.Context, f fault, n int, short bool) (o outcome, err error) {
	dir, err := os.MkdirTemp("", "weir-seas-")
	if err != nil {
		return o, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // servers run as another user
		return o, err
	}
	s := &sea{dir: dir, number: n, short: short}
	defer func() {
		s.end()
		_, lacks := errors.AsType[missing](err)
		if err = errors.Join(err, s.err); !lacks && (err != nil || o.check() != nil) {
			s.tell()
		}
		_ = os.RemoveAll(dir)
	}()
	return f.run(ctx, s)
}

// tell shows the ends of the logs.
func (s *sea) tell() {
	const most = 2000
	logs, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		fmt.Fprintf(os.Stderr, "--- the end of %s\n%s\n", filepath.Base(path), text[max(0, len(text)-most):])
	}
}
