package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

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
		s := server{app: a, file: f, console: &console{out: a.err}}
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

	file      *config.File
	console   *console
	log       *slog.Logger
	client    *queue.Client
	scheduler *scheduler.Scheduler
}

func (s *server) run(ctx context.Context) (err error) {
	runs := 0
	for i := range s.file.Tasks {
		if s.file.Tasks[i].Exec != nil {
			runs++
		}
	}
	if runs == 0 {
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
	if s.scheduler, err = scheduler.New(s.client, append(s.file.Options(), scheduler.Logger(s.log))...); err != nil {
		return err
	}
	if err := s.file.Register(s.scheduler, s.log); err != nil {
		return err
	}
	if err := s.scheduler.Validate(); err != nil {
		return err
	}
	if err := s.announce(); err != nil {
		return err
	}
	return s.serveUntilStopped(ctx)
}

// serveUntilStopped runs the scheduler until a signal comes and it has
// stopped. A second signal does not wait.
func (s *server) serveUntilStopped(ctx context.Context) error {
	signals, release := s.signals()
	defer release()
	ctx, stop := context.WithCancel(ctx)
	watching, end := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { s.watchSignals(watching, signals, stop) })
	beside.Go(func() { s.showProgress(watching) })
	err := s.scheduler.Run(ctx)
	end()
	beside.Wait()
	stop()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	t := s.scheduler.Stats()
	s.say("stopped", fmt.Sprintf("stopped: %d started, %d completed, %d failed", t.Started, t.Completed, t.Failed),
		"started", t.Started, "completed", t.Completed, "failed", t.Failed)
	return nil
}

// say tells a person at a terminal, or else the log.
func (s *server) say(event, text string, attrs ...any) {
	if s.errTerminal {
		s.console.line("weir: " + text)
		return
	}
	s.log.Info(event, attrs...)
}

func (s *server) watchSignals(ctx context.Context, signals <-chan os.Signal, stop func()) {
	select {
	case <-ctx.Done():
		return
	case sig := <-signals:
		grace := scheduler.DefaultShutdownGrace
		if s.file.ShutdownGrace != nil {
			grace = *s.file.ShutdownGrace
		}
		running := s.scheduler.Stats().Running
		s.say("stopping", fmt.Sprintf("%s: stopping; %s may take up to %v; a second signal ends it at once", sig, count(running, "running job"), grace),
			"signal", sig.String(), "running", running, "grace", grace)
		stop()
	}
	select {
	case <-ctx.Done():
	case sig := <-signals:
		s.say("ended", fmt.Sprintf("%s: ended at once; what ran is handed out again when its lease has run out", sig), "signal", sig.String())
		s.exit(exitFailure)
	}
}
