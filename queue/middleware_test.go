package queue_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestMiddlewareSeesEveryEnqueueAndMayChangeOrRefuseIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		var seen []string
		errNo := errors.New("not today")
		named := func(name string) func(queue.Enqueuer) queue.Enqueuer {
			return func(next queue.Enqueuer) queue.Enqueuer {
				return func(ctx context.Context, jobs []queue.NewJob) ([]queue.Receipt, error) {
					seen = append(seen, name)
					for i := range jobs {
						if jobs[i].Task == "refused" {
							return nil, errNo
						}
						jobs[i].Priority++
					}
					return next(ctx, jobs)
				}
			}
		}
		c := open(t, db, queue.WithMiddleware(named("outer"), named("inner")), queue.WithMiddleware(named("innermost")))
		mine := queue.NewJob{Task: "a", Priority: 10}
		beside := db.SQL(t)
		for name, enqueue := range map[string]func(queue.NewJob) (queue.Receipt, error){
			"Enqueue": func(j queue.NewJob) (queue.Receipt, error) { return c.Enqueue(t.Context(), j) },
			"EnqueueMany": func(j queue.NewJob) (queue.Receipt, error) {
				out, err := c.EnqueueMany(t.Context(), []queue.NewJob{j})
				return append(out, queue.Receipt{})[0], err
			},
			"EnqueueTx": func(j queue.NewJob) (queue.Receipt, error) { return c.EnqueueTx(t.Context(), beside, j) },
			"Task.Enqueue": func(j queue.NewJob) (queue.Receipt, error) {
				return queue.Task[string](j.Task).Enqueue(t.Context(), c, "x", queue.Priority(j.Priority))
			},
		} {
			seen = nil
			receipt, err := enqueue(mine)
			require.NoError(t, err, name)
			require.Equal(t, []string{"outer", "inner", "innermost"}, seen, name)
			job, err := c.Get(t.Context(), receipt.ID)
			require.NoError(t, err)
			require.Equal(t, 13, job.Priority, name)
			require.Equal(t, 10, mine.Priority, "the caller's job is the caller's")

			_, err = enqueue(queue.NewJob{Task: "refused"})
			require.ErrorIs(t, err, errNo, name)
		}
	})
}

func TestMiddlewareThatAnswersForOtherJobsIsFound(t *testing.T) {
	t.Parallel()
	c := open(t, storetest.SQLite(t), queue.WithMiddleware(func(next queue.Enqueuer) queue.Enqueuer {
		return func(ctx context.Context, jobs []queue.NewJob) ([]queue.Receipt, error) {
			return next(ctx, append(jobs, jobs...))
		}
	}))
	_, err := c.Enqueue(t.Context(), queue.NewJob{Task: "a"})
	require.EqualError(t, err, "enqueue: the middleware answered 2 receipts for 1 jobs")
}
