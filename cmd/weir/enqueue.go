package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/config"
	"github.com/weirq/weir/queue"
)

const (
	largestCount = 1_000_000
	// countBatch is how many jobs of one --count are stored in a transaction:
	// on SQLite nothing else writes meanwhile.
	countBatch = 10_000
)

// enqueueFlags describe the job.
type enqueueFlags struct {
	args, queue, at, uniqueKey, metadata, id, startBefore string
	priority, count, maxRetries                           int
	delay, timeout, startWithin                           time.Duration
	stdin                                                 bool
}

func (a *app) enqueue() *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use: "enqueue TASK", Short: "Enqueue a job, or many",
		Long: `Enqueues a job, or --count alike, and prints the ids. A task that no process
has registered is accepted: its jobs wait.

With --stdin it reads jobs from standard input, a JSON object a line:

  {"task": "send_email", "args": {"to": "ada@example.com"}, "priority": 5}

with the members task, args (or args_base64), queue, priority, delay ("30s"),
run_at (RFC 3339), unique_key, metadata, id, timeout, max_retries, start_before
(RFC 3339) and start_within ("5m"). Jobs are stored in batches; the first line
that is refused ends it, and what stood before is stored. With --json each line
gets its receipt, in order.`,
	}
	cmd.RunE = func(cmd *cobra.Command, tasks []string) error {
		if f.stdin {
			return a.enqueueStdin(cmd, tasks)
		}
		if err := args(1, 1, "one task")(cmd, tasks); err != nil {
			return err
		}
		job, err := a.newJob(cmd, tasks[0], &f)
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			if !cmd.Flags().Changed("count") {
				return a.enqueueOne(cmd.Context(), c, job)
			}
			return a.enqueueCount(cmd.Context(), c, job, f.count)
		})
	}
	flags := cmd.Flags()
	flags.StringVar(&f.args, "args", "", "`JSON` arguments; @FILE reads a file and - standard input, byte for byte")
	flags.StringVar(&f.queue, "queue", "", "`QUEUE` to wait in (default: the task's)")
	flags.IntVar(&f.priority, "priority", 0, fmt.Sprintf("`N` from %d to %d; high ones start first", queue.LowestPriority, queue.HighestPriority))
	flags.DurationVar(&f.delay, "delay", 0, "`TIME` to wait before it may start, as in 90s")
	flags.StringVar(&f.at, "at", "", "earliest `TIME` to start, in RFC 3339, as in 2026-03-01T09:00:00+01:00")
	flags.StringVar(&f.uniqueKey, "unique-key", "", "one live job of the task with this `KEY`")
	flags.StringVar(&f.metadata, "metadata", "", "`JSON` object that goes with the job")
	flags.StringVar(&f.id, "id", "", "the job's `UUID`, so that the call can be repeated")
	flags.StringVar(&f.startBefore, "start-before", "", "`TIME` in RFC 3339 by which it must have started, or be a dead letter of kind expired")
	flags.DurationVar(&f.startWithin, "start-within", 0, "`TIME` from now by which it must have started, as in 5m")
	flags.DurationVar(&f.timeout, "timeout", 0, "`TIME` that an attempt may take (default: the task's)")
	flags.IntVar(&f.maxRetries, "max-retries", 0, "`N` tries after the first failure (default: the task's)")
	flags.IntVar(&f.count, "count", 1, fmt.Sprintf("enqueue it `N` times, up to %d", largestCount))
	flags.BoolVar(&f.stdin, "stdin", false, "read jobs from standard input, a JSON object a line")
	return cmd
}

// newJob makes a job of the flags.
func (a *app) newJob(cmd *cobra.Command, task string, f *enqueueFlags) (queue.NewJob, error) {
	if err := notEmpty(cmd, "queue", "at", "unique-key", "id", "start-before"); err != nil {
		return queue.NewJob{}, err
	}
	given := cmd.Flags().Changed
	job := queue.NewJob{
		Task: task, Queue: f.queue, Priority: f.priority, Delay: f.delay,
		UniqueKey: f.uniqueKey, ID: f.id, Timeout: f.timeout, StartWithin: f.startWithin,
	}
	switch {
	case f.count < 1 || f.count > largestCount:
		return job, wrong(cmd, "--count %d: use 1 to %d", f.count, largestCount)
	case f.count > 1 && f.id != "":
		return job, wrong(cmd, "--id with --count: many jobs cannot have one id")
	case f.delay < 0:
		return job, wrong(cmd, "--delay %v: use 0 or more", f.delay)
	case given("delay") && given("at"):
		return job, wrong(cmd, "--delay with --at: give one of the two")
	case given("start-within") && f.startWithin <= 0:
		return job, wrong(cmd, "--start-within %v: use a time above 0", f.startWithin)
	case given("start-before") && given("start-within"):
		return job, wrong(cmd, "--start-before with --start-within: give one of the two")
	}
	if given("max-retries") {
		job.MaxRetries = &f.maxRetries
	}
	if given("metadata") {
		job.Metadata = json.RawMessage(f.metadata)
		if f.metadata == "" {
			return job, wrong(cmd, `--metadata is empty: give it a JSON object, or leave it out`)
		}
	}
	var err error
	if job.RunAt, err = parseTime("--at", f.at); err != nil {
		return job, wrong(cmd, "%w", err)
	}
	if job.StartBefore, err = deadline("--start-before", f.startBefore); err != nil {
		return job, wrong(cmd, "%w", err)
	}
	if given("args") {
		if job.Args, err = a.readArgs(cmd, f.args); err != nil {
			return job, err
		}
	}
	return job, a.fillQueue(&job)
}

