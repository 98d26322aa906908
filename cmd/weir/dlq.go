package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

// filterFlags select dead letters.
type filterFlags struct {
	kind, task, queue, reason, text string
	olderThan, newerThan            time.Duration
}

func (s *filterFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.kind, "kind", "", "those of this `KIND`: shed, failed, expired")
	f.StringVar(&s.task, "task", "", "those of this `TASK`")
	f.StringVar(&s.queue, "queue", "", "those in this `QUEUE`")
	f.StringVar(&s.reason, "reason", "", "those whose reason begins with `TEXT`")
	f.StringVar(&s.text, "text", "", "those with `TEXT` in the reason, the arguments (up to 4 KiB), the job's metadata or the unique key")
	f.DurationVar(&s.olderThan, "older-than", 0, "those that died longer ago than `TIME`, as in 24h")
	f.DurationVar(&s.newerThan, "newer-than", 0, "those that died less long ago than `TIME`, as in 1h")
}

// filter is what the flags select. It is checked before anything is opened.
func (s *filterFlags) filter(cmd *cobra.Command) (dlq.Filter, error) {
	f := dlq.Filter{Task: s.task, Queue: s.queue, Reason: s.reason, Text: s.text, OlderThan: s.olderThan, NewerThan: s.newerThan}
	if err := notEmpty(cmd, "kind", "task", "queue", "reason", "text"); err != nil {
		return f, err
	}
	if s.kind != "" {
		kind, err := dlq.ParseKind(s.kind)
		if err != nil {
			return f, wrong(cmd, "%w", err)
		}
		f.Kind = kind
	}
	for name, d := range map[string]time.Duration{"older-than": s.olderThan, "newer-than": s.newerThan} {
		if cmd.Flags().Changed(name) && d <= 0 {
			return f, wrong(cmd, "--%s %v: use a time above 0, as in 24h", name, d)
		}
	}
	return f, nil
}

func (a *app) dlqList() *cobra.Command {
	var chosen filterFlags
	var limit int
	var cursor string
	var oldest, count bool
	cmd := &cobra.Command{
		Use: "list", Short: "List dead letters, the latest first", Args: noArgs,
		Long: `Lists dead letters in the order of their death, the latest first. --count tells
how many there are instead: exactly up to 10,000, and whatever their number
where no more than a kind, a task and a reason is asked for.`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter, err := chosen.filter(cmd)
		if err == nil {
			err = (&pageFlags{limit: limit}).check(cmd)
		}
		if err != nil {
			return err
		}
		filter.Limit, filter.Cursor, filter.OldestFirst = limit, cursor, oldest
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			if count {
				return a.countLetters(cmd.Context(), letters, filter)
			}
			page, err := fullPage(cmd.Context(), letters, filter)
			if err != nil {
				return asUsage(err)
			}
			if a.json {
				return a.document(page)
			}
			a.lettersTable(page)
			return nil
		})
	}
	chosen.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&oldest, "oldest", false, "the oldest first")
	f.BoolVar(&count, "count", false, "only tell how many there are")
	f.IntVar(&limit, "limit", dlq.DefaultLimit, fmt.Sprintf("how many, `N` from 1 to %d", dlq.LargestLimit))
	f.StringVar(&cursor, "cursor", "", "go on behind a page: its \"next\"")
	return cmd
}

// fullPage goes on where a page has fewer letters than it could, because few of
// those that were looked at are selected.
func fullPage(ctx context.Context, letters *dlq.Letters, f dlq.Filter) (dlq.Page, error) {
	page, err := letters.List(ctx, f)
	for limit := f.Limit; err == nil && page.Next != "" && len(page.Items) < limit; {
		f.Limit, f.Cursor = limit-len(page.Items), page.Next
		var more dlq.Page
		if more, err = letters.List(ctx, f); err == nil {
			page.Items, page.Next = append(page.Items, more.Items...), more.Next
		}
	}
	return page, err
}

func (a *app) countLetters(ctx context.Context, letters *dlq.Letters, f dlq.Filter) error {
	n, err := letters.Count(ctx, f)
	if err != nil {
		return asUsage(err)
	}
	if a.json {
		return a.document(n)
	}
	fmt.Fprintln(a.out, capped(n.N, n.Capped))
	return nil
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
	var raw bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one dead letter: its arguments, its errors, and what a replay would do",
		Args: args(1, 1, "a dead letter by its number, or by its job's id"),
	}
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		if raw && a.json {
			return wrong(cmd, "--raw with --json: give one of the two")
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			e, err := letters.Get(cmd.Context(), ids[0])
			if err != nil {
				return asUsage(err)
			}
			switch {
			case raw:
				_, err = a.out.Write(e.RawArgs)
				return err
			case a.json:
				return a.document(e)
			}
			preview, err := letters.Preview(cmd.Context(), e)
			if err != nil {
				return err
			}
			a.letterFields(e, &preview)
			return nil
		})
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the arguments alone, byte for byte")
	return cmd
}

