package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// An Exec runs a command for each job. The job's arguments are its standard
// input; WEIR_JOB_ID, WEIR_TASK, WEIR_QUEUE and WEIR_ATTEMPT are in its
// environment, beside the program's own. Exit status 0 completes the job, any
// other fails the attempt. A command that does not read its input is no
// failure.
type Exec struct {
	Command []string     // the program and its arguments
	Dir     string       // default: this process's
	Log     *slog.Logger // gets what the command prints, at debug level

	// KillAfter is how long a command that was asked to stop may go on.
	// Default: [DefaultKillAfter].
	KillAfter time.Duration
}

// DefaultKillAfter leaves a command five seconds: a scheduler that stops waits
// eight for its handlers.
const DefaultKillAfter = 5 * time.Second

// drainAfter is how long the pipes of a command that has ended stay open for
// children that still hold them.
const drainAfter = 500 * time.Millisecond

// A Call is the job that a command runs for.
type Call struct {
	JobID   string
	Task    string
	Queue   string
	Attempt int
	Args    []byte
}

// Run runs the command to its end. When ctx ends before, the command and what
// it started in its process group are asked to stop (SIGTERM), and killed if
// they do not (SIGKILL). On Linux the command is killed too when this process
// dies; what it started may go on.
func (e Exec) Run(ctx context.Context, call Call) error {
	for starts := 1; ; starts++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := e.run(ctx, call)
		if !errors.Is(err, errNotBegun) || starts == mostStarts {
			return err
		}
	}
}

// A signal to this process's group, such as Ctrl-C at a terminal, also reaches
// a child that has not left the group yet. It dies before the command has begun,
// so the command is started again.
var errNotBegun = errors.New("start the command: a signal came in between, again and again")

const mostStarts = 10

func (e Exec) run(ctx context.Context, call Call) error {
	cmd := exec.Command(e.Command[0], e.Command[1:]...) //nolint:gosec,noctx // the operator's command; ctx is kept by stopper, which stops the whole group
	cmd.Dir = e.Dir
	cmd.Env = append(os.Environ(),
		"WEIR_JOB_ID="+call.JobID, "WEIR_TASK="+call.Task, "WEIR_QUEUE="+call.Queue, "WEIR_ATTEMPT="+strconv.Itoa(call.Attempt))
	cmd.Stdin = bytes.NewReader(call.Args)
	var stdout, stderr tail
	cmd.Stderr = &stderr
	debug := e.Log != nil && e.Log.Enabled(ctx, slog.LevelDebug)
	if debug {
		cmd.Stdout = &stdout
	}
	cmd.WaitDelay = drainAfter
	ownGroup(cmd)

	var err error
	var stopped bool
	begun := true
	onOwnThread(func() {
		if err = cmd.Start(); err != nil {
			err = e.startError(err)
			return
		}
		begun = groupOf(cmd).begun()
		s := e.watch(ctx, cmd)
		err = cmd.Wait()
		stopped = s.end()
	})
	if !begun {
		return errNotBegun
	}
	if debug {
		e.Log.Debug("command_output", "job_id", call.JobID, "task", call.Task, "attempt", call.Attempt,
			"stdout", stdout.text(), "stderr", stderr.text())
	}
	return outcome(ctx, cmd, err, stopped, stderr.text())
}

// startError says what keeps the command from starting: the system names the
// program whatever it missed.
func (e Exec) startError(err error) error {
	if problem, mend := e.Problem(); problem != "" {
		return fmt.Errorf("start the command: %s: %s (%w)", problem, mend, err)
	}
	return fmt.Errorf("start the command: %w", err)
}

// outcome turns the end of a command into that of the attempt. An error of the
// pipes is none of the command's: only its exit status counts.
func outcome(ctx context.Context, cmd *exec.Cmd, err error, stopped bool, stderr string) error {
	switch {
	case cmd.ProcessState == nil:
		return err
	case stopped:
		return &Error{Status: cmd.ProcessState.String(), Stderr: stderr, cause: context.Cause(ctx)}
	case cmd.ProcessState.Success():
		return nil
	}
	return &Error{Status: cmd.ProcessState.String(), Stderr: stderr}
}

// stopper asks a command to stop when its context ends, and sees to it.
type stopper struct {
	group group
	kill  time.Duration
	ended chan struct{} // closed when the command has ended
	done  chan struct{} // closed when the stopper has

	asked bool // the context ended first; read after done
}

func (e Exec) watch(ctx context.Context, cmd *exec.Cmd) *stopper {
	s := &stopper{group: groupOf(cmd), kill: e.KillAfter, ended: make(chan struct{}), done: make(chan struct{})}
	if s.kill <= 0 {
		s.kill = DefaultKillAfter
	}
	go s.run(ctx)
	return s
}

func (s *stopper) run(ctx context.Context) {
	defer close(s.done)
	select {
	case <-s.ended:
		return
	case <-ctx.Done():
	}
	select {
	case <-s.ended: // both at once: the command was first
		return
	default:
	}
	s.asked = true
	kill := s.kill
	if at, ok := ctx.Deadline(); ok && time.Until(at) > 0 {
		kill = min(kill, time.Until(at))
	}
	s.group.terminate()
	deadline := time.NewTimer(kill)
	defer deadline.Stop()
	select {
	case <-s.ended:
	case <-deadline.C:
		s.group.kill()
		return
	}
	// The command ended; what it started may need the rest of the time.
	for wait := 10 * time.Millisecond; s.group.alive(); wait = min(2*wait, 200*time.Millisecond) {
		look := time.NewTimer(wait)
		select {
		case <-look.C:
		case <-deadline.C:
			look.Stop()
			s.group.kill()
			return
		}
	}
}

// end tells the stopper that the command has ended, waits for it, and reports
// whether it was the context that ended the command.
func (s *stopper) end() bool {
	close(s.ended)
	<-s.done
	return s.asked
}
