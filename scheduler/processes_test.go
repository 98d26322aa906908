package scheduler_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// childEnv makes the test binary a scheduler process of its own.
const childEnv = "WEIR_SCHEDULER_TEST_CHILD"

type childConfig struct {
	DSN, Ledger, Rate string
	Log               string // what goes wrong, as it is logged; default: standard error

	Strategy scheduler.StrategyName
	Lease    time.Duration // default: a second
	DieAt    string        // the statement before which it kills itself
	Meet     string        // a folder: after its first refresh with room it leaves a file "met.*", and waits for one named "go"
}

func runChild() int {
	var c childConfig
	err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c)
	if err == nil {
		err = c.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func (c childConfig) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	faults := &storetest.Faults{}
	if c.DieAt != "" {
		faults.Before(c.DieAt, 1, func() {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		})
	}
	if c.Meet != "" {
		c.meet(faults)
	}
	opened, err := store.Open(ctx, c.DSN, store.Options{Migrate: true, Wrap: faults.Wrap})
	if err != nil {
		return err
	}
	client := queue.From(opened)
	defer client.Close()
	ledger, err := os.OpenFile(c.Ledger, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer ledger.Close()
	log := os.Stderr
	if c.Log != "" {
		if log, err = os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return err
		}
		defer log.Close()
	}
	s, err := scheduler.New(client, scheduler.Strategy(cmp.Or(c.Strategy, scheduler.TokenBucket)), scheduler.Lease(cmp.Or(c.Lease, time.Second)),
		scheduler.Logger(slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))))
	if err != nil {
		return err
	}
	handler := func(_ context.Context, job *queue.Job[string]) error {
		_, err := fmt.Fprintf(ledger, "%s %d %d\n", job.ID, job.StartedAt.UnixMicro(), time.Now().UnixMicro())
		return err
	}
	if err := scheduler.Register(s, "limited", handler, scheduler.RateLimit(c.Rate), scheduler.MaxRetries(1000)); err != nil {
		return err
	}
	return s.Run(ctx)
}

// meet waits between the first refresh and the claim.
func (c childConfig) meet(faults *storetest.Faults) {
	faults.Before(refresh, 1, func() {
		faults.Before(beginTurn, 1, func() {
			met, err := os.CreateTemp(c.Meet, "met.*")
			if err != nil {
				panic(err)
			}
			_ = met.Close()
			for _, err = os.Stat(filepath.Join(c.Meet, "go")); err != nil; _, err = os.Stat(filepath.Join(c.Meet, "go")) {
				time.Sleep(time.Millisecond) //nolint:forbidigo // the parent has no other way to tell
			}
		})
	})
}

func startChild(t *testing.T, c childConfig) *exec.Cmd {
	t.Helper()
	doc, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+string(doc))
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestTwoProcessesNeverStartMoreThanTheLimitWhateverIsKilled(t *testing.T) {
	const rate = "40/s"
	limit, err := bucket.NewLimit(rate, 0)
	require.NoError(t, err)
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		client, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		defer client.Close()
		raw := db.SQL(t)
		db.LogGrants(t, raw)
		const jobs = 2000
		_, err = queue.Task[string]("limited").EnqueueMany(t.Context(), client, make([]string, jobs))
		require.NoError(t, err)

		c := childConfig{DSN: db.DSN, Ledger: filepath.Join(t.TempDir(), "ledger"), Rate: rate}
		pair := []*exec.Cmd{startChild(t, c), startChild(t, c)}
		for range 8 {
			waitForGrants(t, raw, 5)
			i := rand.IntN(2)
			require.NoError(t, pair[i].Process.Kill())
			_ = pair[i].Wait()
			pair[i] = startChild(t, c)
		}
		waitForGrants(t, raw, 40)
		for _, p := range pair {
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
			require.NoError(t, p.Wait())
		}

		grants := grantTimes(t, raw)
		requireBound(t, limit, grants, 0)
		started, delay := readLedger(t, c.Ledger)
		t.Logf("%d grants, %d starts in the ledger, largest hand-over delay %v", len(grants), len(started), delay)
		requireBound(t, limit, started, delay)
		require.Equal(t, jobs, countAll(t, raw), "no job is lost")
	})
}

// waitForGrants waits until the processes made n more grants: the database is
// asked, nothing is timed.
func waitForGrants(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	want := len(grantTimes(t, db)) + n
	require.Eventually(t, func() bool { return len(grantTimes(t, db)) >= want }, time.Minute, 5*time.Millisecond)
}

func grantTimes(t *testing.T, db *sql.DB) []int64 {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `select at from test_grants order by at`)
	require.NoError(t, err)
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var at int64
		require.NoError(t, rows.Scan(&at))
		out = append(out, at)
	}
	require.NoError(t, rows.Err())
	return out
}