func (a *app) letterFields(e *dlq.Entry, p *dlq.Preview) {
	retries, timeout := "the task's", "the task's"
	if e.MaxRetries != nil {
		retries = number(*e.MaxRetries)
	}
	if e.Timeout > 0 {
		timeout = e.Timeout.String()
	}
	a.fields(
		[2]string{"id", e.ID},
		[2]string{"job", e.JobID},
		[2]string{"task", e.Task},
		[2]string{"queue", e.Queue},
		[2]string{"kind", string(e.Kind)},
		[2]string{"reason", strings.TrimRight(e.Reason, "\n")},
		[2]string{"metadata", string(e.Metadata)},
		[2]string{"attempts", number(e.Attempts)},
		[2]string{"priority", number(e.Priority)},
		[2]string{"max retries", retries},
		[2]string{"timeout", timeout},
		[2]string{"deferrals", number(e.Deferrals)},
		[2]string{"replays", number(e.Replays)},
		[2]string{"unique key", e.UniqueKey},
		[2]string{"enqueued", a.at(e.EnqueuedAt)},
		[2]string{"first due", a.at(e.FirstDueAt)},
		[2]string{"died", a.at(e.DeadAt)},
		[2]string{"job metadata", string(e.JobMetadata)},
		[2]string{"args", prettyArgs(e)},
	)
	for _, x := range e.Errors {
		a.attempt(x.Attempt, a.at(x.At), x.Error)
	}
	fmt.Fprintln(a.out)
	for _, line := range a.replayWords(e, p) {
		fmt.Fprintln(a.out, printable(line))
	}
}

// prettyArgs shows arguments that are JSON over as many lines as they have
// parts, and says how to see others.
func prettyArgs(e *dlq.Entry) string {
	var out bytes.Buffer
	switch {
	case len(e.RawArgs) == 0:
		return "none"
	case e.Args == nil || json.Indent(&out, e.RawArgs, "", "  ") != nil:
		return fmt.Sprintf("%d bytes that are not JSON: --raw prints them", len(e.RawArgs))
	}
	return strings.TrimSpace(out.String())
}

// replayWords say what a replay would do, and how to ask for one.
func (a *app) replayWords(e *dlq.Entry, p *dlq.Preview) (lines []string) {
	if !p.RetryAt.IsZero() {
		lines = append(lines, fmt.Sprintf("it is retried by itself %s: replay %d of %d", a.ago(p.RetryAt), e.Replays+1, p.Retries))
	}
	if p.DuplicateOf != "" {
		return append(lines, "a replay would change nothing now: job "+p.DuplicateOf+" lives and holds its unique key")
	}
	what := "a replay makes a new job of it, with up to " + count(int64(p.Starts), "start")
	if len(p.Limits) > 0 {
		what += ", under " + strings.Join(p.Limits, ", ")
	}
	if !p.Registered {
		what += "; no process has registered the task, so it would wait"
	}
	return append(lines, what+":", "  "+a.again("dlq replay "+e.ID))
}

// selection names dead letters to act on: by ids, or by a filter.
type selection struct {
	filterFlags

	yes, dry bool
}

func (s *selection) register(cmd *cobra.Command) {
	s.filterFlags.register(cmd)
	cmd.Flags().BoolVarP(&s.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&s.dry, "dry-run", false, "tell what would be done, and do nothing")
}

func (s *selection) check(cmd *cobra.Command, ids []string) (dlq.Filter, error) {
	f, err := s.filter(cmd)
	if err != nil {
		return f, err
	}
	byFilter := f != dlq.Filter{}
	switch {
	case len(ids) == 0 && !byFilter:
		return f, wrong(cmd, "name dead letters by their ids, or by --kind or --task")
	case len(ids) > 0 && byFilter:
		return f, wrong(cmd, "name dead letters by their ids or by a filter, not by both")
	case byFilter && f.Kind == "" && f.Task == "":
		return f, wrong(cmd, "that would select too much to be meant: name --kind or --task as well")
	}
	return f, nil
}

// ask asks before more than one dead letter is touched. Where nobody can be
// asked, a filter needs a word that it is meant.
func (a *app) ask(cmd *cobra.Command, letters *dlq.Letters, s *selection, f dlq.Filter, ids []string, verb string) error {
	switch {
	case s.yes || s.dry || len(ids) == 1:
		return nil
	case !a.inTerminal && len(ids) > 0:
		return nil
	case !a.inTerminal:
		return wrong(cmd, "nobody is there to be asked: add --yes to %s what the filter selects, or --dry-run to see how many that are", verb)
	}
	n := dlq.Count{N: int64(len(ids))}
	if len(ids) == 0 {
		var err error
		if n, err = letters.Count(cmd.Context(), f); err != nil {
			return asUsage(err)
		}
	}
	switch {
	case n.Capped:
		return a.confirm(false, fmt.Sprintf("%s %d dead letters or more?", verb, n.N))
	case n.N > 1:
		return a.confirm(false, fmt.Sprintf("%s %d dead letters?", verb, n.N))
	}
	return nil
}
