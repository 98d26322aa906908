package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// Whatever is enqueued, under whatever limits, whatever the clock does: world
// checks each look, and this the whole.
func TestAdmissionKeepsItsPromisesWhateverComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		tasks := []string{"a", "b", "c", "d"}
		queues := []string{"q", "r"}
		lines := []store.Line{}
		for _, task := range tasks {
			for _, queue := range queues {
				lines = append(lines, store.Line{Task: task, Queue: queue})
			}
		}
		rate := rapid.SampledFrom([]string{"1/s", "2/s", "1.5/s", "10/s", "7/m", "100/m", "3/7s", "1/h", "3000/s"})
		burst := rapid.SampledFrom([]int64{0, 0, 0, 1, 3, 40, 500})
		mode := rapid.SampledFrom([]DeferMode{DeferSecond, DeferSecond, UntilToken})

		// Which limits there are, and which tasks drop, is the same in all
		// processes; how high a limit is may differ.
		declare := func(who string, base []limitConfig, own []simTask) ([]limitConfig, []simTask) {
			rates := func(name string) rateConfig {
				r := rateConfig{text: rate.Draw(t, who+" rate of "+name), set: true, mode: mode.Draw(t, who+" mode of "+name)}
				if r.burst = burst.Draw(t, who+" burst of "+name); r.burst != 0 {
					r.burstSet = true
				}
				return r
			}
			base, own = slices.Clone(base), slices.Clone(own)
			for i := range base {
				base[i].rate = rates(base[i].name)
			}
			for i := range own {
				if own[i].rate != "" {
					r := rates("task " + own[i].name)
					own[i].rate, own[i].burst, own[i].mode = r.text, r.burst, r.mode
				}
			}
			return base, own
		}
		var base []limitConfig
		var own []simTask
		for _, name := range tasks {
			x := simTask{name: name, drop: rapid.Bool().Draw(t, name+" drops")}
			if rapid.Bool().Draw(t, name+" is limited") {
				x.rate = "1/s"
			}
			own = append(own, x)
		}
		if rapid.Bool().Draw(t, "queue q is limited") {
			base = append(base, limitConfig{name: "queue:q", queues: []string{"q"}})
		}
		for n := range rapid.IntRange(0, 2).Draw(t, "shared limits") {
			name := fmt.Sprintf("%c-shared", "pz"[n]) // before and after "queue:" and "task:"
			l := limitConfig{name: name, tasks: rapid.SliceOfNDistinct(rapid.SampledFrom(tasks), 1, 3, rapid.ID).Draw(t, name)}
			if rapid.Bool().Draw(t, name+" covers queue r") {
				l.queues = []string{"r"}
			}
			base = append(base, l)
		}
		slots := rapid.SampledFrom([]int{1, 3, 20, 3000}).Draw(t, "slots")
		first, firstOwn := declare("first", base, own)
		processes := []*process{w.process(slots, firstOwn, first...)}
		if rapid.Bool().Draw(t, "two processes") {
			second, secondOwn := first, firstOwn
			if rapid.Bool().Draw(t, "that disagree") {
				second, secondOwn = declare("second", base, own)
			}
			processes = append(processes, w.process(slots, secondOwn, second...))
		}
		one := func(t *rapid.T) *process { return processes[rapid.IntRange(0, len(processes)-1).Draw(t, "process")] }
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) {
				line := rapid.SampledFrom(lines).Draw(t, "line")
				n := rapid.SampledFrom([]int{1, 1, 2, 5, 30, 150, 2500}).Draw(t, "jobs")
				w.enqueue(line, rapid.IntRange(-1, 1).Draw(t, "priority"), n)
				// A process hears of its own jobs at once, of others' by looking.
				one(t).arrive([]store.Line{line})
			},
			"little is asked for": func(t *rapid.T) { // as after a quiet time
				for _, l := range one(t).lines {
					l.share = 0
				}
			},
			"look": func(t *rapid.T) { one(t).look() },
			"settle": func(t *rapid.T) {
				p := one(t)
				p.survey()
				p.settle()
			},
			"time passes": func(t *rapid.T) {
				w.move(time.Duration(rapid.Int64Range(1, 2_500_000).Draw(t, "microseconds")) * time.Microsecond)
			},
			"a hold ends": func(*rapid.T) {
				var next time.Duration
				for _, row := range w.limits {
					if d := time.Duration(row.HeldUntil-w.now) * time.Microsecond; d > 0 && (next == 0 || d < next) {
						next = d
					}
				}
				w.move(next)
			},
			"the clock leaps": func(t *rapid.T) {
				w.move(time.Duration(rapid.IntRange(1, 30*24*3600).Draw(t, "seconds")) * time.Second)
			},
			"the clock steps back": func(t *rapid.T) {
				w.move(-time.Duration(rapid.SampledFrom([]int64{1, 400_000, 1_000_000, 1_000_001, 5_000_000, 8 * 3600 * second}).Draw(t, "microseconds")) * time.Microsecond)
				for _, p := range processes {
					p.survey() // what a process remembers of the clock is never older than its last survey
				}
			},
			"handlers end": func(t *rapid.T) {
				p := one(t)
				back := rapid.IntRange(0, len(p.running)).Draw(t, "that are tried again")
				place := rapid.Bool().Draw(t, "at the end of the line")
				for i, j := range p.running[:back] {
					if place == (i%2 == 0) {
						j.FirstDue = w.now
					}
					w.wait(j)
					for _, p := range processes {
						p.arrive([]store.Line{j.line})
					}
				}
				p.running = p.running[back:]
				p.finish()
			},
			"a pause begins or ends": func(t *rapid.T) {
				if len(w.limits) == 0 {
					t.Skip()
				}
				names := make([]string, 0, len(w.limits))
				for name := range w.limits {
					names = append(names, name)
				}
				slices.Sort(names)
				row := w.limits[rapid.SampledFrom(names).Draw(t, "limit")]
				row.Paused = !row.Paused
			},
			"": func(t *rapid.T) { w.check(t, processes) },
		})
	})
}

