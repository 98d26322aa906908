package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// with is the bundle with another store on its tables.
func (b *bundle) with(s *store.Store) *bundle {
	other := *b
	other.Store = s
	return &other
}

// A transaction that somebody leaves open makes the server keep all rows that
// have gone, and a walk from the front of a line passes every one of them.
func TestALineThatIsSlowToWalkIsWalkedFromWhereItBegan(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	faults := &storetest.Faults{}
	b = b.with(b.db.Open(t, store.Options{Clock: b.clock, Wrap: faults.Wrap}))
	b.insert(t, newJob("a"), newJob("a"), newJob("a"), newJob("a"))
	ids := func() (out []int64) {
		t.Helper()
		a := &admission{asks: []store.Ask{ask("a", 1)}}
		b.turn(t, store.TurnRequest{Admit: a})
		for _, c := range a.read[0] {
			out = append(out, c.ID)
		}
		return out
	}
	all := ids()
	first := all[0]
	comesBack := func(id int64) { // to the front, as a job of another process may
		b.exec(t, `update weir_jobs set first_due = first_due - 1 where id = $1`, id)
	}
	comesBack(first + 1)
	require.Equal(t, []int64{first + 1}, ids(), "it costs nothing to look")

	slow := func(took time.Duration) {
		faults.Before(`order by rank, first_due, id`, 1, func() { b.clock.Advance(took) })
	}
	slow(100 * time.Millisecond)
	require.Equal(t, []int64{first + 1}, ids())
	comesBack(first + 2)
	comesBack(first + 2)
	require.Equal(t, []int64{first + 1}, ids(), "nobody looks before where it began")
	b.grant(t, 1, "a", 1)
	require.Equal(t, []int64{first}, ids(), "and on from there")
	b.clock.Advance(time.Second)
	slow(100 * time.Millisecond)
	require.Equal(t, []int64{first + 2}, ids(), "for a tenth of the time it is walked from the front")
	b.clock.Advance(time.Second)
	require.Equal(t, []int64{first + 2}, ids())
	comesBack(first + 3)
	comesBack(first + 3)
	comesBack(first + 3)
	require.Equal(t, []int64{first + 3}, ids(), "the open transaction has ended: it is quick again")
}

// The lost lease's own place is an old one.
func TestAJobWhoseLeaseWasLostIsFoundInALineThatIsSlowToWalk(t *testing.T) {
	b := setup(t, storetest.Postgres(t))
	faults := &storetest.Faults{}
	b = b.with(b.db.Open(t, store.Options{Clock: b.clock, Wrap: faults.Wrap}))
	job := b.running(t, 1, newJob("a"))
	b.insert(t, newJob("a"))
	b.clock.Advance(lease - time.Second)
	faults.Before(`order by rank, first_due, id`, 1, func() { b.clock.Advance(100 * time.Millisecond) })
	next := b.grant(t, 2, "a", 1)
	require.Len(t, next, 1)
	require.NotEqual(t, job.ID, next[0].ID)
	b.clock.Advance(950 * time.Millisecond) // it ends, and the line would not be walked from the front yet
	a := &admission{asks: []store.Ask{ask("a", 1)}}
	require.Equal(t, 1, b.turn(t, store.TurnRequest{Sweep: true, Admit: a}).Swept.Lost)
	require.Equal(t, job.ID, a.read[0][0].ID)
}
