package queue

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// losing loses the replies to the first commits, which took place or not.
type losing struct {
	inserter
	replies int // to lose
	before  bool
	calls   int
}

func (l *losing) InsertOne(ctx context.Context, job store.NewJob) (store.Inserted, error) {
	out, err := l.Insert(ctx, []store.NewJob{job})
	if err != nil {
		return store.Inserted{}, err
	}
	return out[0], nil
}

func (l *losing) Insert(ctx context.Context, jobs []store.NewJob) ([]store.Inserted, error) {
	l.calls++
	lost := l.calls <= l.replies
	if lost && l.before {
		return nil, errors.Join(errors.New("connection reset"), store.ErrOutcomeUnknown)
	}
	out, err := l.inserter.Insert(ctx, jobs)
	if lost && err == nil {
		return nil, errors.Join(errors.New("connection reset"), store.ErrOutcomeUnknown)
	}
	return out, err
}

func TestAnEnqueueWhoseReplyIsLostIsRepeatedAndStoredOnce(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"before the commit": true, "after the commit": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Each(t, func(t *testing.T, db storetest.Database) {
				c, err := Open(t.Context(), db.DSN)
				require.NoError(t, err)
				defer func() { require.NoError(t, c.Close()) }()
				reset := func(replies int) { c.insert = &losing{inserter: c.store, replies: replies, before: before} }

				reset(2)
				one, err := c.Enqueue(t.Context(), NewJob{Task: "a", UniqueKey: "k"})
				require.NoError(t, err)
				require.Equal(t, Receipt{ID: one.ID}, one, "it is this very enqueue that stored it")
				reset(2)
				dup, err := c.Enqueue(t.Context(), NewJob{Task: "a", UniqueKey: "k"})
				require.NoError(t, err)
				require.Equal(t, Receipt{ID: one.ID, Duplicate: true}, dup)
				reset(2)
				many, err := c.EnqueueMany(t.Context(), []NewJob{{Task: "b"}, {Task: "a", UniqueKey: "k"}, {Task: "b"}})
				require.NoError(t, err)
				require.Equal(t, []Receipt{{ID: many[0].ID}, {ID: one.ID, Duplicate: true}, {ID: many[2].ID}}, many)

				page, err := c.List(t.Context(), Filter{})
				require.NoError(t, err)
				require.Len(t, page.Items, 3)

				// It never answers: the caller gets the ids to go on with.
				reset(tries)
				one, err = c.Enqueue(t.Context(), NewJob{Task: "c"})
				require.ErrorIs(t, err, ErrOutcomeUnknown)
				reset(tries)
				many, err = c.EnqueueMany(t.Context(), []NewJob{{Task: "c"}, {Task: "c"}})
				require.ErrorIs(t, err, ErrOutcomeUnknown)
				reset(0)
				again, err := c.EnqueueMany(t.Context(), []NewJob{{Task: "c", ID: one.ID}, {Task: "c", ID: many[0].ID}, {Task: "c", ID: many[1].ID}})
				require.NoError(t, err)
				for _, r := range again {
					require.Equal(t, !before, r.Existed)
				}
				page, err = c.List(t.Context(), Filter{Task: "c"})
				require.NoError(t, err)
				require.Len(t, page.Items, 3)
			})
		})
	}
}
