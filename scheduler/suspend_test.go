//go:build unix

package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// suspendedEnv makes TestAProcessThatWasSuspendedGivesWay one of its processes.
const suspendedEnv = "WEIR_SCHEDULER_TEST_SUSPENDED"

type suspendedConfig struct {
	DSN, Ledger string
	Suspend     bool // itself, in the middle of its handler
}

// run serves one task. A process that is to be suspended stops itself as soon as
// its handler has begun, and reports success when it was told that its job is
// lost. The other fails when a line comes on its standard input.
func (c suspendedConfig) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := queue.Open(ctx, c.DSN)
	if err != nil {
		return err
	}
	defer client.Close()
	ledger, err := os.OpenFile(c.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer ledger.Close()
	s, err := scheduler.New(client, scheduler.Lease(time.Second), scheduler.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	err = scheduler.Register(s, "job", func(ctx context.Context, job *queue.Job[string]) error {
		fmt.Fprintf(ledger, "%s: begun %d\n", job.Args, job.Attempt)
		switch {
		case job.Args == "warm up":
			return nil
		case c.Suspend:
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return err
			}
			<-ctx.Done()
			fmt.Fprintf(ledger, "cancelled: %v\n", context.Cause(ctx))
			return nil
		}
		_, err := io.ReadFull(os.Stdin, make([]byte, 1))
		return errors.Join(errors.New("the second run fails"), err)
	}, scheduler.MaxRetries(1))
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// A process is suspended while its handler runs, and wakes up when another has
// the job: it learns so at once, and what it says counts for nothing.
func TestAProcessThatWasSuspendedGivesWay(t *testing.T) {
	if doc := os.Getenv(suspendedEnv); doc != "" {
		var c suspendedConfig
		require.NoError(t, json.Unmarshal([]byte(doc), &c))
		require.NoError(t, c.run())
		return
	}
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		client, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		defer client.Close()
		ledger := filepath.Join(t.TempDir(), "ledger")
		start := func(suspend bool) (*exec.Cmd, io.Writer) {
			doc, err := json.Marshal(suspendedConfig{DSN: db.DSN, Ledger: ledger, Suspend: suspend})
			require.NoError(t, err)
			cmd := exec.Command(os.Args[0], "-test.run=^TestAProcessThatWasSuspendedGivesWay$")
			cmd.Env = append(os.Environ(), suspendedEnv+"="+string(doc))
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			return cmd, stdin
		}
		told := func(line string) {
			t.Helper()
			require.Eventually(t, func() bool {
				text, _ := os.ReadFile(ledger)
				return strings.Contains(string(text), line+"\n")
			}, time.Minute, 5*time.Millisecond)
		}
		job := queue.Task[string]("job")
		first, _ := start(true)
		_, err = job.Enqueue(t.Context(), client, "warm up") // what it does when it starts is done
		require.NoError(t, err)
		told("warm up: begun 1")
		receipt, err := job.Enqueue(t.Context(), client, "x")
		require.NoError(t, err)
		told("x: begun 1")
		second, answer := start(false)
		told("x: begun 2")

		require.NoError(t, first.Process.Signal(syscall.SIGCONT))
		told("cancelled: " + scheduler.ErrLeaseLost.Error())
		require.NoError(t, first.Process.Signal(syscall.SIGTERM))
		require.NoError(t, first.Wait(), "it has reported success, and that was refused")
		running, err := client.Get(t.Context(), receipt.ID)
		require.NoError(t, err)
		require.Equal(t, queue.StateRunning, running.State)

		_, err = answer.Write([]byte{'\n'})
		require.NoError(t, err)
		letters := dlq.From(client)
		require.Eventually(t, func() bool {
			_, err := letters.Get(t.Context(), receipt.ID)
			return err == nil
		}, time.Minute, 5*time.Millisecond)
		require.NoError(t, second.Process.Signal(syscall.SIGTERM))
		require.NoError(t, second.Wait())
		entry, err := letters.Get(t.Context(), receipt.ID)
		require.NoError(t, err)
		require.Equal(t, dlq.Failed, entry.Kind)
		require.Equal(t, "the second run fails", entry.Reason)
		require.Equal(t, 2, entry.Attempts)
		require.Len(t, entry.Errors, 2)
		require.Equal(t, "lease lost", entry.Errors[0].Error)
	})
}
