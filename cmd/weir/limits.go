package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func (a *app) limitsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List limits: how full their buckets are, and what waits", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				limits, err := c.Limits(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.document(list[queue.LimitInfo]{Items: limits})
				}
				rows := make([][]string, 0, len(limits))
				for i := range limits {
					l := &limits[i]
					rows = append(rows, []string{
						l.Name, rate(l), level(l), a.until(l), capped(l.Waiting, l.WaitingCapped),
						number(l.Started), number(l.Deferred), number(l.Shed), a.override(l),
					})
				}
				a.table("limits: a scheduler declares them", []string{"LIMIT", "RATE", "LEVEL", "HELD", "WAITING", "STARTED", "DEFERRED", "SHED", "OVERRIDE"}, rows)
				return nil
			})
		},
	}
}

// rate is a limit's rate and burst, and whether an operator set them.
func rate(l *queue.LimitInfo) string {
	if l.Source == queue.SourceOverride {
		return rateAndBurst(l) + " (override)"
	}
	return rateAndBurst(l)
}

func rateAndBurst(l *queue.LimitInfo) string {
	if l.Burst != nil {
		return fmt.Sprintf("%s burst %d", l.Rate, *l.Burst)
	}
	return l.Rate
}

func level(l *queue.LimitInfo) string {
	return decimal(l.Level) + " of " + decimal(l.Capacity)
}

// room is what a window has left.
func room(l *queue.LimitInfo) string { return level(l) + " left" }

// decimal writes tokens with at most two decimals.
func decimal(v float64) string {
	text := strconv.FormatFloat(v, 'f', 2, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// override says when an operator's rate ends, and why it is there.
func (a *app) override(l *queue.LimitInfo) string {
	if l.Source != queue.SourceOverride {
		return ""
	}
	text := untilUnset
	if !l.OverrideUntil.IsZero() {
		text = "ends " + a.ago(l.OverrideUntil)
	}
	if l.OverrideReason != "" {
		text += ": " + l.OverrideReason
	}
	return text
}

const untilUnset = "until it is unset"

// until says for how long a limit is held.
func (a *app) until(l *queue.LimitInfo) string {
	switch {
	case l.Paused:
		return "paused"
	case l.HeldUntil.IsZero():
		return "-"
	}
	return a.ago(l.HeldUntil)
}

func (a *app) limitsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show one limit", Args: args(1, 1, "one limit, as limits list shows it"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				l, err := c.Limit(cmd.Context(), names[0])
				if err != nil {
					return limitError(cmd.Context(), c, names[0], err)
				}
				if a.json {
					return a.document(l)
				}
				a.limitFields(l)
				return nil
			})
		},
	}
}

func (a *app) limitFields(l *queue.LimitInfo) {
	held := a.at(l.HeldUntil)
	if held == "" {
		held = "no"
	}
	level, next := level(l), [2]string{"next token", a.at(l.NextTokenAt)}
	switch {
	case l.Strategy == string(scheduler.FixedWindow):
		level, next = room(l), [2]string{"next window", a.at(l.NextTokenAt)}
		switch {
		case l.Capacity == 0:
			next[1] = "none: a limit of 0 lets nothing start"
		case next[1] == "":
			next[1] = "at the next start"
		}
	case next[1] == "":
		next[1] = "the bucket is full"
	}
	override := a.at(l.OverrideUntil)
	if override == "" && l.Source == queue.SourceOverride {
		override = untilUnset
	}
	a.fields(
		[2]string{"limit", l.Name},
		[2]string{"rate", rate(l)},
		[2]string{"strategy", l.Strategy},
		[2]string{"source", l.Source},
		[2]string{"override until", override},
		[2]string{"override reason", l.OverrideReason},
		[2]string{"tasks", strings.Join(l.Tasks, ", ")},
		[2]string{"queues", strings.Join(l.Queues, ", ")},
		[2]string{"level", level},
		[2]string{"held until", held},
		next,
		[2]string{"paused", yes(l.Paused)},
		[2]string{"waiting", capped(l.Waiting, l.WaitingCapped)},
		[2]string{"started", number(l.Started)},
		[2]string{"deferred", number(l.Deferred)},
		[2]string{"shed", number(l.Shed)},
		[2]string{"problem", l.Problem},
	)
}
