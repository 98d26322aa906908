// Package queue is what a program uses to hand in work and to see what became
// of it: open a database, enqueue jobs, list them, cancel them, and look at
// queues, tasks and limits. What runs the jobs is package scheduler; those that
// will not run again by themselves are in package dlq.
//
//	var SendEmail = queue.Task[EmailArgs]("send_email")
//
//	client, err := queue.Open(ctx, "sqlite:weir.db")
//	...
//	receipt, err := SendEmail.Enqueue(ctx, client, EmailArgs{To: "ada@example.com"}, queue.Delay(time.Minute))
//
// # What is guaranteed
//
// An enqueue that returned without an error is on disk: it survives the loss of
// the process and of power. EnqueueMany stores all of its jobs or none.
// EnqueueTx stores a job if and only if the caller's own transaction commits.
//
// Nothing is written for a call that can be seen to be wrong. Names, sizes and
// times are checked before the database is asked, so SQLite and PostgreSQL
// refuse the same, with the same words: see [InvalidError].
//
// Arguments come back byte for byte, up to 1 MiB by default ([WithMaxArgs]).
//
// Of the jobs of one task that have the same [UniqueKey], one lives at a time:
// while it waits or runs, every other enqueue answers with its id. Once it has
// ended, in whatever way, the key is free.
//
// A job has an id that the client makes, a UUIDv7; within a process the ids
// rise. An enqueue whose reply was lost is repeated by itself and found again by
// that id; where it still is not known ([ErrOutcomeUnknown]) the caller can
// enqueue again with the id in the receipt, and there is one job.
//
// # What is not guaranteed
//
// A job may be started more than once: a process that dies, or cannot renew its
// lease, leaves its jobs to be started again. Handlers must bear that.
//
// A job is not started at its time but from its time on: when its limits have a
// token, its line comes to it and a handler is free.
//
// What is read is true for the moment it was read. A page of a list is one
// moment, and the next page is another.
//
// Finished jobs are kept for a day unless the scheduler is told otherwise, and
// with them the memory of their ids: an id that the caller chose and that
// retention has taken is as good as new.
package queue
