package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

const oneSchedule = "one schedule, as schedules list shows it"

func (a *app) schedulesList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List schedules and their next ticks", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				schedules, err := c.Schedules(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.document(list[queue.ScheduleInfo]{Items: schedules})
				}
				rows := make([][]string, 0, len(schedules))
				for i := range schedules {
					s := &schedules[i]
					next, then := a.next(s)
					rows = append(rows, []string{s.Name, s.Cron, s.Timezone, s.Task, s.Missed, a.ago(s.LastTickAt), next, then})
				}
				a.table("schedules: a scheduler declares them", []string{"SCHEDULE", "CRON", "TIMEZONE", "TASK", "MISSED", "LAST", "NEXT", "THEN"}, rows)
				return nil
			})
		},
	}
}

// next is a schedule's next tick and those behind it, or why there are none.
func (a *app) next(s *queue.ScheduleInfo) (next, then string) {
	switch {
	case s.Paused:
		return "paused", ""
	case !s.Declared:
		return "no process declares it", ""
	case len(s.NextTicks) == 0:
		return "", ""
	}
	return tick(s.NextTicks[0]) + " (" + a.ago(s.NextTicks[0]) + ")", listTicks(s.NextTicks[1:])
}

// tick writes a time on the clock of its zone.
func tick(t time.Time) string { return t.Format("2006-01-02 15:04:05 MST") }

func listTicks(ticks []time.Time) string {
	texts := make([]string, len(ticks))
	for i, t := range ticks {
		texts[i] = tick(t)
	}
	return strings.Join(texts, ", ")
}

func (a *app) schedulesRun() *cobra.Command {
	return &cobra.Command{
		Use: "run NAME", Short: "Enqueue a schedule's job now, also while it is paused",
		Long: `Enqueues a schedule's job now and prints its id. That is no tick: the next one
comes when it would have. Limits hold for it as for any other job.`,
		Args: args(1, 1, oneSchedule),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				receipt, err := c.RunSchedule(cmd.Context(), names[0])
				if err != nil {
					return asUsage(err)
				}
				if a.json {
					return a.document(receipt)
				}
				a.receipts([]queue.Receipt{receipt})
				return nil
			})
		},
	}
}

func (a *app) schedulesPause() *cobra.Command {
	return a.scheduleCommand("pause", "Stop firing a schedule, until it is resumed", "paused", (*queue.Client).PauseSchedule)
}

func (a *app) schedulesResume() *cobra.Command {
	return a.scheduleCommand("resume", "Let a paused schedule go on, from now", "resumed", (*queue.Client).ResumeSchedule)
}

func (a *app) scheduleCommand(verb, short, done string, do func(*queue.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: args(1, 1, oneSchedule),
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
				schedules, err := c.Schedules(cmd.Context())
				if err != nil {
					return err
				}
				i := slices.IndexFunc(schedules, func(s queue.ScheduleInfo) bool { return s.Name == name })
				if i < 0 {
					return fmt.Errorf("schedule %q: %w", name, queue.ErrNotFound)
				}
				return a.document(schedules[i])
			})
		},
	}
}
