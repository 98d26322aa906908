package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/store"
)

// This file is a world on values for admission: what the database keeps of
// lines and limits, in memory, under a clock that is a number. What decides in
// it is the product's: plan, Ask, Decide, learn, wakeAt.

// failer is what a check needs of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// simStart is when the world's clock starts.
var simStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()

type world struct {
	t      failer
	now    int64 // the clock
	passed int64 // how far it went on in all: it never steps back
	ids    int64
	limits map[string]*store.Limit
	lines  map[store.Line][]*simJob // waiting, in order
	place  map[string]int           // how many jobs are where
	// starts are the times, as passed, at which each limit granted a job.
	starts map[string][]int64
	// writes are when each limit wrote how many deferrals.
	writes map[string][]write
}

type write struct {
	at int64 // as passed
	n  int64
}

type simJob struct {
	store.Candidate
	line    store.Line
	shed    string // the reason
	place   string
	started int64 // the latest grant
}

func newWorld(t failer) *world {
	return &world{
		t: t, now: simStart, limits: map[string]*store.Limit{}, lines: map[store.Line][]*simJob{},
		place: map[string]int{}, starts: map[string][]int64{}, writes: map[string][]write{},
	}
}

// Now and Timer make the world a clock.
func (w *world) Now() time.Time { return time.UnixMicro(w.now) }

func (*world) Timer(time.Duration) (<-chan time.Time, func()) { panic("nothing sleeps here") }

var _ clock.Clock = (*world)(nil)

// move moves the clock, on or back.
func (w *world) move(d time.Duration) {
	w.now += d.Microseconds()
	w.passed += max(d.Microseconds(), 0)
}

func inLine(a, b *simJob) int {
	return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.FirstDue, b.FirstDue), cmp.Compare(a.ID, b.ID))
}

func (w *world) put(j *simJob, place string) {
	if j.place != "" {
		w.place[j.place]--
	}
	j.place = place
	w.place[place]++
}

// wait puts a job into its line, at its place.
func (w *world) wait(j *simJob) {
	w.put(j, "waiting")
	line := w.lines[j.line]
	i, _ := slices.BinarySearchFunc(line, j, inLine)
	w.lines[j.line] = slices.Insert(line, i, j)
}

// tidy takes out of a line what waits no more: most of it stands in front.
func (w *world) tidy(key store.Line) {
	line := w.lines[key]
	gone := func(j *simJob) bool { return j.place != "waiting" }
	for len(line) > 0 && gone(line[0]) {
		line = line[1:]
	}
	if slices.ContainsFunc(line[:min(len(line), 3*shedBatch)], gone) {
		line = slices.DeleteFunc(line, gone)
	}
	w.lines[key] = line
}

// enqueue adds n jobs at the end of their priority.
func (w *world) enqueue(line store.Line, priority, n int) (jobs []*simJob) {
	for range n {
		w.ids++
		jobs = append(jobs, &simJob{Candidate: store.Candidate{ID: w.ids, Rank: -priority, FirstDue: w.now}, line: line})
		w.wait(jobs[len(jobs)-1])
	}
	return jobs
}

// process is a scheduler in the world.
type process struct {
	*Scheduler
	w       *world
	running []*simJob
	shed    []*simJob // by the latest look
}

// simTask is a task of a process.
type simTask struct {
	name  string
	rate  string // or none of its own
	burst int64
	mode  DeferMode
	drop  bool
}

// process adds a scheduler with these tasks and, besides their own, these
// limits.
func (w *world) process(slots int, tasks []simTask, limits ...limitConfig) *process {
	s := &Scheduler{
		config: config{concurrency: slots, limits: limits}, clock: w, log: slog.New(slog.DiscardHandler),
		tasks: map[string]*task{}, lines: map[store.Line]*line{},
	}
	for _, x := range tasks {
		t := &task{taskConfig: taskConfig{name: x.name, excess: Postpone}}
		if x.drop {
			t.excess = Drop
		}
		if x.rate != "" {
			t.rate = rateConfig{text: x.rate, set: true, burst: x.burst, mode: cmp.Or(x.mode, DeferSecond)}
			if err := t.readRate(); err != nil {
				w.t.Fatalf("task %s: %v", x.name, err)
			}
		}
		s.tasks[x.name] = t
	}
	var err error
	if s.limits, err = s.compileLimits(); err != nil {
		w.t.Fatalf("limits: %v", err)
	}
	for _, l := range s.limits {
		if _, known := w.limits[l.Name]; !known {
			row := &store.Limit{Name: l.Name}
			row.SetBucket(bucket.Full(l.Declared.Limit, w.now))
			w.limits[l.Name] = row
		}
	}
	return &process{Scheduler: s, w: w}
}

