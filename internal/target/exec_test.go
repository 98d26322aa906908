//go:build unix

package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sh runs a shell script as a job's command.
func sh(script string) Exec { return Exec{Command: []string{"/bin/sh", "-c", script}} }

func TestACommandGetsTheArgumentsOnItsStandardInputByteForByte(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]byte{
		"json":          []byte(`{"to":"a@example.com"}`),
		"nothing":       nil,
		"any bytes":     {0, 1, 0xff, '\n', 0, 0xfe},
		"no line end":   []byte("x"),
		"a whole mebi":  bytes.Repeat([]byte("0123456789abcdef"), 1<<16),
		"a final break": []byte("{}\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "args")
			e := sh(`cat > "$1"`)
			e.Command = append(e.Command, "sh", out)
			require.NoError(t, e.Run(t.Context(), Call{Args: args}))
			got, err := os.ReadFile(out)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(args, got), "%d bytes of %d", len(got), len(args))
		})
	}
}

func TestACommandIsToldItsJob(t *testing.T) {
	t.Setenv("WEIR_TASK", "of the surrounding environment")
	out := filepath.Join(t.TempDir(), "env")
	e := sh(`echo "$WEIR_JOB_ID|$WEIR_TASK|$WEIR_QUEUE|$WEIR_ATTEMPT|$PATH" > ` + out)
	call := Call{JobID: "018f2f5e-0000-7000-8000-000000000000", Task: "send email", Queue: `ma"ils`, Attempt: 3}
	require.NoError(t, e.Run(t.Context(), call))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.Equal(t, call.JobID+`|send email|ma"ils|3|`+os.Getenv("PATH")+"\n", string(got))
}

func TestACommandRunsInItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := sh(`pwd -P > here`)
	e.Dir = dir
	require.NoError(t, e.Run(t.Context(), Call{}))
	got, err := os.ReadFile(filepath.Join(dir, "here"))
	require.NoError(t, err)
	want, err := filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	assert.Equal(t, want+"\n", string(got))
}

func TestTheErrorOfAFailedCommandSaysHowItEndedAndItsLastWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, want string }{
		{"status alone", `exit 3`, "exit status 3"},
		{"one line", `echo "no route to host" >&2; exit 7`, "exit status 7: no route to host"},
		{"several lines: the last comes first", "printf 'Traceback\\n  line 1\\nValueError: x\\n' >&2; exit 1", "exit status 1: ValueError: x\nTraceback\n  line 1\nValueError: x"},
		{"standard output is not in it", `echo secret; exit 1`, "exit status 1"},
		{"killed by a signal", `kill -KILL $$`, "signal: killed"},
		{"bytes that are no text", `printf 'a\377b\000c' >&2; exit 1`, "exit status 1: a\uFFFDb\uFFFDc"},
		{"not found by the shell", `exec 2>/dev/null; ./nothing-here`, "exit status 127"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := sh(c.script).Run(t.Context(), Call{})
			require.EqualError(t, err, c.want)
			var failed *Error
			require.ErrorAs(t, err, &failed)
		})
	}
}

func TestOnlyTheEndOfStandardErrorIsKept(t *testing.T) {
	t.Parallel()
	err := sh(`i=0; while [ $i -lt 3000 ]; do echo "line $i of many"; i=$((i+1)); done >&2; exit 1`).Run(t.Context(), Call{})
	require.Error(t, err)
	text := err.Error()
	assert.True(t, strings.HasPrefix(text, "exit status 1: line 2999 of many\n"), "%.60q", text)
	assert.NotContains(t, text, "line 100 ")
	assert.LessOrEqual(t, len(text), kept+100)
}

