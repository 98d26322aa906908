package main

import (
	"errors"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

func (a *app) audit() *cobra.Command {
	var filter queue.AuditFilter
	cmd := &cobra.Command{
		Use: "audit", Short: "List what operators did, the latest first", Args: noArgs,
		Long: `Lists what operators did to dead letters, limits, queues, schedules, jobs and the
schema, the latest first: who, when, what, and to how many. Each act was recorded
together with what it did. The actor is $WEIR_ACTOR, or else the user and the
host.`,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join((&pageFlags{limit: filter.Limit}).check(cmd), notEmpty(cmd, "actor", "action")); err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *queue.Client) error {
			page, err := c.Audit(cmd.Context(), filter)
			if err != nil {
				return asUsage(err)
			}
			if a.json {
				return a.document(page)
			}
			rows := make([][]string, 0, len(page.Items))
			for _, x := range page.Items {
				what := x.Subject
				if x.Detail != "" {
					what += " (" + x.Detail + ")"
				}
				rows = append(rows, []string{a.at(x.At), x.Actor, x.Action, number(x.Count), what})
			}
			a.table("acts of operators", []string{"WHEN", "WHO", "ACTION", "COUNT", "WHAT"}, rows)
			a.more(page.Next)
			return nil
		})
	}
	f := cmd.Flags()
	f.StringVar(&filter.Actor, "actor", "", "only of this `ACTOR`")
	f.StringVar(&filter.Action, "action", "", "only this `ACTION`, as in \"dlq replay\"")
	f.IntVar(&filter.Limit, "limit", queue.DefaultLimit, "how many, `N` from 1 to "+strconv.Itoa(queue.LargestLimit))
	f.StringVar(&filter.Cursor, "cursor", "", "go on behind a page: its \"next\"")
	return cmd
}

// actor is who runs the program: $WEIR_ACTOR, or the user and the host. Behind
// sudo it is who called that.
func (a *app) actor() string {
	if name := a.env("WEIR_ACTOR"); name != "" {
		return name
	}
	name := a.env("SUDO_USER")
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