// survey is what Scheduler.survey learns from the database.
func (p *process) survey() {
	var waiting []store.Line
	for line, jobs := range p.w.lines {
		if len(jobs) > 0 {
			waiting = append(waiting, line)
		}
	}
	p.arrive(waiting)
	for _, l := range p.limits {
		row := p.w.limits[l.Name]
		l.heldUntil = time.Time{}
		if p.w.now >= row.HeldFrom-second {
			l.heldUntil = local(row.HeldUntil, p.w.now, p.w.Now())
		}
	}
	p.surveyAt = p.w.Now().Add(surveyEvery)
}

// look is a turn: it tells whether there was anything to look at.
func (p *process) look() bool {
	p.Scheduler.running = len(p.running)
	k, _, err := p.plan(context.Background(), p.w.Now(), true)
	if err != nil {
		panic(err) // only windows are read
	}
	if k == nil {
		return false
	}
	rows := make([]store.Limit, len(k.limits))
	for i, l := range k.limits {
		rows[i] = *p.w.limits[l.limit.Name]
	}
	asks := k.Ask(p.w.now, store.Locked{Limits: rows})
	read := make([][]store.Candidate, len(asks))
	jobs := map[int64]*simJob{}
	for i := range asks {
		asks[i].Of = i
	}
	for ; len(asks) > 0; asks = k.more(read) {
		for _, a := range asks {
			left := a.Max
			for _, j := range p.w.lines[a.Line] {
				if left == 0 {
					break
				}
				if (!a.Fresh || !j.Granted) && (a.After == nil || byPlace(j.Candidate, *a.After) > 0) {
					read[a.Of] = append(read[a.Of], j.Candidate)
					jobs[j.ID] = j
					left--
				}
			}
		}
	}
	p.apply(k, jobs, k.Decide(read))
	p.learn(k, store.TurnResult{Now: p.w.now, At: p.w.Now()})
	return true
}

// apply does what a look decided about the jobs it read, and checks that it
// may.
func (p *process) apply(k *look, jobs map[int64]*simJob, plan store.Plan) {
	w := p.w
	w.t.Helper()
	take := func(id int64, place string) *simJob {
		j := jobs[id]
		if j == nil || j.place != "waiting" {
			w.t.Fatalf("job %d goes to %q, and is not one that waits and was read", id, place)
		}
		w.put(j, place)
		return j
	}
	if len(plan.Start) > k.slots {
		w.t.Fatalf("%d starts for %d slots", len(plan.Start), k.slots)
	}
	var started []*simJob
	for _, id := range plan.Start {
		started = append(started, take(id, "running"))
	}
	p.shed = nil
	for _, x := range plan.Shed {
		j := take(x.ID, "dead")
		j.shed = x.Reason
		p.shed = append(p.shed, j)
	}
	for _, id := range plan.Defer {
		w.put(take(id, "deferred"), "waiting")
	}
	p.checkStarts(started)
	p.checkSheds(k)
	for _, seen := range k.asked {
		w.tidy(seen.Line)
	}
	p.checkOrder(k, started)
	for _, j := range started {
		j.Granted, j.started = true, w.now
	}
	p.running = append(p.running, started...)
	p.save(k, plan.Save)
}

// checkStarts: no limit that is paused or on hold lets anything start.
func (p *process) checkStarts(started []*simJob) {
	for _, j := range started {
		for _, l := range p.covering(j.line) {
			if row := p.w.limits[l.Name]; row.Paused || p.w.held(row) {
				p.w.t.Fatalf("job %d starts under %s: paused %v, held %v", j.ID, l.Name, row.Paused, p.w.held(row))
			}
			p.w.starts[l.Name] = append(p.w.starts[l.Name], p.w.passed)
		}
	}
}

