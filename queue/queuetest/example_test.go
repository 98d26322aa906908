package queuetest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/queue/queuetest"
)

// exampleT stands for the *testing.T that a test has.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()           {}
func (t *exampleT) Cleanup(do func()) { t.cleanups = append(t.cleanups, do) }

func (t *exampleT) TempDir() string {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		panic(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (t *exampleT) end() {
	for i := range t.cleanups {
		t.cleanups[len(t.cleanups)-1-i]()
	}
}

// signUp is what the program under test does.
func signUp(client *queue.Client, name string) error {
	_, err := sendEmail.Enqueue(context.Background(), client, emailArgs{To: name}, queue.Delay(time.Hour))
	return err
}

func Example() {
	t := &exampleT{} // in a test: the test's own
	defer t.end()
	clock := queuetest.NewClock(time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC))
	client := queuetest.Open(t, queue.WithClock(clock))

	if err := signUp(client, "ada"); err != nil {
		t.Fatal(err)
	}
	jobs := queuetest.RequireEnqueued(t, client, sendEmail)
	fmt.Println(jobs[0].Args.To, jobs[0].RunAt.Format(time.TimeOnly))
	// Output: ada 10:00:00
}

func ExampleRequireEnqueued() {
	t := &exampleT{}
	defer t.end()
	client := queuetest.Open(t)
	_ = signUp(client, "ada")
	_ = signUp(client, "bob")

	jobs := queuetest.RequireEnqueued(t, client, sendEmail, func(job queuetest.Enqueued[emailArgs]) bool { return job.Args.To == "bob" })
	fmt.Println(len(jobs), jobs[0].Task, jobs[0].State)
	// Output: 1 send_email scheduled
}

func ExampleRequireNotEnqueued() {
	t := &exampleT{}
	defer t.end()
	client := queuetest.Open(t)

	queuetest.RequireNotEnqueued(t, client, sendEmail)
	fmt.Println("nothing is pending")
	// Output: nothing is pending
}

// clockwork stands for a scheduler that was made with the clock.
type clockwork struct{ *queuetest.Clock }

func (c clockwork) Drain(context.Context) error {
	_, err := fmt.Fprintln(os.Stdout, "ran what was due at", c.Now().Format(time.TimeOnly))
	return err
}

func ExampleAdvanceAndDrain() {
	t := &exampleT{}
	defer t.end()
	clock := queuetest.NewClock(time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC))
	s := clockwork{clock}

	queuetest.Drain(t, s)
	queuetest.AdvanceAndDrain(t, clock, s, time.Hour)
	// Output:
	// ran what was due at 09:00:00
	// ran what was due at 10:00:00
}

func ExampleNewClock() {
	clock := queuetest.NewClock(time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC))
	clock.Advance(90 * time.Minute)
	fmt.Println(clock.Now().Format(time.TimeOnly))
	// Output: 10:30:00
}