// parseTime reads a time; the zero time where there is none.
func parseTime(whose, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %.80q: write the time in RFC 3339, with its zone, as in 2026-03-01T09:00:00+01:00", whose, text)
	}
	return at, nil
}

// deadline reads a time by which a job must have started.
func deadline(whose, text string) (time.Time, error) {
	at, err := parseTime(whose, text)
	if text != "" && at.IsZero() {
		at = at.Add(1) // it would be none at all; the library refuses it as it does all of that age
	}
	return at, err
}

// readArgs reads --args.
func (a *app) readArgs(cmd *cobra.Command, given string) ([]byte, error) {
	// One byte more than is allowed is enough to be refused.
	const enough = queue.DefaultMaxArgs + 1
	var data []byte
	var err error
	switch path, isFile := strings.CutPrefix(given, "@"); {
	case given == "-":
		data, err = io.ReadAll(io.LimitReader(a.in, enough))
	case isFile:
		data, err = readFile(path, enough)
	case !json.Valid([]byte(given)):
		return nil, wrong(cmd, "--args %.80q is not JSON: quote it for the shell, as in --args '{\"to\": \"ada@example.com\"}', or use @FILE for other bytes", given)
	default:
		return []byte(given), nil
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: --args: %w", err)
	}
	return data, nil
}

func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, most))
	return data, errors.Join(err, f.Close())
}

// fillQueue takes the queue of a task from the file, where there is one.
func (a *app) fillQueue(job *queue.NewJob) error {
	f, err := a.config()
	if err != nil || f == nil {
		return err
	}
	if t := f.Task(job.Task); t == nil {
		a.note(f, job.Task)
	} else if job.Queue == "" {
		job.Queue = t.Queue
	}
	return nil
}

// note says once of a task that the file has none of it: it may be misspelt.
func (a *app) note(f *config.File, task string) {
	if _, done := a.noted[task]; done || queue.CheckName("task", task) != nil {
		return
	}
	if a.noted == nil {
		a.noted = map[string]struct{}{}
	}
	a.noted[task] = struct{}{}
	fmt.Fprintf(a.err, "weir: note: %s: its jobs wait until a process runs it\n", printable(f.NoTask(task)))
}

func (a *app) enqueueOne(ctx context.Context, c *queue.Client, job queue.NewJob) error {
	receipt, err := c.Enqueue(ctx, job)
	if err != nil {
		return unknownOutcome(asUsage(err), receipt.ID)
	}
	if a.json {
		return a.document(receipt)
	}
	a.receipts([]queue.Receipt{receipt})
	return nil
}

// unknownOutcome says how to make sure that a job is there once.
func unknownOutcome(err error, id string) error {
	if errors.Is(err, queue.ErrOutcomeUnknown) && id != "" {
		return fmt.Errorf("%w: repeat the call with --id %s, and there will be one job", err, id)
	}
	return err
}

// receipts prints ids on standard output, where scripts take them, and what
// there is to say about them beside it.
func (a *app) receipts(receipts []queue.Receipt) {
	duplicates, existed := int64(0), int64(0)
	for _, r := range receipts {
		fmt.Fprintln(a.out, r.ID)
		if r.Duplicate {
			duplicates++
		}
		if r.Existed {
			existed++
		}
	}
	if duplicates > 0 {
		fmt.Fprintf(a.err, "weir: %s not stored: a live job holds the unique key, and its id was printed\n", count(duplicates, "job"))
	}
	if existed > 0 {
		fmt.Fprintf(a.err, "weir: %s not stored: a job with that id was there already\n", count(existed, "job"))
	}
}

// enqueueCount enqueues a job many times, a batch a transaction.
func (a *app) enqueueCount(ctx context.Context, c *queue.Client, job queue.NewJob, n int) error {
	all := list[queue.Receipt]{Items: make([]queue.Receipt, 0, n)}
	var failed error
	for left := n; left > 0 && failed == nil; {
		jobs := make([]queue.NewJob, min(left, countBatch))
		for i := range jobs {
			jobs[i] = job
		}
		receipts, err := c.EnqueueMany(ctx, jobs)
		if err != nil {
			failed = asUsage(err)
			if len(all.Items) > 0 {
				failed = fmt.Errorf("%w (%s were stored before)", failed, count(int64(len(all.Items)), "job"))
			}
			break
		}
		left -= len(jobs)
		all.Items = append(all.Items, receipts...)
	}
	switch {
	case failed != nil && len(all.Items) == 0:
	case a.json:
		failed = errors.Join(failed, a.document(all))
	default:
		a.receipts(all.Items)
	}
	return failed
}
