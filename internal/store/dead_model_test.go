package store_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

// counted are the counts that are kept, in words.
func (b *bundle) counted(t require.TestingT) map[string]int64 {
	const counts = `
select kind, task, reason, 0, count from weir_dead_counts union all select kind, task, '', hour, count from weir_dead_hours`
	rows, err := b.beside.Query(counts) //nolint:noctx // a rapid.T has no context
	require.NoError(t, err)
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var kind, task, reason string
		var hour, n int64
		require.NoError(t, rows.Scan(&kind, &task, &reason, &hour, &n))
		out[group(kind, task, reason, hour)] = n
	}
	require.NoError(t, rows.Err())
	return out
}

func group(kind, task, reason string, hour int64) string {
	return fmt.Sprintf("%s %s %q %d", kind, task, reason, hour)
}

// requireCounted fails unless the counts that are kept are those of the rows.
func (b *bundle) requireCounted(t require.TestingT) {
	rows, err := b.beside.Query(`select kind, task, reason, dead_at from weir_dead`) //nolint:noctx // as above
	require.NoError(t, err)
	defer rows.Close()
	want := map[string]int64{}
	for rows.Next() {
		var kind, task, reason string
		var at int64
		require.NoError(t, rows.Scan(&kind, &task, &reason, &at))
		want[group(kind, task, class(kind, reason), 0)]++
		want[group(kind, task, "", at/(3600*second))]++
	}
	require.NoError(t, rows.Err())
	require.Equal(t, want, b.counted(t))
}

// class is a reason's class, in other words than the store's.
func class(kind, reason string) string {
	if kind == store.KindExpired {
		return "expired: not started"
	}
	line, _, _ := strings.Cut(reason, "\n")
	for len(line) > 80 {
		_, size := utf8.DecodeLastRuneInString(line)
		line = line[:len(line)-size]
	}
	return line
}

// deadWorld is a database of dead letters and the model beside it.
type deadWorld struct {
	*bundle
	t      *testing.T
	faults *storetest.Faults
	claim  int64

	live    map[string]*modelLetter // jobs, by id
	letters map[string]*modelLetter // by the job that died
	lives   map[string]int          // how often what was enqueued came to life, by its arguments
}

type modelLetter struct {
	job, kind, task, key, reason, args string
	deadAt                             int64
	order                              int // of death
	replays                            int
}

// TestDeadLettersFollowTheModelOnBothDatabases walks random histories: sheds,
// failures, jobs that expire, replays with replies that get lost, retries,
// purges and retention, under a clock that steps. After each step the rows,
// the counts that are kept, and what lists find are those of a model.
func TestDeadLettersFollowTheModelOnBothDatabases(t *testing.T) {
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if before == "100" {
		require.NoError(t, flag.Set("rapid.checks", "30"))
		defer func() { require.NoError(t, flag.Set("rapid.checks", before)) }()
	}
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		b := *setup(t, db)
		w := &deadWorld{bundle: &b, t: t, faults: &storetest.Faults{}}
		w.Store = b.db.Open(t, store.Options{Clock: b.clock, Wrap: w.faults.Wrap})
		rapid.Check(t, w.history)
	})
}

func (w *deadWorld) history(rt *rapid.T) {
	for _, table := range []string{"weir_jobs", "weir_dead", "weir_dead_counts", "weir_dead_hours", "weir_audit"} {
		w.exec(w.t, "delete from "+table)
	}
	w.live, w.letters, w.lives = map[string]*modelLetter{}, map[string]*modelLetter{}, map[string]int{}
	steps := map[string]func(*rapid.T){
		"die": w.die, "die too": w.die, "die as well": w.die, "replay": w.replayStep, "purge": w.purge,
		"retry": w.retry, "keep": w.keep, "clock": w.step,
	}
	names := slices.Sorted(maps.Keys(steps))
	for range rapid.IntRange(5, 30).Draw(rt, "steps") {
		name := rapid.SampledFrom(names).Draw(rt, "step")
		steps[name](rt)
		require.Equal(rt, w.expected(store.DeadFilter{}), w.found(rt, store.DeadFilter{Limit: 1000}), "after %s", name)
		w.requireCounted(rt)
		w.look(rt)
	}
}

