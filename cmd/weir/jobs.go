package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/wire"
	"github.com/weirq/weir/queue"
)

// pageFlags are those of lists that come in pages.
type pageFlags struct {
	task, queue, cursor string
	limit               int
}

func (p *pageFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.task, "task", "", "only of this `TASK`")
	f.StringVar(&p.queue, "queue", "", "only in this `QUEUE`")
	f.IntVar(&p.limit, "limit", queue.DefaultLimit, fmt.Sprintf("how many, `N` from 1 to %d", queue.LargestLimit))
	f.StringVar(&p.cursor, "cursor", "", "`CURSOR`: go on behind a page: its \"next\"")
}

func (p *pageFlags) check(cmd *cobra.Command) error {
	if p.limit < 1 || p.limit > queue.LargestLimit {
		return wrong(cmd, "--limit %d: use 1 to %d", p.limit, queue.LargestLimit)
	}
	return notEmpty(cmd, "task", "queue", "cursor")
}

// notEmpty refuses a filter that is given and empty, as an unset variable of a
// script makes it: it would select all.
func notEmpty(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
			return wrong(cmd, "--%s is empty: give it a value, or leave it out", name)
		}
	}
	return nil
}

func (a *app) jobsList() *cobra.Command {
	var page pageFlags
	var states []string
	cmd := &cobra.Command{
		Use: "list", Short: "List live and finished jobs, the latest first", Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := page.check(cmd); err != nil {
			return err
		}
		if cmd.Flags().Changed("state") && len(states) == 0 {
			return wrong(cmd, "--state is empty: give it a value, or leave it out")
		}
		filter := queue.Filter{Task: page.task, Queue: page.queue, Limit: page.limit, Cursor: page.cursor}
		for _, s := range states {
			state, err := queue.ParseState(s)
			if err != nil {
				return asUsage(err)
			}
			filter.States = append(filter.States, state)
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			jobs, err := c.List(cmd.Context(), filter)
			if err != nil {
				return asUsage(err)
			}
			if a.json {
				return a.document(jobs)
			}
			a.jobsTable(jobs)
			return nil
		})
	}
	page.register(cmd)
	cmd.Flags().StringSliceVar(&states, "state", nil, "only in these `STATES`: scheduled, waiting, running, completed, cancelled, or pending for the first two")
	return cmd
}

func (a *app) jobsTable(page queue.Page[queue.JobInfo]) {
	rows := make([][]string, 0, len(page.Items))
	for i := range page.Items {
		j := &page.Items[i]
		rows = append(rows, []string{
			j.ID, j.Task, j.Queue, string(j.State), number(j.Priority), number(j.Attempt), number(j.Deferrals),
			a.ago(j.EnqueuedAt), a.moment(j), j.LastError,
		})
	}
	a.table("jobs", []string{"ID", "TASK", "QUEUE", "STATE", "PRIORITY", "ATTEMPT", "DEFERRED", "ENQUEUED", "SINCE", "LAST ERROR"}, rows)
	a.more(page.Next)
}

// moment is the time that matters most in a job's state.
func (a *app) moment(j *queue.JobInfo) string {
	switch j.State {
	case queue.StateScheduled:
		return "due " + a.ago(j.RunAt)
	case queue.StateWaiting:
		return "due " + a.ago(j.FirstDueAt)
	case queue.StateRunning:
		return a.ago(j.StartedAt)
	default:
		return a.ago(j.FinishedAt)
	}
}

func (a *app) jobsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one job with its arguments and errors", Args: jobIDs(1, 1, "one job's id"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				job, err := c.Get(cmd.Context(), ids[0])
				if err != nil {
					return asUsage(err)
				}
				if a.json {
					return a.document(job)
				}
				a.jobFields(job)
				return nil
			})
		},
	}
}

func (a *app) jobFields(j *queue.JobInfo) {
	retries, timeout := "the task's", "the task's"
	if j.MaxRetries != nil {
		retries = number(*j.MaxRetries)
	}
	if j.Timeout > 0 {
		timeout = j.Timeout.String()
	}
	a.fields(
		[2]string{"id", j.ID},
		[2]string{"task", j.Task},
		[2]string{"queue", j.Queue},
		[2]string{"state", string(j.State)},
		[2]string{"priority", number(j.Priority)},
		[2]string{"attempt", number(j.Attempt)},
		[2]string{"max retries", retries},
		[2]string{"timeout", timeout},
		[2]string{"deferrals", number(j.Deferrals)},
		[2]string{"unique key", j.UniqueKey},
		[2]string{"replay of", j.ReplayOf},
		[2]string{"enqueued", a.at(j.EnqueuedAt)},
		[2]string{"first due", a.at(j.FirstDueAt)},
		[2]string{"run at", a.at(j.RunAt)},
		[2]string{"start before", a.at(j.ExpiresAt)},
		[2]string{"started", a.at(j.StartedAt)},
		[2]string{"finished", a.at(j.FinishedAt)},
		[2]string{"metadata", string(j.Metadata)},
		[2]string{"args", shownArgs(j.Args, j.RawArgs)},
	)
	for _, e := range j.Errors {
		a.attempt(e.Attempt, a.at(e.At), e.Error)
	}
}

