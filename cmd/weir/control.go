package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/suggest"
	"github.com/weirq/weir/queue"
)

const oneLimit = "one limit, as limits list shows it"

// setFlags are those of limits set.
type setFlags struct {
	burst  int64
	length time.Duration
	reason string
}

func (a *app) limitsSet() *cobra.Command {
	var f setFlags
	cmd := &cobra.Command{
		Use: "set NAME RATE", Short: "Override a limit's rate, in every process within a second",
		Long: `Overrides the rate of a limit, whatever the processes declare, in all of them
within a second. What is in the bucket stays, cut to the new capacity. It holds
until "limits unset", or for the time that --for gives.

  weir limits set stripe 20/m --for 1h --reason "their incident 4711"`,
		Args: args(2, 2, "a limit and a rate"),
	}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		name := words[0]
		if err := f.check(cmd, name); err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			err := c.SetLimit(cmd.Context(), name, queue.Override{Rate: words[1], Burst: f.burst, For: f.length, Reason: f.reason})
			if err != nil {
				return limitError(cmd.Context(), c, name, err)
			}
			return a.limitNow(cmd.Context(), c, name, func(l *queue.LimitInfo) string {
				until := untilUnset
				if !l.OverrideUntil.IsZero() {
					until = "until " + a.at(l.OverrideUntil)
				}
				return "set to " + rateAndBurst(l) + " " + until
			})
		})
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.burst, "burst", 0, "`N` that may start at once (default: the rate's count)")
	flags.DurationVar(&f.length, "for", 0, "`TIME` after which it ends by itself, as in 1h (default: when it is unset)")
	flags.StringVar(&f.reason, "reason", "", "`TEXT` that tells people why")
	return cmd
}

// check refuses what would mean something else if it were left out.
func (f *setFlags) check(cmd *cobra.Command, name string) error {
	if cmd.Flags().Changed("burst") {
		if err := bucket.CheckBurst(f.burst); err != nil {
			return usage("limit %q: %w", name, err)
		}
	}
	if cmd.Flags().Changed("for") && f.length <= 0 {
		return wrong(cmd, "--for %v: use a time above 0, or leave it out for one without an end", f.length)
	}
	return notEmpty(cmd, "reason")
}

func (a *app) limitsUnset() *cobra.Command {
	return a.limitCommand("unset", "Take an override away: the rate that the processes declare is in force again", "unset", (*queue.Client).UnsetLimit)
}

func (a *app) limitsPause() *cobra.Command {
	return a.limitCommand("pause", "Stop starting what a limit covers, in every process within a second", "paused", (*queue.Client).PauseLimit)
}

func (a *app) limitsResume() *cobra.Command {
	return a.limitCommand("resume", "Let a paused limit go on", "resumed", (*queue.Client).ResumeLimit)
}

func (a *app) limitCommand(verb, short, done string, do func(*queue.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: args(1, 1, oneLimit),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				if err := do(c, cmd.Context(), names[0]); err != nil {
					return limitError(cmd.Context(), c, names[0], err)
				}
				return a.limitNow(cmd.Context(), c, names[0], func(*queue.LimitInfo) string { return done })
			})
		},
	}
}

// limitError proposes the limit that was probably meant by a name that none has.
func limitError(ctx context.Context, c *queue.Client, name string, err error) error {
	if !errors.Is(err, queue.ErrNotFound) {
		return asUsage(err)
	}
	limits, other := c.Limits(ctx)
	if other != nil {
		return err // which says enough
	}
	names := make([]string, len(limits))
	for i := range limits {
		names[i] = limits[i].Name
	}
	near := suggest.Nearest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, ":"+name) }); i >= 0 { // its prefix is missing
		near = names[i]
	}
	if near != "" {
		err = fmt.Errorf("%w: did you mean %q?", err, near)
	}
	return err
}

// limitNow shows what a limit has become.
func (a *app) limitNow(ctx context.Context, c *queue.Client, name string, became func(*queue.LimitInfo) string) error {
	l, err := c.Limit(ctx, name)
	if err != nil {
		return err
	}
	if a.json {
		return a.document(l)
	}
	fmt.Fprintf(a.out, "%s %s\n", printable(name), became(l))
	return nil
}

func (a *app) queuesPause() *cobra.Command {
	return a.queueCommand("pause", "Stop starting jobs of a queue, in every process within a second", "paused", (*queue.Client).PauseQueue)
}

func (a *app) queuesResume() *cobra.Command {
	return a.queueCommand("resume", "Let a paused queue go on", "resumed", (*queue.Client).ResumeQueue)
}

func (a *app) queueCommand(verb, short, done string, do func(*queue.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: args(1, 1, "one queue"),
		RunE: func(cmd *cobra.Command, names []string) error {
			name := names[0]
			return a.with(cmd.Context(), func(c *queue.Client) error {
				if err := queue.CheckName("queue", name); err != nil {
					return asUsage(err)
				}
				if verb == "pause" {
					if err := a.noteQueue(cmd.Context(), c, name); err != nil {
						return err
					}
				}
				if err := do(c, cmd.Context(), name); err != nil {
					return asUsage(err)
				}
				if !a.json {
					fmt.Fprintf(a.out, "%s %s\n", printable(name), done)
					return nil
				}
				queues, err := c.Queues(cmd.Context())
				if err != nil {
					return err
				}
				i := slices.IndexFunc(queues, func(q queue.QueueInfo) bool { return q.Name == name })
				if i < 0 { // resumed, and nothing else names it
					return a.document(queue.QueueInfo{Name: name})
				}
				return a.document(queues[i])
			})
		},
	}
}

// noteQueue says of a queue that nothing names so far: it may be misspelt.
func (a *app) noteQueue(ctx context.Context, c *queue.Client, name string) error {
	queues, err := c.Queues(ctx)
	if err != nil {
		return err
	}
	limits, err := c.Limits(ctx)
	if err != nil {
		return err
	}
	var known []string
	for i := range queues {
		known = append(known, queues[i].Name)
	}
	for i := range limits {
		known = append(known, limits[i].Queues...)
	}
	if slices.Contains(known, name) {
		return nil
	}
	mend := ""
	if near := suggest.Nearest(name, known); near != "" {
		mend = fmt.Sprintf(": did you mean %q?", near)
	}
	fmt.Fprintf(a.err, "weir: note: no task, limit or job names the queue %q so far%s\n", name, mend)
	return nil
}
