package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

// strategy is what migrate strategy tells, in JSON.
type strategy struct {
	Strategy       *string `json:"strategy"` // null: no process has run jobs yet
	Was            *string `json:"was"`
	OverridesUnset int64   `json:"overrides_unset"`
}

func (a *app) migrateStrategy() *cobra.Command {
	return &cobra.Command{
		Use: "strategy [NAME]", Short: "Show the database's strategy, or switch it to token_bucket or fixed_window",
		Long: `Shows the strategy under which the jobs of the database run, or switches it to
token_bucket or fixed_window. The first process that runs jobs stores its own; one
that comes with the other one refuses to start. It is switched only while no process
runs jobs: stop them first; one that was killed counts for another 30 s. Jobs, pauses
and counters stay. Overrides of limits are unset.`,
		Args: args(0, 1, "one strategy"),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				was, err := c.Strategy(cmd.Context())
				if err != nil {
					return err
				}
				out := strategy{Strategy: orNull(was), Was: orNull(was)}
				if len(names) == 1 {
					done, err := c.SwitchStrategy(cmd.Context(), names[0])
					if err != nil {
						return asUsage(err)
					}
					out = strategy{Strategy: &done.To, Was: orNull(done.From), OverridesUnset: done.Overrides}
				}
				return a.printStrategy(out)
			})
		},
	}
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *app) printStrategy(s strategy) error {
	switch {
	case a.json:
		return a.document(s)
	case s.Strategy == nil:
		fmt.Fprintln(a.out, "no strategy: the first process that runs jobs stores its own")
	case s.Was == nil || *s.Was == *s.Strategy:
		fmt.Fprintf(a.out, "strategy %s\n", *s.Strategy)
	default:
		fmt.Fprintf(a.out, "strategy %s, it was %s\n", *s.Strategy, *s.Was)
		if s.OverridesUnset > 0 {
			fmt.Fprintf(a.out, "%s unset\n", count(s.OverridesUnset, "override"))
		}
	}
	return nil
}
