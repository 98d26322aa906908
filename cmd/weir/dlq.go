package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

func (a *app) dlqList() *cobra.Command {
	var page pageFlags
	var kind string
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, the latest first", Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(page.check(cmd), notEmpty(cmd, "kind")); err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters, err := dlq.From(c).List(cmd.Context(), dlq.Filter{
				Kind: dlq.Kind(kind), Task: page.task, Queue: page.queue, Limit: page.limit, Cursor: page.cursor,
			})
			if err != nil {
				return asUsage(err)
			}
			if a.json {
				return a.document(letters)
			}
			a.lettersTable(letters)
			return nil
		})
	}
	page.register(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "only of this `KIND`: shed, failed, expired")
	return cmd
}

func (a *app) lettersTable(page dlq.Page) {
	rows := make([][]string, 0, len(page.Items))
	for i := range page.Items {
		e := &page.Items[i]
		rows = append(rows, []string{e.ID, string(e.Kind), e.Task, e.Queue, number(e.Attempts), a.ago(e.DeadAt), e.Reason})
	}
	a.table("dead letters", []string{"ID", "KIND", "TASK", "QUEUE", "ATTEMPTS", "DIED", "REASON"}, rows)
	a.more(page.Next)
}

func (a *app) dlqShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show one dead letter with its arguments and errors", Args: args(1, 1, "a dead letter by its number, or by its job's id"),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				e, err := dlq.From(c).Get(cmd.Context(), ids[0])
				if err != nil {
					return asUsage(err)
				}
				if a.json {
					return a.document(e)
				}
				a.letterFields(e)
				return nil
			})
		},
	}
}

func (a *app) letterFields(e *dlq.Entry) {
	a.fields(
		[2]string{"id", e.ID},
		[2]string{"job", e.JobID},
		[2]string{"task", e.Task},
		[2]string{"queue", e.Queue},
		[2]string{"kind", string(e.Kind)},
		[2]string{"reason", cell(e.Reason)},
		[2]string{"metadata", string(e.Metadata)},
		[2]string{"attempts", number(e.Attempts)},
		[2]string{"priority", number(e.Priority)},
		[2]string{"deferrals", number(e.Deferrals)},
		[2]string{"replays", number(e.Replays)},
		[2]string{"unique key", e.UniqueKey},
		[2]string{"enqueued", a.at(e.EnqueuedAt)},
		[2]string{"first due", a.at(e.FirstDueAt)},
		[2]string{"died", a.at(e.DeadAt)},
		[2]string{"job metadata", string(e.JobMetadata)},
		[2]string{"args", shownArgs(e.Args, e.RawArgs)},
	)
	for _, x := range e.Errors {
		a.attempt(x.Attempt, a.at(x.At), x.Error)
	}
	fmt.Fprintf(a.out, "\nto run it again: weir dlq replay %s\n", e.ID)
}

func (a *app) dlqStats() *cobra.Command {
	return &cobra.Command{
		Use: "stats", Short: "Count dead letters by kind, task and reason", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				stats, err := dlq.From(c).Stats(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.document(stats)
				}
				rows := make([][]string, 0, len(stats.Groups))
				for _, g := range stats.Groups {
					rows = append(rows, []string{string(g.Kind), g.Task, number(g.Count), g.Reason})
				}
				a.table("dead letters", []string{"KIND", "TASK", "COUNT", "REASON"}, rows)
				return nil
			})
		},
	}
}

// selection names dead letters: by ids, or by a filter.
type selection struct {
	kind, task, queue string
	yes               bool
}

func (s *selection) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.kind, "kind", "", "all of this `KIND`: shed, failed, expired")
	f.StringVar(&s.task, "task", "", "all of this `TASK`")
	f.StringVar(&s.queue, "queue", "", "all of this `QUEUE`")
	f.BoolVarP(&s.yes, "yes", "y", false, "do not ask")
}

// filter is what the flags select; it is empty where ids do.
func (s *selection) filter() dlq.Filter {
	return dlq.Filter{Kind: dlq.Kind(s.kind), Task: s.task, Queue: s.queue}
}

