package queue

import (
	"context"
	"errors"
	"fmt"
)

// A Task is the name of a task together with the type of its arguments. One
// declaration serves the producers and the handler:
//
//	var SendEmail = queue.Task[EmailArgs]("send_email")
type Task[Args any] string

// Enqueue stores a job of the task; see [Client.Enqueue].
func (t Task[Args]) Enqueue(ctx context.Context, c *Client, args Args, opts ...EnqueueOption) (Receipt, error) {
	job, err := t.job(args, opts)
	if err != nil {
		return Receipt{}, err
	}
	return c.Enqueue(ctx, job)
}

// EnqueueMany stores a job for each of args in one transaction, all or none,
// and answers in their order; see [Client.EnqueueMany]. The options are the
// same for all.
func (t Task[Args]) EnqueueMany(ctx context.Context, c *Client, args []Args, opts ...EnqueueOption) ([]Receipt, error) {
	jobs, err := t.jobs(args, opts)
	if err != nil {
		return nil, err
	}
	return c.EnqueueMany(ctx, jobs)
}

// EnqueueTx stores a job in the caller's own transaction; see
// [Client.EnqueueTx].
func (t Task[Args]) EnqueueTx(ctx context.Context, c *Client, tx Tx, args Args, opts ...EnqueueOption) (Receipt, error) {
	job, err := t.job(args, opts)
	if err != nil {
		return Receipt{}, err
	}
	return c.EnqueueTx(ctx, tx, job)
}

// EnqueueManyTx stores a job for each of args in the caller's own transaction;
// see [Client.EnqueueTx].
func (t Task[Args]) EnqueueManyTx(ctx context.Context, c *Client, tx Tx, args []Args, opts ...EnqueueOption) ([]Receipt, error) {
	jobs, err := t.jobs(args, opts)
	if err != nil {
		return nil, err
	}
	return c.EnqueueManyTx(ctx, tx, jobs)
}

func (t Task[Args]) job(args Args, opts []EnqueueOption) (NewJob, error) {
	jobs, err := t.build([]Args{args}, opts)
	if err != nil {
		return NewJob{}, err
	}
	return jobs[0], nil
}

func (t Task[Args]) jobs(args []Args, opts []EnqueueOption) ([]NewJob, error) {
	jobs, err := t.build(args, opts)
	if err == nil && len(jobs) > 0 && jobs[0].ID != "" {
		err = t.named(&InvalidError{Field: "id", Value: quote(jobs[0].ID), Problem: "many jobs cannot have one id: enqueue them one by one, or as NewJobs"})
	}
	return jobs, err
}

// build makes a job for each of args. The options are asked once: they are the
// same for all.
func (t Task[Args]) build(args []Args, opts []EnqueueOption) ([]NewJob, error) {
	base := NewJob{Task: string(t)}
	for i, opt := range opts {
		if err := apply(i, opt, &base); err != nil {
			return nil, t.named(err)
		}
	}
	jobs := make([]NewJob, len(args))
	for i := range args {
		jobs[i] = base
		var err error
		if jobs[i].Args, err = Encode(args[i]); err != nil {
			return nil, t.named(err)
		}
	}
	return jobs, nil
}

// named says whose job is invalid.
func (t Task[Args]) named(err error) error {
	if invalid, ok := errors.AsType[*InvalidError](err); ok && invalid.Task == "" {
		invalid.Task = string(t)
	}
	return fmt.Errorf("enqueue: %w", err)
}