// held tells of a row, as it is before a look, whether the limit is on hold: a
// great step back of the clock has ended that.
func (w *world) held(row *store.Limit) bool {
	return w.now < row.HeldUntil && w.now >= row.HeldFrom-second && w.now >= row.Stamp-second
}

// checkSheds: only fresh jobs of drop tasks, for the first limit that refuses.
func (p *process) checkSheds(k *look) {
	for _, j := range p.shed {
		if j.Granted || p.tasks[j.line.Task].excess != Drop {
			p.w.t.Fatalf("job %d is shed", j.ID)
		}
		for _, l := range p.covering(j.line) {
			if p.w.limits[l.Name].Paused {
				p.w.t.Fatalf("job %d is shed while %s is paused", j.ID, l.Name)
			}
		}
		var refusing []string
		for _, l := range k.limits {
			if slices.Contains(p.covering(j.line), l.limit) && (p.w.held(p.w.limits[l.limit.Name]) || l.bucket.Tokens() == 0) {
				refusing = append(refusing, l.limit.Name)
			}
		}
		// Tokens may be taken after it was shed: an earlier name may be added.
		name, _, _ := strings.Cut(strings.TrimPrefix(j.shed, "rate_limit: "), " ")
		if !slices.Contains(refusing, name) {
			p.w.t.Fatalf("job %d is shed for %q; refusing are %q", j.ID, j.shed, refusing)
		}
		for _, l := range k.limits {
			if p.w.held(p.w.limits[l.limit.Name]) && l.limit.Name < name && slices.Contains(p.covering(j.line), l.limit) {
				p.w.t.Fatalf("job %d is shed for %q although %s refuses", j.ID, j.shed, l.limit.Name)
			}
		}
	}
}

// checkOrder: nobody overtakes whoever needs no token that it does not take.
func (p *process) checkOrder(k *look, started []*simJob) {
	for _, j := range started {
		covering := p.covering(j.line)
		for _, seen := range k.asked {
			left := p.w.lines[seen.Line]
			if len(left) == 0 || inLine(left[0], j) > 0 {
				continue
			}
			under := true
			for _, l := range p.covering(seen.Line) {
				under = under && slices.Contains(covering, l)
			}
			if under {
				p.w.t.Fatalf("job %d of %v overtakes job %d of %v", j.ID, j.line, left[0].ID, left[0].line)
			}
		}
	}
}

// save writes limits back, and checks what may have changed in them.
func (p *process) save(k *look, rows []store.Limit) {
	w := p.w
	for _, row := range rows {
		old := *w.limits[row.Name]
		var l *lookLimit
		for _, x := range k.limits {
			if x.limit.Name == row.Name {
				l = x
			}
		}
		if l == nil {
			w.t.Fatalf("%s is saved and was not locked", row.Name)
		}
		capacity := l.declared.Capacity()
		if row.Level < 0 || row.Level > capacity || row.Remainder < 0 || row.Remainder >= row.RatePeriod {
			w.t.Fatalf("%s: level %d of %d, remainder %d of %d", row.Name, row.Level, capacity, row.Remainder, row.RatePeriod)
		}
		if row.Started == old.Started && !l.changed && (row.Level != old.Level || row.Remainder != old.Remainder || row.Stamp != old.Stamp) {
			w.t.Fatalf("%s: a look that started nothing changed the bucket: %+v, %+v", row.Name, old, row)
		}
		if row.HeldUntil != old.HeldUntil && row.HeldUntil != 0 {
			p.checkHold(l, row)
		}
		if n := row.Deferred - old.Deferred; n > 0 {
			w.writes[row.Name] = append(w.writes[row.Name], write{w.passed, n})
		}
		*w.limits[row.Name] = row
	}
}

// checkHold: from 1 ms to 1 s, or to the next token; and only for work that
// was put off.
func (p *process) checkHold(l *lookLimit, row store.Limit) {
	w := p.w
	hold := row.HeldUntil - w.now
	most := int64(second)
	if l.mode == UntilToken {
		most = max(most, l.bucket.NextHold(w.now)-w.now)
	}
	if hold < 1000 || hold > most {
		w.t.Fatalf("%s is held for %d us, at most %d", row.Name, hold, most)
	}
	for line, jobs := range w.lines {
		if len(jobs) > 0 && slices.Contains(p.covering(line), l.limit) {
			return
		}
	}
	w.t.Fatalf("%s is held and nothing waits", row.Name)
}