func (s *selection) check(cmd *cobra.Command, ids []string) error {
	if err := notEmpty(cmd, "kind", "task", "queue"); err != nil {
		return err
	}
	byFilter := s.filter() != dlq.Filter{}
	switch {
	case len(ids) == 0 && !byFilter:
		return wrong(cmd, "name dead letters by their ids, or by --kind, --task or --queue")
	case len(ids) > 0 && byFilter:
		return wrong(cmd, "name dead letters by their ids or by a filter, not by both")
	}
	return nil
}

// most is up to where a question counts exactly.
const most = 1000

// ask asks before more than one dead letter is touched.
func (a *app) ask(ctx context.Context, letters *dlq.Letters, s *selection, ids []string, verb string) error {
	if s.yes || !a.inTerminal || len(ids) == 1 {
		return nil
	}
	what := count(int64(len(ids)), "dead letter")
	if len(ids) == 0 {
		filter := s.filter()
		filter.Limit = most
		page, err := letters.List(ctx, filter)
		if err != nil {
			return asUsage(err)
		}
		if what = count(int64(len(page.Items)), "dead letter"); page.Next != "" {
			what = fmt.Sprintf("more than %d dead letters", most)
		}
		if len(page.Items) < 2 {
			return nil
		}
	}
	return a.confirm(s.yes, verb+" "+what+"?")
}

func (a *app) dlqReplay() *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use: "replay [ID...]", Short: "Make new jobs of dead letters",
		Long: `Makes new jobs of dead letters, named by their numbers, by their jobs' ids, or
by a filter with a kind or a task. What was shed is replayed only by id or by
--kind shed. Where a live job holds the unique key, the dead letter stays.`,
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := s.check(cmd, ids); err != nil {
			return err
		}
		if len(ids) == 0 && s.kind == "" && s.task == "" {
			return wrong(cmd, "a queue alone would select too much to be meant: name --kind or --task as well")
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			if err := a.ask(cmd.Context(), letters, &s, ids, "replay"); err != nil {
				return err
			}
			if len(ids) > 0 {
				return a.replayIDs(cmd.Context(), letters, ids)
			}
			return a.replayWhere(cmd.Context(), letters, s.filter())
		})
	}
	s.register(cmd)
	return cmd
}

func (a *app) replayIDs(ctx context.Context, letters *dlq.Letters, ids []string) error {
	replayed, err := letters.Replay(ctx, ids...)
	if a.json {
		return asUsage(errors.Join(err, a.document(list[dlq.Replayed]{Items: replayed})))
	}
	for _, r := range replayed {
		a.replayLine(r)
	}
	return asUsage(err)
}

func (a *app) replayLine(r dlq.Replayed) {
	if r.Skipped != "" {
		fmt.Fprintf(a.out, "%s skipped: %s\n", r.ID, r.Skipped)
		return
	}
	fmt.Fprintf(a.out, "%s replayed as %s\n", r.ID, r.NewID)
}

func (a *app) replayWhere(ctx context.Context, letters *dlq.Letters, f dlq.Filter) error {
	result, err := letters.ReplayWhere(ctx, f)
	if a.json {
		return asUsage(errors.Join(err, a.document(result)))
	}
	for _, r := range result.FirstSkipped {
		a.replayLine(r)
	}
	fmt.Fprintf(a.out, "%s replayed, %d skipped\n", count(result.Replayed, "dead letter"), result.Skipped)
	return asUsage(err)
}

func (a *app) dlqPurge() *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use: "purge [ID...]", Short: "Delete dead letters",
		Long: "Deletes dead letters, named by their numbers, by their jobs' ids, or by a\nfilter. They cannot be brought back.",
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if err := s.check(cmd, ids); err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			if err := a.ask(cmd.Context(), letters, &s, ids, "delete"); err != nil {
				return err
			}
			return a.purge(cmd.Context(), letters, s.filter(), ids)
		})
	}
	s.register(cmd)
	return cmd
}

func (a *app) purge(ctx context.Context, letters *dlq.Letters, f dlq.Filter, ids []string) error {
	var purged int64
	var err error
	if len(ids) > 0 {
		purged, err = letters.Purge(ctx, ids...)
	} else {
		purged, err = letters.PurgeWhere(ctx, f)
	}
	if a.json {
		return asUsage(errors.Join(err, a.document(struct {
			Purged int64 `json:"purged"`
		}{purged})))
	}
	fmt.Fprintf(a.out, "%s deleted\n", count(purged, "dead letter"))
	return asUsage(err)
}
