package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/config"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func (a *app) serve() *cobra.Command {
	var logs logFlags
	cmd := &cobra.Command{
		Use: "serve -c FILE", Short: "Run the file's tasks under its limits",
		Long: `Runs the file's tasks under its limits, and creates the database if it is not
there. SIGTERM or SIGINT stops it: nothing starts any more, and what runs may
end within the file's shutdown_grace. A second signal ends it at once.`,
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(a.files) == 0 {
			return wrong(cmd, "name a file, as in: weir serve -c weir.yaml")
		}
		f, err := a.config()
		if err != nil {
			return err
		}
		if err := notEmpty(cmd, "log-level", "log-format"); err != nil {
			return err
		}
		s := &server{app: a, file: f, console: &console{out: a.err}}
		if s.log, err = logs.logger(s.console, a.errTerminal); err != nil {
			return err
		}
		return s.run(cmd.Context())
	}
	logs.register(cmd)
	return cmd
}

// server is one run of serve.
type server struct {
	*app

	file    *config.File
	console *console
	log     *slog.Logger
	client  *queue.Client
	running atomic.Pointer[scheduler.Scheduler] // once there is one
}

// run serves until a signal comes and everything has stopped. A second signal
// does not wait.
func (s *server) run(ctx context.Context) error {
	signals, release := s.signals()
	defer release()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { s.watchSignals(watching, signals, stop) })
	err := s.serveUntil(ctx)
	end()
	beside.Wait()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil // asked to stop before it had begun
	}
	if err != nil {
		return err
	}
	t := s.stats()
	s.say("stopped", fmt.Sprintf("stopped: %d started, %d completed, %d failed", t.Started, t.Completed, t.Failed),
		"started", t.Started, "completed", t.Completed, "failed", t.Failed)
	return nil
}

// serveUntil opens what is needed and runs the scheduler until ctx ends and it
// has stopped.
func (s *server) serveUntil(ctx context.Context) (err error) {
	if !s.file.Runs() {
		return fmt.Errorf(`%s: no task runs here: add one, as in tasks: {hello: {exec: {command: ["./hello.sh"]}}}`, s.file.Path)
	}
	migrate := queue.MigrateAuto
	if s.file.Migrate == "check" {
		migrate = queue.MigrateCheck
	}
	if s.client, err = s.open(ctx, migrate); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing(s.client)) }()
	sched, err := scheduler.New(s.client, append(s.file.Options(), scheduler.Logger(s.log))...)
	if err != nil {
		return err
	}
	if err := s.file.Register(sched, s.log); err != nil {
		return err
	}
	if err := sched.Validate(); err != nil {
		return err
	}
	if err := s.announce(sched); err != nil {
		return err
	}
	s.running.Store(sched)
	s.log.Info("serving", "database", s.client.Store().String(), "tasks", len(sched.Describe()))
	return s.runScheduler(ctx, sched)
}

// runScheduler runs the scheduler and shows how far it is.
func (s *server) runScheduler(ctx context.Context, sched *scheduler.Scheduler) error {
	showing, end := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { s.showProgress(showing) })
	err := sched.Run(ctx)
	end()
	beside.Wait()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (s *server) stats() scheduler.Stats {
	if sched := s.running.Load(); sched != nil {
		return sched.Stats()
	}
	return scheduler.Stats{}
}

// say tells a person at a terminal, or else the log.
func (s *server) say(event, text string, attrs ...any) {
	if s.errTerminal {
		s.console.line("weir: " + text)
		return
	}
	s.log.Info(event, attrs...)
}

func (s *server) watchSignals(ctx context.Context, signals <-chan os.Signal, stop func(cause error)) {
	select {
	case <-ctx.Done():
		return
	case sig := <-signals:
		grace := scheduler.DefaultShutdownGrace
		if s.file.ShutdownGrace != nil {
			grace = *s.file.ShutdownGrace
		}
		if s.errTerminal { // the scheduler's event is for logs
			s.console.line(fmt.Sprintf("weir: %s: stopping; %s may take up to %v; a second signal ends it at once", sig, count(s.stats().Running, "running job"), grace))
		}
		stop(errors.New(sig.String()))
	}
	select {
	case <-ctx.Done():
	case sig := <-signals:
		s.say("ended", fmt.Sprintf("%s: ended at once; what ran is handed out again when its lease has run out", sig), "signal", sig.String())
		s.console.settle()
		s.exit(exitFailure)
	}
}
