package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

func (a *app) tasksList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List tasks as they were last registered, and those that jobs wait for in vain", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				tasks, err := c.Tasks(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.document(list[queue.TaskInfo]{Items: tasks})
				}
				rows := make([][]string, 0, len(tasks))
				for i := range tasks {
					t := &tasks[i]
					limit, excess := limitOf(t.Definition)
					registered := "never: no handler"
					if !t.RegisteredAt.IsZero() {
						registered = a.ago(t.RegisteredAt)
					}
					rows = append(rows, []string{
						t.Name, t.Queue, limit, excess, number(t.MaxRetries), capped(t.Waiting, t.WaitingCapped), registered,
					})
				}
				a.table("tasks: a scheduler registers them", []string{"TASK", "QUEUE", "RATE", "EXCESS", "MAX RETRIES", "WAITING", "REGISTERED"}, rows)
				return nil
			})
		},
	}
}

// limitOf reads what a table shows of a task's definition.
func limitOf(definition []byte) (limit, excess string) {
	var d struct {
		RateLimit string `json:"rate_limit"`
		Burst     int64  `json:"burst"`
		OnExcess  string `json:"on_excess"`
	}
	if json.Unmarshal(definition, &d) != nil || d.RateLimit == "" {
		return "", d.OnExcess
	}
	if d.Burst > 0 {
		d.RateLimit += fmt.Sprintf(" burst %d", d.Burst)
	}
	return d.RateLimit, d.OnExcess
}
