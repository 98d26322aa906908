package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/weirq/weir/internal/bench"
)

// A cell is one run of one row, in a process of its own on a fresh store. This
// file is that process; run.go starts it.

// runCell does what a spec says, given as JSON.
func runCell(ctx context.Context, text string) error {
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	system, err := s.open(ctx)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	figure, err := s.run(ctx, system)
	if err != nil {
		return err
	}
	if s.Role == measuring {
		out, err := json.Marshal(figure)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.Out, out, 0o600); err != nil {
			return err
		}
	}
	return system.Close()
}

func (s spec) run(ctx context.Context, system bench.System) (bench.Figure, error) {
	switch s.Role {
	case producing:
		return bench.Figure{}, bench.Trickle(ctx, system, s.Jobs)
	case filling:
		return bench.Figure{}, bench.Fill(ctx, system, s.jobs(true))
	case working:
		return bench.Figure{}, workAlong(ctx, system, s)
	case measuring:
	}
	switch s.Work {
	case drain:
		return s.drain(ctx, system, s.jobs(false))
	case drainLimited:
		return s.drain(ctx, system, s.jobs(true))
	case enqueueOne:
		jobs := s.jobs(false)
		return s.profiled(func() (bench.Figure, error) { return bench.EnqueueOne(ctx, system, jobs, s.Workers) })
	case enqueueBulk:
		jobs := s.jobs(false)
		return s.profiled(func() (bench.Figure, error) { return bench.EnqueueBulk(ctx, system, jobs, bulk) })
	case pickup:
		return s.pickup(ctx, system)
	case mixed:
		return s.mixed(ctx, system)
	case throttledCPU:
		return s.throttled(ctx, system)
	}
	return bench.Figure{}, fmt.Errorf("no such work: %s", s.Work)
}

// bulk is how many jobs enqueue-bulk hands over at a time.
const bulk = 1000

func (s spec) jobs(limited bool) []bench.Job {
	jobs := bench.Jobs(s.Jobs, bench.Job{Limited: limited})
	lines := map[variant]int{hundredLines: 100, thousandLines: 1000}[s.Variant]
	for i := range jobs {
		if lines > 0 {
			jobs[i].Queue = fmt.Sprintf("line-%d", i%lines)
		}
	}
	return jobs
}

// drain adds to the figure what the process and the server used.
func (s spec) drain(ctx context.Context, system bench.System, jobs []bench.Job) (bench.Figure, error) {
	if s.Variant == withHistory {
		if err := errors.Join(fillHistory(ctx, s), settle(ctx, s)); err != nil {
			return bench.Figure{}, fmt.Errorf("history: %w", err)
		}
	}
	if err := bench.Fill(ctx, system, jobs); err != nil {
		return bench.Figure{}, err
	}
	others, err := s.otherWorkers(ctx)
	if err != nil {
		return bench.Figure{}, err
	}
	watch := watchMemory(ctx)
	before, err := s.usage()
	if err != nil {
		return bench.Figure{}, err
	}
	if err := others.start(); err != nil {
		return bench.Figure{}, err
	}
	figure, err := s.profiled(func() (bench.Figure, error) {
		return bench.Work(ctx, system, len(jobs), s.Workers, s.Variant == twoProcesses)
	})
	if err := errors.Join(err, others.stop()); err != nil {
		return bench.Figure{}, err
	}
	after, err := s.usage()
	if err != nil {
		return bench.Figure{}, err
	}
	figure.Detail["memory_mib"] = watch()
	figure.Detail["cpu_us_per_job"] = 1e6 * (after.process - before.process) / float64(len(jobs))
	if s.Server != 0 {
		figure.Detail["server_cpu_us_per_job"] = 1e6 * (after.server - before.server) / float64(len(jobs))
	}
	if w, ok := system.(*bench.Weir); ok {
		figure.Detail["jobs_per_look"] = float64(len(jobs)) / float64(max(w.Looks(), 1))
	}
	return figure, nil
}

// pickup has the jobs enqueued by this process, or by another one.
func (s spec) pickup(ctx context.Context, system bench.System) (bench.Figure, error) {
	if s.Variant == hugeBacklog {
		jobs := bench.Jobs(backlogJobs, bench.Job{Limited: true, Priority: 10})
		if err := errors.Join(bench.Fill(ctx, system, jobs), settle(ctx, s)); err != nil {
			return bench.Figure{}, err
		}
		return bench.Pickup(ctx, system, s.Jobs, s.Workers, measuredRate, s.produce)
	}
	produce := s.produce
	if s.inProcess() {
		produce = func(ctx context.Context) error { return bench.Trickle(ctx, system, s.Jobs) }
	}
	return bench.Pickup(ctx, system, s.Jobs, s.Workers, bench.NeverDry, produce)
}

// inProcess: the ordinary row of a database in the process has producer and
// workers in one, that of a server in two.
func (s spec) inProcess() bool {
	return s.Variant == sameProcess || s.Store == sqlite && s.Variant != otherProcess
}

// produce starts a process that enqueues.
func (s spec) produce(ctx context.Context) error {
	s.Role = producing
	cmd, err := s.command(ctx)
	if err != nil {
		return err
	}
	return cmd.Run()
}

// helpers are the processes that work beside the one that measures.
type helpers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// otherWorkers starts another process that is ready to work, where the variant
// asks for one.
func (s spec) otherWorkers(ctx context.Context) (*helpers, error) {
	if s.Variant != twoProcesses {
		return &helpers{}, nil
	}
	s.Role = working
	cmd, err := s.command(ctx)
	if err != nil {
		return nil, err
	}
	cmd.Stdout = nil
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the other process: %w", errors.Join(err, cmd.Wait()))
	}
	return &helpers{cmd, in}, nil
}

func (h *helpers) start() error {
	if h.cmd == nil {
		return nil
	}
	_, err := io.WriteString(h.in, "\n")
	return err
}

func (h *helpers) stop() error {
	if h.cmd == nil {
		return nil
	}
	return errors.Join(h.in.Close(), h.cmd.Wait())
}

// workAlong is the other process: it says that it is ready, begins at the
// first line that it reads, and ends with its input.
func workAlong(ctx context.Context, system bench.System, s spec) error {
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	stop, err := system.Start(ctx, bench.Workers{Count: s.Workers, Rate: bench.NeverDry, Handle: func(bench.Job) {}})
	if err != nil {
		return err
	}
	_, _ = in.ReadString('\n')
	return stop()
}

// command is a process for a spec.
func (s spec) command(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, cellCommand, string(text))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

const cellCommand = "cell"

// profiled writes profiles of the processor and of allocations of what is
// measured, where they are asked for.
func (s spec) profiled(measure func() (bench.Figure, error)) (bench.Figure, error) {
	if s.Profile == "" {
		return measure()
	}
	cpu, err := os.Create(filepath.Clean(s.Profile + ".cpu"))
	if err != nil {
		return bench.Figure{}, err
	}
	runtime.MemProfileRate = 4096
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return bench.Figure{}, err
	}
	figure, failed := measure()
	pprof.StopCPUProfile()
	allocs, err := os.Create(filepath.Clean(s.Profile + ".allocs"))
	if err != nil {
		return bench.Figure{}, err
	}
	return figure, errors.Join(failed, pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
}