func TestACommandThatCannotStartSaysWhyAndHowToMendIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return path
	}
	for _, c := range []struct{ name, program, dir, want string }{
		{"no file", "/nowhere/at-all", "", `there is no program "/nowhere/at-all": make it, or correct the command: a path counts from the folder of the file (`},
		{"not in PATH", "weir-no-such-program", "", `no program "weir-no-such-program" in PATH: install it, or write ./weir-no-such-program for one beside the file (`},
		{"no folder", "true", "/nowhere/at-all", `there is no folder "/nowhere/at-all": make it, or correct dir (`},
		{"not executable", script("plain", "#!/bin/sh\n", 0o600), "", `/plain" cannot be executed: make it executable: chmod +x ` + dir + `/plain (`},
		{"a folder", dir, "", `" is a folder: name the program in it (`},
		{"no interpreter", script("bare", "echo hello\n", 0o700), "", `/bare" does not say what runs it: let it begin with a line such as #!/bin/sh (`},
		{"an empty file", script("empty", "", 0o700), "", `/empty" does not say what runs it: let it begin with a line such as #!/bin/sh (`},
		{"an interpreter that is not there", script("lost", "#! /nowhere/python -u\n", 0o700), "", `/lost" is to be run by "/nowhere/python", which is not there: install that, or correct the first line (`},
		{"line ends of Windows", script("crlf", "#!/bin/sh\r\nexit\r\n", 0o700), "", `/crlf" has the line ends of Windows: save it with those of Unix (`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := Exec{Command: []string{c.program}, Dir: c.dir}.Run(t.Context(), Call{})
			require.ErrorContains(t, err, "start the command: ")
			require.ErrorContains(t, err, c.want)
		})
	}
	for _, program := range []string{"/bin/sh", "true", script("good", "#! /bin/sh -e\n", 0o700)} {
		problem, _ := Exec{Command: []string{program}}.Problem()
		assert.Empty(t, problem, program)
	}
}