// die enqueues jobs, of which some share a unique key with a live one, and lets
// all that live die in one way.
func (w *deadWorld) die(rt *rapid.T) {
	task := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "task")
	kind := rapid.SampledFrom([]string{store.KindShed, store.KindFailed, store.KindFailed, store.KindExpired}).Draw(rt, "kind")
	for range rapid.IntRange(1, 4).Draw(rt, "jobs") {
		job := newJob(task)
		job.Args = []byte(job.UID)
		job.UniqueKey = rapid.SampledFrom([]string{"", "", "k1", "k2"}).Draw(rt, "key")
		if kind == store.KindExpired {
			job.ExpiresAt = w.now()
		}
		if w.holder(task, job.UniqueKey) == nil {
			w.insert(w.t, job)
			w.live[job.UID] = &modelLetter{job: job.UID, task: task, key: job.UniqueKey, args: job.UID}
			w.lives[job.UID] = 1
		}
	}
	reason := rapid.SampledFrom([]string{"boom", "boom\nat 1", "rate_limit: user's", strings.Repeat("é", 50), strings.Repeat("x", 100)}).Draw(rt, "reason")
	w.claim++
	switch kind {
	case store.KindShed:
		out := w.ended(task, kind, reason)
		w.turn(w.t, store.TurnRequest{Admit: &admission{asks: []store.Ask{ask(task, 100)}, decide: func(read [][]store.Candidate) (p store.Plan) {
			require.Len(rt, read[0], len(out))
			for _, c := range read[0] {
				p.Shed = append(p.Shed, store.Shed{ID: c.ID, Reason: reason})
			}
			return p
		}}})
	case store.KindFailed:
		var results []store.Result
		for _, j := range w.grant(w.t, w.claim, task, 100) {
			r := end(j, store.Dead)
			r.Reason = reason
			results = append(results, r)
		}
		w.turn(w.t, store.TurnRequest{Results: results})
		w.ended(task, kind, reason)
	default: // what was replayed has no expiry any more
		w.turn(w.t, store.TurnRequest{Sweep: true})
		for id, l := range w.live {
			if d, dead, err := w.GetDeadByJob(w.t.Context(), id); dead {
				require.NoError(rt, err)
				l.kind, l.reason, l.deadAt, l.order = kind, d.Reason, w.now(), int(d.ID)
				require.Equal(rt, task, l.task)
				w.letters[id] = l
				delete(w.live, id)
			}
		}
	}
}

// ended moves the live jobs of a task among the letters.
func (w *deadWorld) ended(task, kind, reason string) (out []*modelLetter) {
	for id, l := range w.live {
		if l.task == task {
			l.kind, l.reason, l.deadAt = kind, reason, w.now()
			w.letters[id] = l
			delete(w.live, id)
			out = append(out, l)
		}
	}
	return out
}

func (w *deadWorld) holder(task, key string) *modelLetter {
	for _, l := range w.live {
		if key != "" && l.task == task && l.key == key {
			return l
		}
	}
	return nil
}

// replayStep replays some letters, once or twice, with a reply that may be lost.
func (w *deadWorld) replayStep(rt *rapid.T) {
	filter := w.filter(rt)
	filter.Limit, filter.OldestFirst = 1000, true
	letters, _, err := w.NameDead(w.t.Context(), filter)
	require.NoError(rt, err)
	if len(letters) == 0 {
		return
	}
	set := revivals(letters...)
	act := &store.Act{UID: newID(), Action: "dlq replay"}
	lost := rapid.Bool().Draw(rt, "reply lost")
	if lost {
		w.faults.LoseReply(`weir_dead`, 1)
		_, err := w.ReplayDead(w.t.Context(), set, act)
		require.ErrorIs(rt, err, store.ErrOutcomeUnknown)
	}
	out, err := w.ReplayDead(w.t.Context(), set, act)
	require.NoError(rt, err)
	done := w.replayed(rt, letters, set)
	n, err := w.ActCount(w.t.Context(), act.UID)
	require.NoError(rt, err)
	require.EqualValues(rt, done, n)
	for _, r := range out {
		require.True(rt, r.Skipped || !lost)
	}
}

// replayed makes the model do what a replay does, in its order, and returns how
// many it did.
func (w *deadWorld) replayed(rt *rapid.T, letters []store.DeadLetter, set []store.Revival) (done int) {
	for i, d := range letters {
		l := w.letters[d.JobID]
		if w.holder(l.task, l.key) != nil {
			continue
		}
		done++
		delete(w.letters, d.JobID)
		again := &modelLetter{job: set[i].UID, task: l.task, key: l.key, args: l.args, replays: l.replays + 1}
		w.live[again.job] = again
		w.lives[l.args]++
		job := w.stored(w.t, again.job)
		require.Equal(rt, l.args, string(job.Args))
		require.Equal(rt, d.JobID, job.ReplayOf.String)
		require.Equal(rt, again.replays, job.Replays)
	}
	return done
}

// retry replays what failed, as often as that may happen.
func (w *deadWorld) retry(rt *rapid.T) {
	most, age := rapid.IntRange(1, 3).Draw(rt, "most"), rapid.SampledFrom([]int64{0, second}).Draw(rt, "after")
	letters, err := w.RetryableDead(w.t.Context(), []store.DeadRetry{{Task: "a", Before: w.now() - age, Most: most}}, 1000)
	require.NoError(rt, err)
	var want []string
	for id, l := range w.letters {
		if l.kind == store.KindFailed && l.task == "a" && l.replays < most && l.deadAt <= w.now()-age && w.holder(l.task, l.key) == nil {
			want = append(want, id)
		}
	}
	require.ElementsMatch(rt, want, jobIDs(letters))
	set := revivals(letters...)
	_, err = w.ReplayDead(w.t.Context(), set, nil)
	require.NoError(rt, err)
	w.replayed(rt, letters, set)
}

