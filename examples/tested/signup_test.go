package tested_test

import (
	"slices"
	"testing"
	"time"

	"github.com/weirq/weir/examples/tested"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

func TestAWelcomeIsSentOnceAnHourAfterTheSignUp(t *testing.T) {
	clock := queuetest.NewClock(time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC))
	client := queuetest.Open(t, queue.WithClock(clock))
	var sent []string
	s, err := tested.NewScheduler(client, func(address string) error {
		sent = append(sent, address)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	for range 2 { // they pressed the button twice
		if err := tested.SignUp(t.Context(), client, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	queuetest.RequireEnqueued(t, client, tested.SendWelcome, func(job queuetest.Enqueued[tested.Welcome]) bool {
		return job.Args.To == "ada@example.com"
	})
	queuetest.Drain(t, s)
	if len(sent) > 0 {
		t.Fatalf("sent at once: %v", sent)
	}
	queuetest.AdvanceAndDrain(t, clock, s, time.Hour)
	if !slices.Equal(sent, []string{"ada@example.com"}) {
		t.Fatalf("sent: %v", sent)
	}
	queuetest.RequireNotEnqueued(t, client, tested.SendWelcome)
}
