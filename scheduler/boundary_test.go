package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

// TestAFaultAtAnyStatementChangesNothingInTheEnd walks once through everything
// that writes, and again for each statement that this took, with a fault put at
// that statement. Who sees an error does the same thing again. In the end all is
// as it was without the fault: each job in the same place after as many starts,
// each limit at the same level.
func TestAFaultAtAnyStatementChangesNothingInTheEnd(t *testing.T) {
	eachStatement(t, newWalk, map[string]func(*storetest.Faults, string){
		"before it":                    func(f *storetest.Faults, pattern string) { f.Fail(pattern, 1) },
		"before its commit":            func(f *storetest.Faults, pattern string) { f.FailCommit(pattern, 1) },
		"the reply to its commit lost": func(f *storetest.Faults, pattern string) { f.LoseReply(pattern, 1) },
		"it hangs": func(f *storetest.Faults, pattern string) {
			if !strings.Contains(pattern, "^commit") && !strings.Contains(pattern, "^rollback") { // on a connection that died in silence: see the tests of internal/store
				f.Hang(pattern, 1)
			}
		},
	}, func(t *testing.T, w *walk, want []string) {
		w.all()
		require.Equal(t, want, w.sum())
	})
}

// A statement that finds nothing, because others were quicker, loses no job and
// breaks no limit. Left out are those that cannot find nothing: the second half
// of a move whose first half found something.
func TestAStatementThatFindsNothingLosesNothing(t *testing.T) {
	eachStatement(t, newWalk, map[string]func(*storetest.Faults, string){
		"": func(f *storetest.Faults, pattern string) {
			if !neverEmpty.MatchString(pattern) {
				f.Empty(pattern, 1)
			}
		},
	}, func(t *testing.T, w *walk, want []string) {
		w.tolerant = true
		w.all()
		got, limits := w.sum(), func(l string) bool { return strings.HasPrefix(l, "task:") }
		w.conserved(len(want) - 2)
		require.Equal(t, want[slices.IndexFunc(want, limits):][:2], got[slices.IndexFunc(got, limits):][:2])
	})
}

var neverEmpty = regexp.MustCompile(`begin|commit|rollback|set local|insert into|delete from|row_number|select exists`)

// eachStatement walks without a fault, and then with each of the faults at each
// statement.
func eachStatement(t *testing.T, newWalk func(*testing.T, storetest.Database) *walk, faults map[string]func(f *storetest.Faults, pattern string), check func(*testing.T, *walk, []string)) {
	t.Helper()
	t.Parallel()
	schema := regexp.MustCompile(`"?\btest_\d+_\d+\b"?`)
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		w := newWalk(t, db)
		w.faults.List()
		w.all()
		statements := w.faults.Listed()
		require.Greater(t, len(statements), 20)
		want := w.sum()
		fresh := storetest.SQLite
		if db.Dialect == store.Postgres {
			fresh = storetest.Postgres
		}
		for name, fault := range faults {
			for i, text := range statements {
				if testing.Short() && (i+len(name))%5 != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s %02d", name, i), func(t *testing.T) {
					t.Parallel()
					t.Log(text)
					w := newWalk(t, fresh(t))
					fault(w.faults, `^`+schema.ReplaceAllString(regexp.QuoteMeta(text), `"?test_\d+_\d+"?`)+`$`)
					check(t, w, want)
				})
			}
		}
	})
}

// walk does everything that writes, on a rig.
type walk struct {
	*rig
	t        *testing.T
	steps    func(*walk)
	tolerant bool // of what goes on failing
	enqueued int
	seen     func(task string) map[int64]int64 // starts by window, under fixed windows
}

// walkLease is how long a statement may hang as well, so it is short.
const walkLease = 200 * time.Millisecond

func newWalk(t *testing.T, db storetest.Database) *walk {
	t.Helper()
	w := &walk{rig: newRig(t, db, clock.NewFake(epoch), scheduler.Concurrency(20)), t: t, steps: everything}
	w.s.SetLease(walkLease)
	w.s.WriteAllBeside()
	return w
}

