// Package tested shows how a program that uses Weir is tested.
package tested

import (
	"context"
	"time"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// Welcome is what the e-mail needs.
type Welcome struct {
	To string `json:"to"`
}

// SendWelcome sends an e-mail to somebody who signed up.
var SendWelcome = queue.Task[Welcome]("send_welcome")

// SignUp asks for the e-mail, an hour later.
func SignUp(ctx context.Context, client *queue.Client, address string) error {
	_, err := SendWelcome.Enqueue(ctx, client, Welcome{To: address}, queue.Delay(time.Hour), queue.UniqueKey(address))
	return err
}

// NewScheduler runs the task.
func NewScheduler(client *queue.Client, send func(address string) error) (*scheduler.Scheduler, error) {
	s, err := scheduler.New(client)
	if err != nil {
		return nil, err
	}
	return s, scheduler.Register(s, SendWelcome, func(_ context.Context, job *queue.Job[Welcome]) error {
		return send(job.Args.To)
	}, scheduler.RateLimit("100/m"))
}