// settle looks until there is nothing to look at, then checks that nothing was
// left that should have moved.
func (p *process) settle() {
	w := p.w
	for n := 0; p.look(); n++ {
		if n > 10_000 {
			w.t.Fatalf("it looks and looks and time stands still")
		}
	}
	if len(p.running) >= p.config.concurrency {
		return
	}
	for key, jobs := range w.lines {
		l := p.lines[key]
		if l == nil || len(jobs) == 0 {
			continue
		}
		held := false
		for _, lim := range l.limits {
			row := w.limits[lim.Name]
			if row.Paused {
				held = true
				jobs = nil
				break
			}
			held = held || w.now < row.HeldUntil
		}
		if !held {
			w.t.Fatalf("%d jobs of %v may start and wait", len(jobs), key)
		}
		if l.task.excess == Drop {
			for _, j := range jobs {
				if !j.Granted {
					w.t.Fatalf("job %d of %v is excess and was left in line", j.ID, key)
				}
			}
		}
	}
}

// finish ends what runs.
func (p *process) finish() {
	for _, j := range p.running {
		p.w.put(j, "done")
	}
	p.running = nil
}

// run lets time pass: the process looks when its loop would, its handlers take
// none.
func (p *process) run(d time.Duration) {
	for end := p.w.now + d.Microseconds(); ; {
		if !p.w.Now().Before(p.surveyAt) {
			p.survey()
		}
		for p.look() {
			p.finish()
		}
		if p.w.now >= end {
			return
		}
		p.Scheduler.running = 0
		wake := min(p.wakeAt().UnixMicro(), end)
		if wake <= p.w.now {
			p.w.t.Fatalf("it wakes at %d, now is %d", wake, p.w.now)
		}
		p.w.move(time.Duration(wake-p.w.now) * time.Microsecond)
	}
}

// MostAbove is by how much the starts (microseconds, ascending) exceed what a
// limit allows, over all intervals between two of them: capacity + (length +
// slack) x rate. Zero or less: the bound holds.
func MostAbove(limit bucket.Limit, starts []int64, slack time.Duration) float64 {
	capacity := float64(limit.Capacity()) / float64(bucket.Token)
	perMicro := float64(limit.Rate.Count()) / float64(bucket.Token) / float64(limit.Rate.Period().Microseconds())
	return mostAbove(capacity+float64(slack.Microseconds())*perMicro, perMicro, starts)
}

func mostAbove(capacity, perMicro float64, starts []int64) float64 {
	// The interval from start i to start j holds j-i+1. What it may hold grows
	// with its length, so the worst beginning for an end is the worst so far.
	most, worst := -capacity, 0.0
	for n, at := range starts {
		earned := float64(at-starts[0]) * perMicro
		worst = max(worst, earned-float64(n))
		most = max(most, float64(n+1)-earned+worst-capacity)
	}
	return most
}

// nearly is what floating point is granted.
const nearly = 1e-6

func TestTheBoundCheckSeesASingleStartTooMany(t *testing.T) {
	limit := bucket.Limit{Rate: must(bucket.Parse("10/s"))}
	at := func(starts ...int64) []int64 { return starts }
	within := [][]int64{
		nil,
		at(0),
		at(0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		at(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100_000, 200_000),
		at(0, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 1_000_000),
	}
	for _, starts := range within {
		if above := MostAbove(limit, starts, 0); above > nearly {
			t.Errorf("%v: %v above", starts, above)
		}
	}
	over := [][]int64{
		at(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		at(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99_999),
		at(0, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 900_000, 999_999),
	}
	for _, starts := range over {
		if above := MostAbove(limit, starts, 0); above < nearly {
			t.Errorf("%v: %v above", starts, above)
		}
		if above := MostAbove(limit, starts, 100*time.Millisecond); above > nearly {
			t.Errorf("%v: %v above with a slack of one start", starts, above)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