// insist does something until it succeeds, as whoever sees an error would.
func (w *walk) insist(what string, do func(context.Context) error) {
	w.t.Helper()
	var err error
	for range 20 {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*walkLease)
		err = do(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	if !w.tolerant {
		require.NoError(w.t, err, what)
	}
}

// to moves the clock on in steps, and runs what may start.
func (w *walk) to(at time.Duration) {
	w.t.Helper()
	for w.clock.Now().Before(epoch.Add(at)) {
		w.clock.Advance(min(500*time.Millisecond, epoch.Add(at).Sub(w.clock.Now())))
		w.insist("drain", w.s.Drain)
	}
}

func (w *walk) register() {
	ok := func(context.Context, *queue.Job[string]) error { return nil }
	bad := func(context.Context, *queue.Job[string]) error { return errors.New("broken") }
	for name, opts := range map[string][]scheduler.TaskOption{
		"deferred": {scheduler.RateLimit("2/s")},
		"shed":     {scheduler.RateLimit("1/m"), scheduler.OnExcess(scheduler.Drop)},
		"capped":   {scheduler.Cap(1)},
		"lost":     nil,
		"timed":    nil,
	} {
		require.NoError(w.t, scheduler.Register(w.s, queue.Task[string](name), ok, opts...))
	}
	require.NoError(w.t, scheduler.Register(w.s, queue.Task[string]("fails"), bad, scheduler.MaxRetries(1),
		scheduler.Breaker{Failures: 10, Window: time.Minute, Open: time.Second}))
	require.NoError(w.t, scheduler.Schedule(w.s, "tick", "@every 2s", queue.Task[string]("timed"), "tick", utc))
}

// enqueue adds jobs under ids of the caller's.
func (w *walk) add(task string, n int, opts ...queue.EnqueueOption) []string {
	var jobs []queue.NewJob
	var ids []string
	for i := range n {
		id := fmt.Sprintf("01900000-0000-7000-8000-%012x", w.enqueued+i)
		job, err := queue.Task[string](task).Job(fmt.Sprint(i), append([]queue.EnqueueOption{queue.ID(id)}, opts...)...)
		require.NoError(w.t, err)
		jobs, ids = append(jobs, job), append(ids, id)
	}
	w.enqueued += n
	w.insist("enqueue "+task, func(ctx context.Context) error {
		if n == 1 {
			_, err := w.client.Enqueue(ctx, jobs[0])
			return err
		}
		_, err := w.client.EnqueueMany(ctx, jobs)
		return err
	})
	return ids
}

// all is the walk.
func (w *walk) all() {
	w.t.Helper()
	w.steps(w)
}

func everything(w *walk) {
	w.t.Helper()
	w.register()
	w.insist("drain", w.s.Drain)

	w.add("deferred", 5)
	w.add("shed", 3)
	w.add("capped", 2, queue.UniqueKey("k"))
	failed := w.add("fails", 1)
	w.add("timed", 1, queue.Delay(time.Second))
	lost := w.add("lost", 2)
	cancelled := w.add("elsewhere", 2, queue.Queue("slow"))
	w.insist("pause queue", func(ctx context.Context) error { return w.client.PauseQueue(ctx, "slow") })
	w.insist("claim", func(ctx context.Context) error {
		_, err := w.client.Store().Turn(ctx, store.TurnRequest{Claim: 1, Lease: walkLease, Admit: wholeLine{store.Line{Task: "lost", Queue: "default"}}})
		if errors.Is(err, store.ErrOutcomeUnknown) {
			if ours, lookErr := w.client.Store().Claimed(ctx, 1); len(ours) > 0 || lookErr != nil {
				return lookErr
			}
		}
		return err
	})
	w.insist("renew", func(ctx context.Context) error {
		held := []store.Held{}
		for _, id := range lost {
			held = append(held, store.Held{ID: w.row(id), Claim: 1})
		}
		_, err := w.client.Store().Renew(ctx, held, (walkLease + time.Second).Microseconds())
		return err
	})
	w.add("expires", 1, queue.StartWithin(time.Second))
	w.insist("limit", func(ctx context.Context) error {
		return w.client.SetLimit(ctx, "task:deferred", queue.Override{Rate: "1/s"})
	})
	w.to(3 * time.Second)
	w.insist("limit", func(ctx context.Context) error { return w.client.UnsetLimit(ctx, "task:deferred") })
	w.insist("cancel", func(ctx context.Context) error { return w.client.Cancel(ctx, cancelled[0]) })
	w.insist("resume queue", func(ctx context.Context) error { return w.client.ResumeQueue(ctx, "slow") })
	w.insist("replay", func(ctx context.Context) error {
		_, err := w.dead.Replay(ctx, failed...)
		return err
	})
	w.to(9 * time.Second)
}

// row is the number of a job.
func (w *walk) row(uid string) (id int64) {
	w.t.Helper()
	require.NoError(w.t, w.db.SQL(w.t).QueryRowContext(w.t.Context(), `select id from weir_jobs where uid = '`+uid+`'`).Scan(&id))
	return id
}

// sum says what became of everything.
func (w *walk) sum() []string {
	w.t.Helper()
	var out []string
	for _, j := range w.jobs() {
		out = append(out, fmt.Sprintf("%s %s: %s, attempt %d, deferrals %d, error %q", j.Task, j.Args, j.State, j.Attempt, j.Deferrals, j.LastError))
	}
	for _, e := range w.letters() {
		out = append(out, fmt.Sprintf("%s %s: %s, %s, attempts %d, deferrals %d", e.Task, e.Args, e.Kind, e.Reason, e.Attempts, e.Deferrals))
	}
	for _, l := range w.limits() {
		out = append(out, fmt.Sprintf("%s: level %d, started %d, shed %d", l.Name, l.Level, l.Started, l.Shed))
	}
	slices.Sort(out)
	return out
}
