package dlq_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

// The test binary is its own operator where a test needs one to kill.
const (
	victimEnv = "WEIR_TEST_VICTIM"     // the database
	momentEnv = "WEIR_TEST_VICTIM_END" // before which statement it is killed
)

// held is a store that is open.
type held struct{ store *store.Store }

func (h held) Store() *store.Store { return h.store }

// victim replays what failed until it is killed at its moment.
func victim(dsn string) error {
	die := func() {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
	faults := &storetest.Faults{}
	faults.Before(os.Getenv(momentEnv), 2, die)
	ctx := dlq.WithActor(context.Background(), "victim")
	s, err := store.Open(ctx, dsn, store.Options{MustExist: true, Wrap: faults.Wrap})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = dlq.From(held{s}).ReplayWhere(ctx, dlq.Filter{Kind: dlq.Failed})
	return fmt.Errorf("not killed: %w", err)
}

// Somebody is killed in the middle of a replay, wherever that is, while others
// make the same one; whoever makes it again goes on with the rest.
func TestEveryEntryIsReplayedOnceAlthoughWhoeverReplaysThemIsKilled(t *testing.T) {
	t.Parallel()
	for name, moment := range map[string]string{
		"before a job is made":                `insert into \S*weir_jobs`,
		"before the entries go":               `delete from \S*weir_dead\b`,
		"before it is recorded":               `insert into \S*weir_audit`,
		"when nothing but the commit is left": `insert into \S*weir_dead_hours`,
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, b *bundle) {
				const n = 1_700 // four transactions
				died := b.dead(t, dlq.Failed, "a", n)
				b.dead(t, dlq.Shed, "a", 3)

				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
				cmd.Env = append(os.Environ(), victimEnv+"="+b.db.DSN, momentEnv+"="+moment)
				out, err := cmd.CombinedOutput()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit, "%s", out)
				require.False(t, exit.Exited(), "%v: %s", exit, out)
				require.Len(t, b.pending(t), 500, "one transaction of its took place")

				var others sync.WaitGroup
				results := make([]dlq.ReplayResult, 2)
				for i := range results {
					others.Go(func() {
						var err error
						if results[i], err = b.ReplayWhere(t.Context(), dlq.Filter{Kind: dlq.Failed}); err != nil {
							t.Error(err)
						}
					})
				}
				others.Wait()
				require.EqualValues(t, n-500, results[0].Replayed+results[1].Replayed)
				require.Len(t, b.all(t, dlq.Filter{}), 3)
				var origins []string
				for _, j := range b.pending(t) {
					origins = append(origins, j.ReplayOf)
				}
				require.ElementsMatch(t, died, origins)
				acts, err := b.client.Audit(t.Context(), queue.AuditFilter{})
				require.NoError(t, err)
				recorded := int64(0)
				for _, act := range acts.Items {
					recorded += act.Count
				}
				require.EqualValues(t, n, recorded)
			})
		})
	}
}
