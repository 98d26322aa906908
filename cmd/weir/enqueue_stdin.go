package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

const (
	// stdinBatch is how many lines go in one transaction, and stdinBytes how many
	// bytes, or one line more.
	stdinBatch = 1000
	stdinBytes = 8 << 20
	// stdinWait is for how long a batch waits for company.
	stdinWait = 20 * time.Millisecond
	// longestLine bounds a line: arguments are up to 1 MiB, and longer in JSON.
	longestLine = 16 << 20
)

// numbered is a line of standard input.
type numbered struct {
	n    int
	text []byte
	err  error // the last one: io.EOF, or why there is no more
}

func (a *app) enqueueStdin(cmd *cobra.Command, tasks []string) error {
	if len(tasks) > 0 {
		return wrong(cmd, "a task with --stdin: each line names its own")
	}
	for _, name := range []string{"args", "queue", "priority", "delay", "at", "unique-key", "metadata", "id", "timeout", "max-retries", "start-before", "start-within", "count"} {
		if cmd.Flags().Changed(name) {
			return wrong(cmd, "--%s with --stdin: write it in each line", name)
		}
	}
	if _, err := a.config(); err != nil {
		return err
	}
	return a.with(cmd.Context(), func(c *queue.Client) error {
		ctx, cancel := context.WithCancel(cmd.Context())
		defer cancel()
		s := stream{app: a, client: c, lines: a.readLines(ctx)}
		err := s.run(ctx)
		if !a.json && (err == nil || s.stored > 0) {
			fmt.Fprintf(a.out, "%s enqueued\n", count(s.stored, "job"))
		}
		return err
	})
}

// readLines reads standard input, one line ahead: what is read and not stored
// has to fit into memory.
func (a *app) readLines(ctx context.Context) <-chan numbered {
	lines := make(chan numbered)
	go func() {
		defer close(lines)
		in := bufio.NewReaderSize(a.in, 64<<10)
		for n := 1; ; n++ {
			text, err := readLine(in)
			if n == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff")) // which some programs begin a file with
			}
			select {
			case lines <- numbered{n, text, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// readLine reads a line without its end. Only what ends in an error may be
// empty and no line.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case len(line) > longestLine:
			return nil, fmt.Errorf("longer than %d bytes: arguments may have %d", longestLine, queue.DefaultMaxArgs)
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return line, err
		}
	}
}

// lineError is what went wrong, and with which lines.
type lineError struct {
	lines string
	err   error
}

func atLine(n int, err error) error { return &lineError{fmt.Sprintf("line %d", n), err} }

// Error is alike whether the line was refused here or by the library.
func (e *lineError) Error() string {
	return "enqueue: " + e.lines + ": " + strings.TrimPrefix(e.err.Error(), "enqueue: ")
}

func (e *lineError) Unwrap() error { return e.err }

// stream enqueues what the lines say.
type stream struct {
	*app

	client *queue.Client
	lines  <-chan numbered
	stored int64
}

func (s *stream) run(ctx context.Context) error {
	for {
		batch, end := s.batch()
		if err := s.store(ctx, batch); err != nil {
			return err
		}
		if errors.Is(end, io.EOF) {
			return nil
		}
		if end != nil {
			return end
		}
	}
}

// pending is a job and the line it comes from.
type pending struct {
	line int
	job  queue.NewJob
}

// batch takes the lines that are there: it waits for the first, and a moment
// for others. The error ends the stream behind them.
func (s *stream) batch() ([]pending, error) {
	var batch []pending
	var full <-chan time.Time
	release := func() {}
	defer func() { release() }()
	for size := 0; len(batch) < stdinBatch && size < stdinBytes; {
		select {
		case <-full:
			return batch, nil
		case l, open := <-s.lines:
			if !open {
				return batch, io.EOF
			}
			if len(bytes.TrimSpace(l.text)) > 0 {
				job, err := s.parse(l.text)
				if err != nil {
					return batch, atLine(l.n, err)
				}
				batch = append(batch, pending{l.n, job})
				size += len(l.text)
			}
			if l.err != nil {
				if !errors.Is(l.err, io.EOF) {
					l.err = atLine(l.n, l.err)
				}
				return batch, l.err
			}
			if full == nil && len(batch) > 0 {
				full, release = s.clock.Timer(stdinWait)
			}
		}
	}
	return batch, nil
}

// store enqueues a batch in one transaction. Where the library refuses one of
// its jobs, the ones before it are stored, one by one.
func (s *stream) store(ctx context.Context, batch []pending) error {
	if len(batch) == 0 {
		return nil
	}
	jobs := make([]queue.NewJob, len(batch))
	for i, p := range batch {
		jobs[i] = p.job
	}
	receipts, err := s.client.EnqueueMany(ctx, jobs)
	switch {
	case err == nil:
		return s.confirm(receipts)
	case !errors.Is(err, queue.ErrInvalid):
		return &lineError{fmt.Sprintf("lines %d to %d", batch[0].line, batch[len(batch)-1].line), err}
	}
	for _, p := range batch {
		receipt, err := s.client.Enqueue(ctx, p.job)
		if err != nil {
			return atLine(p.line, err)
		}
		if err := s.confirm([]queue.Receipt{receipt}); err != nil {
			return err
		}
	}
	return nil
}

// confirm prints receipts as soon as their jobs are safe.
func (s *stream) confirm(receipts []queue.Receipt) error {
	for _, r := range receipts {
		if !r.Duplicate && !r.Existed {
			s.stored++
		}
		if !s.json {
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("print a receipt: %w", err)
		}
		if _, err := s.out.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("print a receipt: %w", err)
		}
	}
	return s.out.Flush()
}
