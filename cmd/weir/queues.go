package main

import (
	"github.com/spf13/cobra"

	"github.com/weirq/weir/queue"
)

func (a *app) queuesList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List queues and what is in them", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *queue.Client) error {
				queues, err := c.Queues(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.document(list[queue.QueueInfo]{Items: queues})
				}
				a.queuesTable(queues)
				return nil
			})
		},
	}
}

func (a *app) queuesTable(queues []queue.QueueInfo) {
	rows := make([][]string, 0, len(queues))
	for i := range queues {
		q := &queues[i]
		rows = append(rows, []string{
			q.Name, capped(q.Waiting, q.WaitingCapped), capped(q.Scheduled, q.ScheduledCapped),
			capped(q.Running, q.RunningCapped), a.ago(q.OldestWaitingAt), yes(q.Paused),
		})
	}
	a.table("queues", []string{"QUEUE", "WAITING", "SCHEDULED", "RUNNING", "OLDEST DUE", "PAUSED"}, rows)
}