func (w *deadWorld) purge(rt *rapid.T) {
	filter := w.filter(rt)
	filter.Limit = rapid.IntRange(1, 5).Draw(rt, "most")
	letters, _, err := w.NameDead(w.t.Context(), filter)
	require.NoError(rt, err)
	n, err := w.PurgeDead(w.t.Context(), store.DeadIDs(letters), &store.Act{Action: "dlq purge"})
	require.NoError(rt, err)
	require.EqualValues(rt, len(letters), n)
	for _, d := range letters {
		delete(w.letters, d.JobID)
	}
}

func (w *deadWorld) keep(rt *rapid.T) {
	age, count := rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(rt, "age"), rapid.Int64Range(0, 6).Draw(rt, "count")
	removed, err := w.KeepDead(w.t.Context(), store.KindFailed, age, count)
	require.NoError(rt, err)
	var byAge, byCount int64
	left := w.expected(store.DeadFilter{Kind: store.KindFailed})
	for i, id := range left { // the latest first
		switch l := w.letters[id]; {
		case age > 0 && l.deadAt < w.now()-age.Microseconds():
			byAge++
			delete(w.letters, id)
		case count > 0 && int64(i) >= count:
			byCount++
			delete(w.letters, id)
		}
	}
	require.Equal(rt, store.Removed{Kind: store.KindFailed, ByAge: byAge, ByCount: byCount}, removed)
}

func (w *deadWorld) step(rt *rapid.T) {
	w.clock.Advance(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 40 * time.Minute, -time.Second}).Draw(rt, "by"))
}

// filter draws what a list or an act may ask for.
func (w *deadWorld) filter(rt *rapid.T) store.DeadFilter {
	return store.DeadFilter{
		Kind:   rapid.SampledFrom([]string{"", store.KindShed, store.KindFailed, store.KindExpired}).Draw(rt, "kind"),
		Task:   rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(rt, "task"),
		Queue:  rapid.SampledFrom([]string{"", "", "q"}).Draw(rt, "queue"),
		Reason: rapid.SampledFrom([]string{"", "", "boom", "rate_limit: ", "é"}).Draw(rt, "reason"),
		Text:   rapid.SampledFrom([]string{"", "", "at", "'"}).Draw(rt, "text"),
		From:   rapid.SampledFrom([]int64{0, 0, w.now() - second}).Draw(rt, "from"),
		Until:  rapid.SampledFrom([]int64{0, 0, w.now()}).Draw(rt, "until"),
	}
}

// look lists in pages, and counts, what a filter selects.
func (w *deadWorld) look(rt *rapid.T) {
	f := w.filter(rt)
	f.Limit = rapid.IntRange(1, 7).Draw(rt, "limit")
	want := w.expected(f)
	require.Equal(rt, want, w.found(rt, f))
	n, capped, err := w.CountDead(w.t.Context(), f)
	require.NoError(rt, err)
	require.EqualValues(rt, len(want), n, "%+v", f)
	require.False(rt, capped)
}

func (w *deadWorld) found(rt *rapid.T, f store.DeadFilter) []string {
	out := []string{}
	for {
		page, next, err := w.ListDead(w.t.Context(), f)
		require.NoError(rt, err)
		for _, d := range page {
			l := w.letters[d.JobID]
			require.NotNil(rt, l, "job %s is no dead letter", d.JobID)
			l.order = int(d.ID)
			got := modelLetter{d.JobID, d.Kind, d.Task, d.UniqueKey.String, d.Reason, string(d.Args), d.DeadAt, l.order, d.Replays}
			require.Equal(rt, *l, got)
		}
		out = append(out, jobIDs(page)...)
		if f.After = next; next == (store.DeadKey{}) {
			return out
		}
	}
}

// expected are the jobs of the letters that a filter selects, the latest first.
// Of those that died at one time the store tells the order.
func (w *deadWorld) expected(f store.DeadFilter) []string {
	out := []string{}
	for id, l := range w.letters {
		if (f.Kind == "" || l.kind == f.Kind) && (f.Task == "" || l.task == f.Task) && strings.HasPrefix(l.reason, f.Reason) &&
			(strings.Contains(l.reason, f.Text) || strings.Contains(l.args, f.Text)) &&
			(f.From == 0 || l.deadAt >= f.From) && (f.Until == 0 || l.deadAt < f.Until) {
			out = append(out, id)
			if l.order == 0 {
				d, _, _ := w.GetDeadByJob(w.t.Context(), id)
				l.order = int(d.ID)
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		x, y := w.letters[a], w.letters[b]
		return cmp.Or(cmp.Compare(y.deadAt, x.deadAt), cmp.Compare(y.order, x.order))
	})
	return out
}
