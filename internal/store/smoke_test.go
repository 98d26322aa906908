package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func TestSmoke(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		s := db.Open(t, store.Options{})
		ctx := context.Background()
		lim, err := bucket.NewLimit("10/m", 0)
		require.NoError(t, err)
		d := []store.Declared{{Name: "task:a", Limit: lim, Tasks: []string{"a"}}}
		require.NoError(t, s.Register(ctx, []store.Task{{Name: "a", Queue: "qa", MaxRetries: 3, Definition: "{}"}}, d))
		const n = 20000
		jobs := make([]store.NewJob, n)
		for i := range jobs {
			jobs[i] = store.NewJob{UID: uuid.Must(uuid.NewV7()).String(), Task: "a", Args: []byte(fmt.Sprintf("%0100d", i))}
		}
		at := time.Now()
		out, err := s.Insert(ctx, jobs)
		require.NoError(t, err)
		require.Len(t, out, n)
		t.Logf("insert %d in %v", n, time.Since(at))
		one := store.NewJob{UID: uuid.NewString(), Task: "a", UniqueKey: "k"}
		r, err := s.InsertOne(ctx, one)
		require.NoError(t, err)
		require.Equal(t, store.Inserted{UID: one.UID}, r)
		two := one
		two.UID = uuid.NewString()
		r, err = s.InsertOne(ctx, two)
		require.NoError(t, err)
		require.Equal(t, store.Inserted{UID: one.UID, Duplicate: true}, r)
		one.Repeat = true
		r, err = s.InsertOne(ctx, one)
		require.NoError(t, err)
		require.Equal(t, store.Inserted{UID: one.UID, Existed: true}, r)
		sv, err := s.Survey(ctx, []string{"a", "b"}, []string{"task:a"})
		require.NoError(t, err)
		require.Equal(t, []store.Line{{"a", "qa"}}, sv.Lines)
		at = time.Now()
		var results []store.Result
		done := 0
		for i := 0; done < n+1; i++ {
			res, err := s.Turn(ctx, store.TurnRequest{Results: results, Sweep: i%20 == 0, Limits: d, Claim: int64(i), Lease: time.Second * 30, Admit: all{}})
			require.NoError(t, err)
			require.Empty(t, res.Refused)
			results = results[:0]
			for _, j := range res.Started {
				results = append(results, store.Result{ID: j.ID, UID: j.UID, Claim: int64(i)})
			}
			done += len(res.Started)
		}
		el := time.Since(at)
		t.Logf("drain %d in %v: %.0f/s", n, el, n/el.Seconds())
		l, err := s.List(ctx, store.JobFilter{Limit: 3})
		require.NoError(t, err)
		require.Len(t, l, 3)
		_, err = s.Limits(ctx)
		require.NoError(t, err)
		_, err = s.Queues(ctx)
		require.NoError(t, err)
		_, err = s.DeadStats(ctx)
		require.NoError(t, err)
		_, err = s.WaitingUnder(ctx, store.Covers{Tasks: []string{"a"}})
		require.NoError(t, err)
	})
}

type all struct{}

func (all) Ask(now int64, l []store.Limit) []store.Ask {
	return []store.Ask{{Line: store.Line{"a", "qa"}, Max: 500}}
}
func (all) Decide(read [][]store.Candidate) store.Plan {
	var p store.Plan
	for _, c := range read[0] {
		p.Start = append(p.Start, c.ID)
	}
	return p
}
