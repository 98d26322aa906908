package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// soon is how long a test lets a connection be silent.
const soon = 200 * time.Millisecond

// ends fails the test unless do returns.
func ends(t testing.TB, what string, do func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-time.After(waitFor):
		require.FailNow(t, "it hangs: "+what)
		return nil
	}
}

// Connections die without a word: a cable, a firewall, a host that is gone.
func TestACallEndsWithItsContextOnAConnectionThatDiedInSilence(t *testing.T) {
	for _, prepares := range []bool{false, true} {
		t.Run(fmt.Sprint("prepares ", prepares), func(t *testing.T) { callsEndWithTheirContexts(t, prepares) })
	}
}

func callsEndWithTheirContexts(t *testing.T, prepares bool) {
	t.Helper()
	db := storetest.Postgres(t).Direct()
	relay, relayed := storetest.Relayed(t, db)
	s := relayed.Open(t, store.Options{MaxConns: 1, Trusted: prepares})
	limits := []store.Declared{declared(t, "task:a", "9/s")}
	for name, call := range map[string]func(context.Context) error{
		"insert":     func(ctx context.Context) error { _, err := s.Insert(ctx, newJobs("a", 1)); return err },
		"insert one": func(ctx context.Context) error { _, err := s.InsertOne(ctx, uniqueJob("a", newID())); return err },
		"get":        func(ctx context.Context) error { _, _, err := s.Get(ctx, newID()); return err },
		"survey":     func(ctx context.Context) error { _, err := s.Survey(ctx, []string{"a"}, nil); return err },
		"claimed":    func(ctx context.Context) error { _, err := s.Claimed(ctx, 1); return err },
		"renew": func(ctx context.Context) error {
			_, err := s.Renew(ctx, []store.Held{{ID: 1, Claim: 1}}, second)
			return err
		},
		"turn": func(ctx context.Context) error {
			_, err := s.Turn(ctx, store.TurnRequest{Sweep: true, Limits: limits, Lease: lease, Admit: &admission{}})
			return err
		},
	} {
		require.NoError(t, call(t.Context()), name)
		relay.Silence()
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		err := ends(t, name, func() error { return call(ctx) })
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, store.ErrOutcomeUnknown, name)
	}
}

// fill makes as many connections as calls may have, and one for turns.
func fill(t testing.TB, s *store.Store, conns int) {
	t.Helper()
	all := make([]*sqlx.Conn, conns)
	for i := range all {
		var err error
		all[i], err = s.ConnectionsForTest().Connx(t.Context())
		require.NoError(t, err)
	}
	for _, conn := range all {
		require.NoError(t, conn.Close())
	}
	_, err := s.Survey(t.Context(), []string{"a"}, nil)
	require.NoError(t, err)
}

// One that does not answer to its begin is given up, and so are all that are as
// old: the call itself goes on.
func TestConnectionsThatDiedInSilenceAreReplaced(t *testing.T) {
	const conns = 5
	db := storetest.Postgres(t)
	relay, relayed := storetest.Relayed(t, db)
	s := relayed.Open(t, store.Options{MaxConns: conns, Silence: 5 * soon})
	fill(t, s, conns)
	relay.Silence()
	before := relay.Taken()
	require.NoError(t, ends(t, "insert", func() error { _, err := s.Insert(t.Context(), newJobs("a", 1)); return err }))
	require.NoError(t, ends(t, "insert one", func() error { _, err := s.InsertOne(t.Context(), newJob("a")); return err }))
	require.NoError(t, ends(t, "turn", func() error { _, err := s.Turn(t.Context(), store.TurnRequest{Sweep: true}); return err }))
	require.LessOrEqual(t, relay.Taken()-before, 4, "one for each pool, one for a notice, and a request to cancel")
}

// A server that takes a login and answers nothing is given up after some seconds,
// not after the minute that a statement may take.
func TestAServerThatOnlyTakesLoginsIsGivenUp(t *testing.T) {
	t.Parallel()
	relay, relayed := storetest.Relayed(t, storetest.Postgres(t).Direct())
	s := relayed.Open(t, store.Options{MaxConns: 2})
	conn, err := s.ConnectionsForTest().Connx(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	relay.SilenceAt("inet_client_addr")
	_, _, err = s.Get(t.Context(), newID())
	require.ErrorContains(t, err, "the database does not answer")
}

func TestACommitOnAConnectionThatDiesInSilenceHasAnUnknownOutcome(t *testing.T) {
	db := storetest.Postgres(t)
	relay, relayed := storetest.Relayed(t, db)
	faults := &storetest.Faults{}
	s := relayed.Open(t, store.Options{Wrap: faults.Wrap, Silence: soon})
	for name, call := range map[string]func() error{
		"insert":     func() error { _, err := s.Insert(t.Context(), newJobs("a", 1)); return err },
		"insert one": func() error { _, err := s.InsertOne(t.Context(), newJob("a")); return err },
		"turn":       func() error { _, err := s.Turn(t.Context(), store.TurnRequest{Sweep: true}); return err },
	} {
		faults.Before(`^commit$`, 1, relay.Silence)
		require.ErrorIs(t, ends(t, name, call), store.ErrOutcomeUnknown, name)
		require.NoError(t, ends(t, name, call), name)
	}
	faults.Before(`insert into`, 1, relay.Silence)
	err := ends(t, "insert", func() error { _, err := s.Insert(t.Context(), newJobs("a", 1)); return err })
	require.ErrorContains(t, err, "the database does not answer")
	require.NotErrorIs(t, err, store.ErrOutcomeUnknown, "it never came to a commit")
}
