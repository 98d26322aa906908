package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/queue"
)

func (a *app) dlqStats() *cobra.Command {
	var recount bool
	cmd := &cobra.Command{
		Use: "stats", Short: "Count dead letters by kind, task and reason, and those of the last day by hour", Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(cmd.Context(), func(c *queue.Client) error {
			letters := dlq.From(c)
			if recount {
				if err := letters.Recount(cmd.Context()); err != nil {
					return err
				}
			}
			stats, err := letters.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.document(stats)
			}
			a.statsTable(&stats)
			return nil
		})
	}
	cmd.Flags().BoolVar(&recount, "recount", false, "count anew, after somebody changed the table weir_dead by hand")
	return cmd
}

func (a *app) statsTable(stats *dlq.Stats) {
	rows := make([][]string, 0, len(stats.Groups))
	for _, g := range stats.Groups {
		rows = append(rows, []string{string(g.Kind), g.Task, number(g.Count), g.Reason})
	}
	a.table("dead letters", []string{"KIND", "TASK", "COUNT", "REASON"}, rows)
	if stats.GroupsCapped {
		fmt.Fprintf(a.out, "the largest %d groups\n", len(stats.Groups))
	}
	if bars := hourBars(stats.Hours, a.clock.Now()); len(bars) > 0 {
		fmt.Fprintf(a.out, "\ndied in the last %d hours, an hour each, this one last:\n", dlq.HoursShown)
		for _, line := range bars {
			fmt.Fprintln(a.out, line)
		}
	}
	for i, r := range stats.Removed {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintf(a.out, "retention has removed %s for their age and %s for their number\n", count(r.ByAge, string(r.Kind)+" one"), number(r.ByCount))
	}
}

// hourBars draws a bar for each hour, a line for each kind.
func hourBars(hours []dlq.Hour, now time.Time) (lines []string) {
	const heights = "▁▂▃▄▅▆▇█"
	first := now.UTC().Truncate(time.Hour).Add(-(dlq.HoursShown - 1) * time.Hour)
	for _, kind := range []dlq.Kind{dlq.Failed, dlq.Expired, dlq.Shed} {
		var counts [dlq.HoursShown]int64
		var sum, most int64
		for _, h := range hours {
			if i := int(h.Hour.Sub(first) / time.Hour); h.Kind == kind && i >= 0 && i < len(counts) {
				counts[i] = h.Count
				sum, most = sum+h.Count, max(most, h.Count)
			}
		}
		if sum == 0 {
			continue
		}
		var bars strings.Builder
		for _, n := range counts {
			if n == 0 {
				bars.WriteRune('·')
				continue
			}
			levels := []rune(heights)
			bars.WriteRune(levels[(n*int64(len(levels))-1)/most])
		}
		lines = append(lines, fmt.Sprintf("%-7s  %s  %d, at most %d in an hour", kind, bars.String(), sum, most))
	}
	return lines
}

func (a *app) dlqExport() *cobra.Command {
	var chosen filterFlags
	cmd := &cobra.Command{
		Use: "export", Short: "Write dead letters with all that they have, a JSON document a line, the oldest first", Args: noArgs,
		Long: `Writes dead letters to standard output, one JSON document a line, as show --json
prints them, the oldest first. However many there are, it holds few at a time.

  weir dlq export --kind failed >failed.ndjson`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter, err := chosen.filter(cmd)
		if err != nil {
			return err
		}
		filter.OldestFirst = true
		return a.with(cmd.Context(), func(c *queue.Client) error {
			_, err := dlq.From(c).Export(cmd.Context(), a.out, filter)
			return asUsage(err)
		})
	}
	chosen.register(cmd)
	return cmd
}
