package scheduler

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirq/weir/internal/store"
)

// gate is a task or a queue with a cap or a breaker.
type gate struct {
	name    string // task:NAME or queue:NAME, as in the database
	task    string // one of the two
	queue   string
	cap     int // most jobs that run at once over all processes; 0: any number
	breaker Breaker

	openUntil time.Time // on this process's clock; a hint: the row decides
}

func byGateName(a, b *gate) int { return strings.Compare(a.name, b.name) }

// Breaker stops starting a task whose attempts keep failing, and tries it again
// with a few. Its jobs wait meanwhile: no token, attempt or deferral is spent.
type Breaker struct {
	Failures int           // so many failed attempts ... (at least 1)
	Window   time.Duration // ... within this time open it; 0: 1 min
	Open     time.Duration // for how long nothing starts; 0: 30 s
	Probes   int           // how many may then run at once, over all processes; 0: 1
}

func (b Breaker) applyTask(c *taskConfig) error {
	if b.Window == 0 {
		b.Window = time.Minute
	}
	if b.Open == 0 {
		b.Open = 30 * time.Second
	}
	if b.Probes == 0 {
		b.Probes = 1
	}
	c.breaker = b
	var errs []error
	if b.Failures < 1 {
		errs = append(errs, fmt.Errorf("failures %d: use 1 or more", b.Failures))
	}
	if b.Window < time.Millisecond || b.Open < time.Millisecond {
		errs = append(errs, fmt.Errorf("window %v, open %v: use 1ms or more", b.Window, b.Open))
	}
	if b.Probes < 1 {
		errs = append(errs, fmt.Errorf("probes %d: use 1 or more", b.Probes))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("breaker: %w", err)
	}
	return nil
}

func (b Breaker) option() string { return "breaker" }

// outcome is what a breaker learns of an attempt.
type outcome struct {
	id, claim int64
	task      string
	startedAt int64
	failed    bool
}

func (o outcome) of(r store.Result) bool { return r.ID == o.id && r.Claim == o.claim }

// lookGate is a gate in a look.
type lookGate struct {
	*gate
	row     store.Gate
	free    int // how many more may be started
	changed bool
	opened  bool
	closed  bool
}

// openGates reads the locked rows: what runs behind each, and what its breaker
// makes of the attempts that ended.
func (k *look) openGates(locked store.Locked) {
	counted := slices.DeleteFunc(slices.Clone(k.outcomes), func(o outcome) bool { return slices.ContainsFunc(locked.Uncounted, o.of) })
	k.unjudged = slices.DeleteFunc(slices.Clone(counted), func(o outcome) bool {
		i, asked := slices.BinarySearchFunc(k.gates, o.task, func(g *lookGate, task string) int { return strings.Compare(g.name, taskPrefix+task) })
		return asked && !locked.Gates[i].Busy
	})
	for i, g := range k.gates {
		*g = lookGate{gate: g.gate, row: locked.Gates[i], free: math.MaxInt}
		if g.cap > 0 {
			g.free = g.cap
			for _, n := range locked.Running {
				if g.counts(n.Line) {
					g.free -= n.Running
				}
			}
			g.free = max(g.free, 0)
		}
		switch {
		case g.row.Busy:
			g.free = 0
		case g.breaker.Failures > 0:
			g.judge(k.now, counted)
		}
	}
}

// judge brings the breaker up to now. Closed, it counts failures in a window.
// Open, it lets nothing start until its time is over. Then it is half open: a
// few may run, and the first of those to end decides. What was started before
// it opened tells it nothing.
func (g *lookGate) judge(now int64, outcomes []outcome) {
	row, before := &g.row, g.row
	if row.OpenUntil > 0 && now < row.OpenedAt-second {
		row.OpenUntil = now // the clock stepped back
	}
	for _, o := range outcomes {
		switch {
		case o.task != g.task:
		case row.OpenUntil > 0 && o.startedAt < row.OpenUntil:
		case row.OpenUntil > 0 && !o.failed:
			*row = store.Gate{Name: row.Name}
		case row.OpenUntil > 0:
			row.OpenedAt, row.OpenUntil = now, now+g.breaker.Open.Microseconds()
		case o.failed:
			g.countFailure(now)
		}
	}
	g.changed = *row != before
	g.opened = row.OpenUntil > before.OpenUntil
	g.closed = row.OpenUntil == 0 && before.OpenUntil > 0
	switch {
	case row.OpenUntil > now:
		g.free = 0
	case row.OpenUntil > 0:
		g.free = min(g.free, max(g.breaker.Probes-row.Probing, 0))
	}
}

func (g *lookGate) countFailure(now int64) {
	row := &g.row
	if age := now - row.WindowFrom; row.Failures == 0 || age < 0 || age > g.breaker.Window.Microseconds() {
		row.Failures, row.WindowFrom = 0, now
	}
	if row.Failures++; row.Failures >= int64(g.breaker.Failures) {
		*row = store.Gate{Name: row.Name, OpenedAt: now, OpenUntil: now + g.breaker.Open.Microseconds()}
	}
}

// room is how many more jobs of the line may run, given the free slots.
func (k *look) room(line *lookLine, slots int) int {
	for _, i := range line.gates {
		slots = min(slots, k.gates[i].free)
	}
	return slots
}

// compileGates lists the gates of registered tasks and of queues, by name.
func (s *Scheduler) compileGates() []*gate {
	var gates []*gate
	for _, t := range s.tasks {
		if t.cap > 0 || t.breaker.Failures > 0 {
			gates = append(gates, &gate{name: taskPrefix + t.name, task: t.name, cap: t.cap, breaker: t.breaker})
		}
	}
	for queue, n := range s.config.queueCaps {
		gates = append(gates, &gate{name: queuePrefix + queue, queue: queue, cap: n})
	}
	slices.SortFunc(gates, byGateName)
	return gates
}
