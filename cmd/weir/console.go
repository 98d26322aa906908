package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"
)

// console is where serve speaks while it runs: log lines, and at a terminal a
// line of progress below them that is written over.
type console struct {
	mu       sync.Mutex
	out      io.Writer
	progress string // what stands on the last line
}

// eraseLine goes back to the beginning of a terminal's line and empties it.
const eraseLine = "\r\x1b[K"

// Write writes log lines, above the progress.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progress == "" {
		return c.out.Write(p)
	}
	if _, err := fmt.Fprintf(c.out, "%s%s%s", eraseLine, p, c.progress); err != nil {
		return 0, err
	}
	return len(p), nil
}

// show puts progress on the last line, instead of what was there.
func (c *console) show(progress string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(c.out, eraseLine+progress)
	c.progress = progress
}

// settle leaves the progress where it is and goes on below it.
func (c *console) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.progress != "" {
		fmt.Fprintln(c.out)
		c.progress = ""
	}
}

// line writes a line for a person.
func (c *console) line(text string) {
	_, _ = c.Write([]byte(text + "\n"))
}

// readableTime writes durations as in "30s", in JSON too.
func readableTime(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindDuration {
		attr.Value = slog.StringValue(attr.Value.Duration().String())
	}
	return attr
}

// logFlags say what is logged, and how.
type logFlags struct{ format, level string }

func (f *logFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "text", "`FORMAT` of the log on standard error: text or json")
	cmd.Flags().StringVar(&f.level, "log-level", "", "least `LEVEL` that is logged: debug, info, warn or error (default info; warn at a terminal, which shows progress)")
}

func (f *logFlags) logger(out io.Writer, terminal bool) (*slog.Logger, error) {
	level := slog.LevelInfo
	switch strings.ToLower(f.level) {
	case "":
		if terminal {
			level = slog.LevelWarn
		}
	case "debug":
		level = slog.LevelDebug
	case "info":
	case "warn", "warning":
		level = slog.LevelWarn
	case "error":
		level = slog.LevelError
	default:
		return nil, usage("serve: --log-level %q: use debug, info, warn or error", f.level)
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: readableTime}
	switch f.format {
	case "text":
		return slog.New(slog.NewTextHandler(out, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, opts)), nil
	}
	return nil, usage("serve: --log-format %q: use text or json", f.format)
}