func TestACommandThatDoesNotReadItsInputDoesNotFail(t *testing.T) {
	t.Parallel()
	args := bytes.Repeat([]byte("x"), 1<<20) // more than any pipe holds
	for name, script := range map[string]string{
		"ends at once":          `exit 0`,
		"closes it":             `exec <&-; sleep 0.1`,
		"reads a part":          `head -c 10 > /dev/null`,
		"leaves it to a child":  `sleep 30 > /dev/null 2>&1 & exit 0`,
		"leaves all to a child": `sleep 30 & exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			require.NoError(t, sh(script).Run(t.Context(), Call{Args: args}))
			assert.Less(t, time.Since(began), 10*time.Second, "a child that holds the pipes kept it waiting")
		})
	}
}

func TestACommandIsAskedToStopWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the lease was lost")
	e := sh(`exec 2>/dev/null; trap 'echo asked > ` + out + `; exit 5' TERM; echo ready > ` + out + `; while :; do sleep 0.01; done`)
	go func() {
		if assert.Eventually(t, exists(out), 10*time.Second, time.Millisecond) {
			cancel(why)
		}
	}()
	err := e.Run(ctx, Call{})
	require.ErrorIs(t, err, why)
	require.EqualError(t, err, "stopped: the lease was lost (exit status 5)")
	got, readErr := os.ReadFile(out)
	require.NoError(t, readErr)
	assert.Equal(t, "asked\n", string(got))
}

func TestACommandThatWillNotStopIsKilledWithAllOfItsGroup(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	e := sh(`trap '' TERM; (while :; do sleep 1; done) & echo "$$ $!" > ` + pids + `; while :; do sleep 1; done`)
	e.KillAfter = 100 * time.Millisecond
	go func() {
		if assert.Eventually(t, exists(pids), 10*time.Second, time.Millisecond) {
			cancel()
		}
	}()
	began := time.Now()
	err := e.Run(ctx, Call{})
	require.ErrorContains(t, err, "signal: killed")
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(began), 10*time.Second)
	for _, pid := range readPIDs(t, pids) {
		assert.Eventually(t, gone(pid), 10*time.Second, time.Millisecond, "process %d lives", pid)
	}
}

func TestChildrenOfAStoppedCommandHaveTheSameTimeToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ready, tidy := filepath.Join(dir, "ready"), filepath.Join(dir, "tidy")
	ctx, cancel := context.WithCancel(t.Context())
	// The command ends at once; its child takes a moment to tidy up.
	e := sh(`(trap 'sleep 0.2; echo done > ` + tidy + `; exit' TERM; echo > ` + ready + `; while :; do sleep 0.01; done) & wait`)
	go func() {
		if assert.Eventually(t, exists(ready), 10*time.Second, time.Millisecond) {
			cancel()
		}
	}()
	require.Error(t, e.Run(ctx, Call{}))
	assert.FileExists(t, tidy)
}

func TestTheTimeToEndStopsAtTheDeadlineOfTheContext(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	limited, release := context.WithTimeout(t.Context(), 2*time.Second)
	defer release()
	ctx, cancel := context.WithCancel(limited)
	e := sh(`trap '' TERM; echo > ` + ready + `; while :; do sleep 0.01; done`)
	e.KillAfter = time.Minute
	go func() {
		if assert.Eventually(t, exists(ready), 10*time.Second, time.Millisecond) {
			cancel()
		}
	}()
	began := time.Now()
	require.ErrorContains(t, e.Run(ctx, Call{}), "signal: killed")
	assert.Less(t, time.Since(began), 30*time.Second)
}

func TestACommandIsNotStartedForAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	require.EqualError(t, sh(`echo > `+out).Run(ctx, Call{}), "too late")
	assert.NoFileExists(t, out)
}

func TestACommandThatEndedIsNoFailureWhateverItsContextDoesThen(t *testing.T) {
	t.Parallel()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, sh(`exit 0`).Run(ctx, Call{}))
		cancel()
	}
}

func TestOutputGoesToTheLogAtDebugLevelAndIsBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := sh(`echo "hello $WEIR_TASK"; i=0; while [ $i -lt 2000 ]; do echo "row $i"; i=$((i+1)); done; echo warning >&2`)
	e.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	require.NoError(t, e.Run(t.Context(), Call{JobID: "some-id", Task: "greet", Attempt: 1}))
	assert.Contains(t, log.String(), "job_id=some-id")
	assert.Contains(t, log.String(), "row 1999")
	assert.Contains(t, log.String(), "warning")
	assert.NotContains(t, log.String(), "hello")
	assert.Less(t, log.Len(), 3*kept)

	log.Reset()
	e.Log = slog.New(slog.NewTextHandler(&log, nil))
	require.NoError(t, e.Run(t.Context(), Call{}))
	assert.Empty(t, log.String())
}

func TestManyCommandsAtOnceDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			want := i % 3
			err := sh(fmt.Sprintf(`sleep 0.05; exit %d`, want)).Run(t.Context(), Call{Args: []byte(strconv.Itoa(i))})
			if want == 0 {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, fmt.Sprintf("exit status %d", want))
			}
		})
	}
	wg.Wait()
}

// runInterrupted runs commands while its process group, and so each child that
// has not left it yet, gets signals as from a terminal: fewer for each command
// than it has starts.
func runInterrupted() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	for range 200 {
		var beside sync.WaitGroup
		beside.Go(func() {
			for range mostStarts - 1 {
				_ = syscall.Kill(0, syscall.SIGINT)
				<-time.After(20 * time.Microsecond)
			}
		})
		err := Exec{Command: []string{"true"}}.Run(context.Background(), Call{})
		beside.Wait()
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	return 0
}

// A terminal's Ctrl-C goes to the whole group, in which a child is until it has
// made its own.
func TestASignalThatComesBeforeACommandHasBegunIsNotTheCommands(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	interrupted := exec.Command(self)
	interrupted.Env = append(os.Environ(), interruptedEnv+"=1")
	interrupted.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := interrupted.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestTailKeepsTheEndOfWhateverIsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		one  string // written again and again
		n    int
	}{
		{"letters", "abcdefg", 1000},
		{"three-byte characters", "日本語", 1000},
		{"four-byte characters", "🌊", 1000},
		{"bytes that are no text", "\xff\xfe", 2000},
		{"NUL", "\x00", 3000},
		{"a broken character at the cut", "\xe6\x97", 2000},
		{"one write of a lot", strings.Repeat("x", 10*kept), 1},
		{"short", "x", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var w tail
			for range c.n {
				n, err := w.Write([]byte(c.one))
				require.NoError(t, err)
				require.Equal(t, len(c.one), n)
			}
			got := w.text()
			assert.LessOrEqual(t, len(got), kept)
			assert.True(t, utf8.ValidString(got))
			assert.NotContains(t, got, "\x00")
			whole := strings.Repeat(c.one, c.n)
			if utf8.ValidString(whole) && !strings.Contains(whole, "\x00") {
				assert.True(t, strings.HasSuffix(whole, got))
				assert.Greater(t, len(got), min(len(whole), kept)-utf8.UTFMax)
			}
		})
	}
}

func exists(path string) func() bool {
	return func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	}
}

func gone(pid int) func() bool {
	return func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) }
}

func readPIDs(t *testing.T, path string) []int {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var pids []int
	for f := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(f)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.NotEmpty(t, pids)
	return pids
}

// zombie tells a process that has ended and that nobody has waited for, as
// happens to orphans where process 1 is no init.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "Z")
}