func readLedger(t *testing.T, path string) (starts []int64, delay time.Duration) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var id string
		var granted, started int64
		_, err := fmt.Sscan(line, &id, &granted, &started)
		require.NoError(t, err)
		starts = append(starts, started)
		delay = max(delay, time.Duration(started-granted)*time.Microsecond)
	}
	slices.Sort(starts)
	return starts, delay
}

// requireBound checks every interval between two starts: it holds at most
// capacity + (length + slack) x rate.
func requireBound(t *testing.T, limit bucket.Limit, starts []int64, slack time.Duration) {
	t.Helper()
	require.LessOrEqual(t, scheduler.MostAbove(limit, starts, slack), 1e-6, "starts above the bound in some interval")
}

func countAll(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(),
		`select (select count(*) from weir_jobs) + (select count(*) from weir_history) + (select count(*) from weir_dead)`).Scan(&n))
	return n
}

func TestARestartKeepsTheLevel(t *testing.T) {
	const rate = "10/m"
	limit, err := bucket.NewLimit(rate, 0)
	require.NoError(t, err)
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		client, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		defer client.Close()
		raw := db.SQL(t)
		db.LogGrants(t, raw)
		_, err = queue.Task[string]("limited").EnqueueMany(t.Context(), client, make([]string, 500))
		require.NoError(t, err)
		c := childConfig{DSN: db.DSN, Ledger: filepath.Join(t.TempDir(), "ledger"), Rate: rate}
		for range 6 {
			child := startChild(t, c)
			before := lookedAt(t, raw)
			require.Eventually(t, func() bool { return lookedAt(t, raw) > before }, time.Minute, 5*time.Millisecond)
			require.NoError(t, child.Process.Kill())
			_ = child.Wait()
		}
		grants := grantTimes(t, raw)
		require.GreaterOrEqual(t, len(grants), 10)
		requireBound(t, limit, grants, 0)
		require.Equal(t, 500, countAll(t, raw))
	})
}

// lookedAt is when the limit was last refused: a process that came up and
// looked sets the hold anew.
func lookedAt(t *testing.T, db *sql.DB) (at int64) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `select held_from from weir_limits where name = 'task:limited'`).Scan(&at)
	if err != nil {
		require.ErrorIs(t, err, sql.ErrNoRows)
	}
	return at
}

// Eight processes see a bucket of a hundred tokens at the same time.
func TestEightProcessesSpendNoTokenTwice(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		client, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		defer client.Close()
		raw := db.SQL(t)
		db.LogGrants(t, raw)
		c := childConfig{DSN: db.DSN, Ledger: filepath.Join(t.TempDir(), "ledger"), Rate: "100/h", Log: filepath.Join(t.TempDir(), "log"), Lease: time.Minute}
		if db.Dialect == store.Postgres { // whatever the database's default is
			c.DSN = db.Direct().DSN + "&default_transaction_isolation=repeatable%20read"
		}
		var children []*exec.Cmd
		for range 8 {
			children = append(children, startChild(t, c))
		}
		_, err = queue.Task[string]("limited").EnqueueMany(t.Context(), client, make([]string, 320))
		require.NoError(t, err)
		waitForGrants(t, raw, 100)
		first := grantTimes(t, raw)[0] // the holds that follow are everybody's
		require.Eventually(t, func() bool { return lookedAt(t, raw) > first+2_000_000 }, time.Minute, 5*time.Millisecond)
		for _, p := range children {
			require.NoError(t, p.Process.Signal(syscall.SIGTERM))
		}
		for _, p := range children {
			require.NoError(t, p.Wait())
		}
		grants := grantTimes(t, raw)
		require.Len(t, grants, 100)
		started, _ := readLedger(t, c.Ledger)
		require.Len(t, started, 100)
		var waiting, deferrals, deferred, looks int64
		require.NoError(t, raw.QueryRowContext(t.Context(), `select count(*) from weir_jobs where state = 0 and attempt = 0`).Scan(&waiting))
		require.NoError(t, raw.QueryRowContext(t.Context(),
			`select sum(deferrals) from (select deferrals from weir_jobs union all select deferrals from weir_history) j`).Scan(&deferrals))
		require.EqualValues(t, 220, waiting)
		require.NoError(t, raw.QueryRowContext(t.Context(),
			`select deferred, (held_from - $1) / 1000000 + 2 from weir_limits where name = 'task:limited'`, grants[0]).Scan(&deferred, &looks))
		require.Equal(t, deferrals, deferred)
		require.LessOrEqual(t, deferred, 100*looks, "a hundred a second at most, over all of them")
		require.Equal(t, 320, countAll(t, raw))
		log, err := os.ReadFile(c.Log)
		require.NoError(t, err)
		require.Empty(t, string(log), "no error was anybody's to see")
	})
}