func (a *app) attempt(n int, at, text string) {
	fmt.Fprintf(a.out, "\nattempt %d failed %s:\n", n, at)
	for line := range strings.Lines(printable(strings.TrimRight(text, "\n"))) {
		fmt.Fprintf(a.out, "  %s\n", strings.TrimRight(line, "\n"))
	}
}

// shownArgs shows arguments that are JSON, and says how many bytes others are.
func shownArgs(shown, raw []byte) string {
	switch {
	case shown != nil:
		return string(shown)
	case len(raw) == 0:
		return "none"
	}
	return fmt.Sprintf("%d bytes that are not JSON: --json shows them in args_base64", len(raw))
}

// outcome is what became of one of several ids.
type outcome struct {
	ID    string  `json:"id"`
	State string  `json:"state"`
	Error *string `json:"error"`
}

func (a *app) jobsCancel() *cobra.Command {
	return &cobra.Command{
		Use: "cancel ID...", Short: "Cancel jobs that have not ended; a running one learns it by its context", Args: jobIDs(1, -1, "the jobs' ids"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				return a.each(ids, queue.StateCancelled, "cancelled", func(id string) error { return c.Cancel(cmd.Context(), id) })
			})
		},
	}
}

func (a *app) jobsRetry() *cobra.Command {
	return &cobra.Command{
		Use: "retry ID...", Short: "Bring scheduled jobs, and those that wait for their next attempt, into line now", Args: jobIDs(1, -1, "the jobs' ids"),
		Long: `Brings jobs that wait for their time, or for their next attempt after a
failure, into line now. Limits hold for them as for all others. A job that is
dead is replayed instead: see weir dlq replay.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				return a.each(ids, queue.StateWaiting, "brought into line", func(id string) error {
					err := c.RunNow(cmd.Context(), id)
					if dead, ok := errors.AsType[*queue.DeadError](err); ok {
						return &replayError{dead}
					}
					return err
				})
			})
		},
	}
}

// replayError says how a job that is dead comes back.
type replayError struct{ *queue.DeadError }

func (e *replayError) Error() string {
	return fmt.Sprintf("job %s is dead: make a new job of it with `weir dlq replay %s`", e.JobID, e.EntryID)
}

func (e *replayError) Unwrap() error { return e.DeadError }

// jobIDs names jobs. One that is none is refused before anything is done.
func jobIDs(least, most int, what string) cobra.PositionalArgs {
	number := args(least, most, what)
	return func(cmd *cobra.Command, ids []string) error {
		if err := number(cmd, ids); err != nil {
			return err
		}
		for _, id := range ids {
			if _, err := wire.UUID(id); err != nil {
				return wrong(cmd, "job %.80q: %w", id, err)
			}
		}
		return nil
	}
}

// each does something to several jobs and tells what became of each.
func (a *app) each(ids []string, state queue.State, done string, do func(id string) error) error {
	outcomes := list[outcome]{Items: make([]outcome, 0, len(ids))}
	var errs []error
	for _, id := range ids {
		o := outcome{ID: id, State: string(state)}
		if err := do(id); err != nil {
			text := err.Error()
			o.State, o.Error = stateAfter(err), &text
			errs = append(errs, err)
		} else if !a.json {
			fmt.Fprintf(a.out, "%s %s\n", id, done)
		}
		outcomes.Items = append(outcomes.Items, o)
	}
	if a.json {
		errs = append(errs, a.document(outcomes))
	}
	return errors.Join(errs...)
}

// stateAfter is the state of a job with which it could not be done, where it is
// known.
func stateAfter(err error) string {
	var ended *queue.NotCancellableError
	var unscheduled *queue.NotScheduledError
	var dead *queue.DeadError
	switch {
	case errors.As(err, &ended):
		return string(ended.State)
	case errors.As(err, &unscheduled):
		return string(unscheduled.State)
	case errors.As(err, &dead):
		return "dead"
	}
	return "unknown"
}
