package queue

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/weirq/weir/internal/store"
)

// A Receipt answers an enqueue that was stored, or did not have to be.
type Receipt struct {
	// ID is the job that now does the work.
	ID string `json:"id"`
	// Duplicate: another live job of the task holds the unique key; ID is that
	// job's, and nothing was stored.
	Duplicate bool `json:"duplicate"`
	// Existed: a job with the id that the caller chose was there already, live,
	// finished or dead; it was left as it is.
	Existed bool `json:"existed"`
}

// Tx is a transaction, or a connection, of the caller's own, on the database
// that holds Weir's tables: a [sql.Tx], [sql.Conn] or [sql.DB], or what another
// library wraps around them.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

var errNoClient = &InvalidError{Field: "client", Value: "nil", Problem: "open one with queue.Open"}

// tries is how often an enqueue whose reply was lost is repeated by itself.
const tries = 3

// untilKnown repeats a write whose reply was lost. From then on its outcome is
// unknown until a try succeeds, whatever else the others fail with.
func untilKnown(ctx context.Context, write func(again bool) error) error {
	err := write(false)
	for n := 1; n < tries && errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil; n++ {
		next := write(true)
		if next == nil {
			return nil
		}
		if !errors.Is(next, ErrOutcomeUnknown) {
			next = fmt.Errorf("%w: %w", ErrOutcomeUnknown, next)
		}
		err = next
	}
	return err
}

// Enqueue stores a job. When it returns without an error the job survives the
// loss of the process and of power. Enqueues from many goroutines at the same
// time share their commits.
//
// It refuses, before anything is written, what can be seen to be wrong
// ([InvalidError]). After [ErrOutcomeUnknown] the receipt has the id with which
// to enqueue again.
func (c *Client) Enqueue(ctx context.Context, job NewJob) (Receipt, error) {
	if c == nil {
		return Receipt{}, fmt.Errorf("enqueue: %w", errNoClient)
	}
	if len(c.middleware) == 0 {
		return c.insertOne(ctx, job)
	}
	out, err := c.through(ctx, []NewJob{job}, func(ctx context.Context, jobs []NewJob) ([]Receipt, error) {
		if len(jobs) != 1 {
			return c.insertMany(ctx, jobs)
		}
		r, err := c.insertOne(ctx, jobs[0])
		return []Receipt{r}, err
	})
	if len(out) == 0 {
		return Receipt{}, err
	}
	return out[0], err
}

func (c *Client) insertOne(ctx context.Context, job NewJob) (Receipt, error) {
	stored, err := job.stored(c.maxArgs)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("enqueue: %w", err)
	}
	// When the context ends, the commit under way still reads them.
	stored.Args = bytes.Clone(stored.Args)
	var inserted store.Inserted
	err = untilKnown(ctx, func(again bool) (err error) {
		stored.Repeat = stored.Repeat || again
		inserted, err = c.insert.InsertOne(ctx, stored)
		return err
	})
	if err != nil {
		if ctx.Err() != nil && !errors.Is(err, ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return Receipt{ID: stored.UID}, fmt.Errorf("enqueue: task %s: job %s: %w", quote(job.Task), stored.UID, err)
	}
	return receipt(&job, inserted), nil
}

// EnqueueMany stores jobs in one transaction, all or none, and answers in their
// order. Their number is bounded by memory alone; on SQLite no other process
// and no scheduler writes meanwhile: in the order of a second for 100,000 jobs.
//
// After [ErrOutcomeUnknown] the receipts have the ids with which to enqueue
// again.
func (c *Client) EnqueueMany(ctx context.Context, jobs []NewJob) ([]Receipt, error) {
	return c.through(ctx, jobs, c.insertMany)
}

func (c *Client) insertMany(ctx context.Context, jobs []NewJob) ([]Receipt, error) {
	stored, err := c.check(jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if len(stored) == 0 {
		return []Receipt{}, nil
	}
	var inserted []store.Inserted
	err = untilKnown(ctx, func(again bool) (err error) {
		for i := range stored {
			stored[i].Repeat = stored[i].Repeat || again
		}
		inserted, err = c.insert.Insert(ctx, stored)
		return err
	})
	if errors.Is(err, ErrOutcomeUnknown) {
		out := make([]Receipt, len(stored))
		for i := range stored {
			out[i].ID = stored[i].UID
		}
		return out, fmt.Errorf("enqueue: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return receipts(jobs, inserted), nil
}

// EnqueueTx stores a job in the caller's own transaction: it is there when that
// commits, and never was when it is rolled back. Schedulers find it at their
// next look, within a second, or at once: see [WithWake].
//
// On SQLite a transaction that has written is the only one that may: other
// enqueues wait for its end, so do not make any from inside it. On PostgreSQL a
// transaction of isolation level REPEATABLE READ or SERIALIZABLE sees nothing
// that was committed since it began, and so cannot see that a job has run
// already: an [ID] of the caller's own is refused there ([InvalidError]).
func (c *Client) EnqueueTx(ctx context.Context, tx Tx, job NewJob) (Receipt, error) {
	out, err := c.EnqueueManyTx(ctx, tx, []NewJob{job})
	if err != nil {
		return Receipt{}, err
	}
	return out[0], nil
}

// EnqueueManyTx stores jobs in the caller's own transaction, as
// [Client.EnqueueTx] does one, and answers in their order.
func (c *Client) EnqueueManyTx(ctx context.Context, tx Tx, jobs []NewJob) ([]Receipt, error) {
	if tx == nil {
		return nil, fmt.Errorf("enqueue: %w", &InvalidError{Field: "transaction", Value: "nil", Problem: "begin one, or use Enqueue"})
	}
	return c.through(ctx, jobs, func(ctx context.Context, jobs []NewJob) ([]Receipt, error) {
		return c.insertTx(ctx, tx, jobs)
	})
}

func (c *Client) insertTx(ctx context.Context, tx Tx, jobs []NewJob) ([]Receipt, error) {
	stored, err := c.check(jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	if len(stored) == 0 {
		return []Receipt{}, nil
	}
	wake := slices.ContainsFunc(jobs, func(j NewJob) bool { return j.Wake })
	inserted, err := c.store.InsertTx(ctx, tx, stored, wake)
	if errors.Is(err, store.ErrSnapshot) {
		err = &InvalidError{Field: "id", Problem: store.ErrSnapshot.Error() + ": leave the id out, or use read committed"}
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue: %w", err)
	}
	return receipts(jobs, inserted), nil
}

func (c *Client) check(jobs []NewJob) ([]store.NewJob, error) {
	if c == nil {
		return nil, errNoClient
	}
	stored := make([]store.NewJob, len(jobs))
	for i := range jobs {
		var err error
		if stored[i], err = jobs[i].stored(c.maxArgs); err != nil {
			if len(jobs) > 1 {
				err = fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
			}
			return nil, err
		}
	}
	return stored, nil
}

func receipts(jobs []NewJob, inserted []store.Inserted) []Receipt {
	out := make([]Receipt, len(inserted))
	for i, in := range inserted {
		out[i] = receipt(&jobs[i], in)
	}
	return out
}

// receipt answers the caller. An id that the client made itself existed only
// because a try whose reply was lost had stored it: that is this very enqueue.
func receipt(job *NewJob, in store.Inserted) Receipt {
	return Receipt{ID: in.UID, Duplicate: in.Duplicate, Existed: in.Existed && job.ID != ""}
}