// check is what holds at every moment.
func (w *world) check(t failer, processes []*process) {
	t.Helper()
	in := 0
	for _, jobs := range w.lines {
		in += len(jobs)
	}
	running := 0
	for _, p := range processes {
		running += len(p.running)
	}
	if in != w.place["waiting"] || running != w.place["running"] || in+running+w.place["done"]+w.place["dead"] != int(w.ids) {
		t.Fatalf("%d jobs: %d in line, %d run, counted are %v", w.ids, in, running, w.place)
	}
	for name, row := range w.limits {
		// Of what the processes declare, the larger capacity and the larger rate.
		var capacity, perMicro float64
		for _, p := range processes {
			for _, l := range p.limits {
				if l.Name == name {
					capacity = max(capacity, float64(l.Declared.Limit.Capacity())/float64(bucket.Token))
					r := l.Declared.Limit.Rate
					perMicro = max(perMicro, float64(r.Count())/float64(bucket.Token)/float64(r.Period().Microseconds()))
				}
			}
		}
		starts := w.starts[name]
		if int64(len(starts)) != row.Started {
			t.Fatalf("%s: %d starts, %d in its row", name, len(starts), row.Started)
		}
		if above := mostAbove(capacity, perMicro, starts); above > nearly {
			t.Fatalf("%s: %v starts too many in some interval", name, above)
		}
		for i, x := range w.writes[name] {
			within := int64(0)
			for _, y := range w.writes[name][:i+1] {
				if x.at-y.at < second {
					within += y.n
				}
			}
			if within > deferBatch {
				t.Fatalf("%s: %d deferrals within a second", name, within)
			}
		}
	}
}

func TestTheFirstByBytesOfTheLimitsThatRefuseIsNamed(t *testing.T) {
	w := newWorld(t)
	p := w.process(100, []simTask{{name: "a", rate: "1/s", drop: true}},
		limitConfig{name: "queue:q", queues: []string{"q"}, rate: rateConfig{text: "1/m", set: true}},
		limitConfig{name: "Zebra", tasks: []string{"a"}, rate: rateConfig{text: "2/h", set: true}},
		limitConfig{name: "äpfel", tasks: []string{"a"}, rate: rateConfig{text: "1/h", set: true}})
	line := store.Line{Task: "a", Queue: "q"}
	reasons := func() (out []string) {
		p.arrive([]store.Line{line})
		for p.look() {
			for _, j := range p.shed {
				out = append(out, j.shed)
			}
		}
		return out
	}
	w.enqueue(line, 0, 2)
	require.Equal(t, []string{"rate_limit: queue:q 1/m"}, reasons(), "of queue:q, task:a and äpfel")
	w.move(time.Minute)
	w.enqueue(line, 0, 1)
	require.Equal(t, []string{"rate_limit: äpfel 1/h"}, reasons())
	w.limits["Zebra"].Level = 0
	w.enqueue(line, 0, 1)
	require.Equal(t, []string{"rate_limit: Zebra 2/h"}, reasons())
}

// A drop job that ran before waits for the hold's end, also where fresh ones
// beside it were shed meanwhile: nobody has to look around for it.
func TestADeferredDropJobIsRememberedWhileFreshOnesAreShed(t *testing.T) {
	w := newWorld(t)
	p := w.process(100, []simTask{{name: "a", rate: "4/s", burst: 1, drop: true}})
	line := store.Line{Task: "a", Queue: "q"}
	w.enqueue(line, 0, 1)
	p.survey()
	require.True(t, p.look())
	again := p.running[0]
	p.running = nil
	w.wait(again)
	p.arrive([]store.Line{line})
	require.True(t, p.look())
	require.Equal(t, "waiting", again.place)

	w.move(100 * time.Millisecond)
	w.enqueue(line, 5, 2)
	p.arrive([]store.Line{line})
	require.True(t, p.look())
	require.Len(t, p.shed, 2)
	require.Empty(t, p.running)
	first, second := p.look(), p.look()
	require.False(t, first && second, "then it is quiet")
	require.Equal(t, simStart+250_000, p.wakeAt().UnixMicro())

	w.move(150 * time.Millisecond)
	require.True(t, p.look())
	require.Equal(t, []*simJob{again}, p.running)
}
