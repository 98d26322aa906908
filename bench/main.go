// Command bench measures Weir and its peers side by side on this machine.
//
//	go run . quick          the ratios that matter most, in less than two minutes
//	go run . all            everything; writes results.json and ../docs/benchmarks.md
//	go run . smoke          every system once, on few jobs
//	go run . docs           write ../docs/benchmarks.md again from results.json
//	go run . profile drain postgres    profiles of one of Weir's cells
//
// It starts what it needs: a PostgreSQL by ../scripts/postgres, unless one is
// named, and for each of asynq's cells a Redis.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if code := (*exec.ExitError)(nil); errors.As(err, &code) && code.ExitCode() > 0 {
		os.Exit(code.ExitCode()) // this program, run again beside a server, has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what flags say.
type options struct {
	rounds        int
	json          bool
	out, docs     string
	postgres      string
	only, stores  string
	jobs, workers int
	command       string
	commandArgs   []string
	profile       string
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == cellCommand {
		return runCell(ctx, args[1])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	switch o.command {
	case "quick":
		return o.measure(ctx, quick())
	case "smoke":
		o.rounds = 1
		return o.measure(ctx, smoke())
	case "all":
		return o.measure(ctx, all())
	case "docs":
		r, err := readResults(o.out)
		if err != nil {
			return err
		}
		r.inOrder(all())
		return errors.Join(r.write(o.out), r.writeDocs(o.docs))
	case "profile":
		return o.profileOne(ctx)
	}
	return fmt.Errorf("%q: use quick, all, smoke, docs or profile", o.command)
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.rounds, "n", 0, "`rounds`: how often each row is run (default 5; quick 3)")
	f.BoolVar(&o.json, "json", false, "print the results as JSON")
	f.StringVar(&o.out, "o", "", "`file` of results, of which the tables that are run are replaced (all: results.json)")
	f.StringVar(&o.docs, "docs", "", "`file` to write the tables into (all, without -o: ../docs/benchmarks.md)")
	f.StringVar(&o.postgres, "postgres", os.Getenv("WEIR_TEST_POSTGRES"), "`URL` of a superuser on the server to use; default $WEIR_TEST_POSTGRES, else one is started")
	f.StringVar(&o.only, "only", "", "run the tables whose `names` begin so, as in drain,enqueue-one")
	f.StringVar(&o.stores, "stores", "", "run the rows on these `stores`, as in postgres,sqlite")
	f.IntVar(&o.jobs, "jobs", large, "profile: how many jobs")
	f.IntVar(&o.workers, "workers", 100, "profile: how many handlers at once, or callers")
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return o, err
		}
		if args = f.Args(); len(args) > 0 {
			o.commandArgs = append(o.commandArgs, args[0])
			args = args[1:]
		}
	}
	if len(o.commandArgs) == 0 {
		f.Usage()
		return o, errors.New("name what to run: quick, all, smoke, docs or profile")
	}
	o.command, o.commandArgs = o.commandArgs[0], o.commandArgs[1:]
	if o.command != "profile" && len(o.commandArgs) > 0 {
		return o, fmt.Errorf("%q is one argument too many", o.commandArgs[0])
	}
	return o.withDefaults(), nil
}

func (o options) withDefaults() options {
	if o.rounds == 0 {
		o.rounds = 5
		if o.command == "quick" {
			o.rounds = 3
		}
	}
	// What is written elsewhere is not meant for the page.
	if (o.command == "all" || o.command == "docs") && o.out == "" {
		o.out = "results.json"
		if o.docs == "" {
			o.docs = "../docs/benchmarks.md"
		}
	}
	return o
}

// measure runs tables, and writes what came of them wherever it was asked to.
func (o options) measure(ctx context.Context, plan []table) error {
	tables := only(plan, split(o.only), split(o.stores))
	if len(tables) == 0 {
		return fmt.Errorf("nothing to run: -only %q -stores %q", o.only, o.stores)
	}
	wanted := func(store string) bool {
		return slices.ContainsFunc(tables, func(t table) bool {
			return slices.ContainsFunc(t.rows, func(r row) bool { return r.Store == store })
		})
	}
	if wanted(postgres) && o.postgres == "" && os.Getenv(startedEnv) == "" {
		return besideServer(ctx)
	}
	stores, err := openStores(ctx, o.postgres, wanted)
	if err != nil {
		return err
	}
	r := &runner{stores: stores, rounds: o.rounds, log: os.Stderr, profile: o.profile}
	results, err := r.runAll(ctx, tables, o.out)
	if err := errors.Join(err, stores.close()); err != nil {
		return err
	}
	results.inOrder(plan)
	if err := o.report(results, os.Stdout); err != nil {
		return err
	}
	return results.complaint(tables)
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// runAll runs tables. What was measured is written table by table.
func (r *runner) runAll(ctx context.Context, tables []table, out string) (*results, error) {
	all, err := readResults(out)
	if err != nil {
		return nil, err
	}
	all.Machine = thisMachine()
	maps.Copy(all.Settings, r.stores.settings)
	for store, why := range r.stores.missing {
		fmt.Fprintf(r.log, "\n*** %s IS MISSING: its rows are not run: %v\n", strings.ToUpper(store), why)
	}
	for _, t := range tables {
		result, err := r.run(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.title, err)
		}
		all.take(result)
		if out != "" {
			if err := all.write(out); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// report prints and writes results.
func (o options) report(r *results, w io.Writer) error {
	if o.docs != "" {
		if err := r.writeDocs(o.docs); err != nil {
			return err
		}
	}
	if !o.json {
		_, err := io.WriteString(w, r.markdown())
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	return enc.Encode(r.document())
}

// complaint is an error where a row of these tables was not run.
func (r *results) complaint(tables []table) error {
	var missing []string
	for _, t := range r.Tables {
		if !slices.ContainsFunc(tables, func(ran table) bool { return ran.name == t.Name }) {
			continue
		}
		for _, row := range t.Rows {
			if row.Missing != "" {
				missing = append(missing, row.String())
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%d rows were not run: %s", len(missing), strings.Join(missing, "; "))
}

// startedEnv is set where scripts/postgres was asked already.
const startedEnv = "WEIR_BENCH_STARTED"

// besideServer runs this program again beside a server of its own, or without
// one where none can be started: the other stores are measured then.
func besideServer(ctx context.Context) error {
	script, err := beside("scripts/postgres")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	again := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.Env = append(os.Environ(), startedEnv+"=1")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		return cmd
	}
	if err := again(script, "true").Run(); err != nil {
		return again(self, os.Args[1:]...).Run()
	}
	return again(script, append([]string{self}, os.Args[1:]...)...).Run()
}

// profileOne runs one of Weir's cells and keeps its profiles.
func (o options) profileOne(ctx context.Context) error {
	if len(o.commandArgs) != 2 {
		return errors.New("profile: name a work and a store, as in: profile drain postgres")
	}
	o.rounds, o.profile = 1, "profile"
	r := row{Work: o.commandArgs[0], Store: o.commandArgs[1], Peer: weir, Jobs: o.jobs, Workers: o.workers}
	if err := o.measure(ctx, []table{{name: "profile", title: "Profile", rows: []row{r}}}); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "\ngo tool pprof -top profile.cpu\ngo tool pprof -sample_index=alloc_objects -top profile.allocs")
	return nil
}
