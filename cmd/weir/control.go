package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/bucket"
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
				return asUsage(err)
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
					return asUsage(err)
				}
				return a.limitNow(cmd.Context(), c, names[0], func(*queue.LimitInfo) string { return done })
			})
		},
	}
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
				if i < 0 {
					return fmt.Errorf("queue %q: %w", name, queue.ErrNotFound)
				}
				return a.document(queues[i])
			})
		},
	}
}
