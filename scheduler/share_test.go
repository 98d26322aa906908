package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// Under a clock that stands still while anything is done, no look is late, so
// every rate gets all it is due; and no more.
func TestEveryRateReachesItsShareAndKeepsItsBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  string
		burst int64
		mode  DeferMode
	}{
		{rate: "1/s"},
		{rate: "10/s"},
		{rate: "100/s"},
		{rate: "1.5/s"},
		{rate: "7/m"},
		{rate: "100/m"},
		{rate: "3/7s"},
		{rate: "60/h"},
		{rate: "10/s", burst: 1},
		{rate: "1000/s", burst: 1},
		{rate: "3000/s", burst: 30},
		{rate: "10/s", burst: 1000},
		{rate: "1.5/s", burst: 2},
		{rate: "10/s", mode: UntilToken},
		{rate: "100/s", burst: 1, mode: UntilToken},
		{rate: "7/m", mode: UntilToken},
		{rate: "3/7s", burst: 1, mode: UntilToken},
		{rate: "1.5/s", mode: UntilToken},
	} {
		limit := must(bucket.NewLimit(c.rate, c.burst))
		t.Run(limit.String()+" "+string(c.mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.process(2000, []simTask{{name: "a", rate: c.rate, burst: c.burst, mode: c.mode}})
			// Three thousand starts, and long enough for the last hold not to
			// matter where a look grants many.
			perSecond := float64(limit.Rate.Count()) / 1e6 / limit.Rate.Period().Seconds()
			length := 3000 / perSecond
			if c.mode != UntilToken && c.burst == 0 {
				length = min(max(length, 2000), 20_000)
			}
			capacity := limit.Capacity() / bucket.Token
			due := length * perSecond
			w.enqueue(store.Line{Task: "a", Queue: "default"}, 0, int(due)+int(capacity)+1000)

			p.run(time.Duration(length * float64(time.Second)))

			starts := w.starts["task:a"]
			after := float64(len(starts)) - float64(capacity) // the burst at the beginning
			t.Logf("%.4f %% of %.0f starts", 100*after/due, due)
			require.GreaterOrEqual(t, after, 0.999*due-1, "one start may have come after the last look")
			require.LessOrEqual(t, MostAbove(limit, starts, 0), nearly)
			require.EqualValues(t, len(starts), w.limits["task:a"].Started)
		})
	}
}

// A hundred a minute, ten thousand waiting: a full bucket at once, two at most
// within any minute from then on, and a full one again after a month of rest.
func TestAFullBucketComesOnceAndThenTheRate(t *testing.T) {
	w := newWorld(t)
	p := w.process(2000, []simTask{{name: "a", rate: "100/m"}})
	line := store.Line{Task: "a", Queue: "default"}
	w.enqueue(line, 0, 10_000)
	p.run(0)
	require.Len(t, w.starts["task:a"], 100)

	p.run(2 * time.Hour)
	starts := w.starts["task:a"]
	require.Len(t, starts, 10_000)
	require.LessOrEqual(t, MostAbove(must(bucket.NewLimit("100/m", 0)), starts, 0), nearly)
	perMinute := map[int64]int{}
	for _, at := range starts {
		perMinute[at/60e6]++
	}
	require.LessOrEqual(t, perMinute[0], 200)
	for minute := int64(1); minute < 98; minute++ {
		require.InDelta(t, 100, perMinute[minute], 1, "minute %d", minute)
	}

	w.move(30 * 24 * time.Hour)
	w.enqueue(line, 0, 1000)
	p.survey()
	p.run(0)
	require.Len(t, w.starts["task:a"], 10_100)
}

// A burst, and then arrivals at nearly the rate: nobody waits for longer than
// what was in line before it takes, and nobody overtakes.
func TestEachJobGetsItsTurnWhileOthersArriveAtNearlyTheRate(t *testing.T) {
	t.Parallel()
	for _, mode := range []DeferMode{DeferSecond, UntilToken} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.process(100, []simTask{{name: "a", rate: "10/s", mode: mode}})
			line := store.Line{Task: "a", Queue: "default"}
			jobs := w.enqueue(line, 0, 200)
			const every = time.Second * 2 / 19 // 9.5 a second
			for range 5 * time.Minute / every {
				p.run(every)
				jobs = append(jobs, w.enqueue(line, 0, 1)...)
				p.arrive([]store.Line{line})
			}
			p.run(time.Minute)
			last := int64(0)
			for i, j := range jobs {
				require.Equal(t, "done", j.place)
				require.GreaterOrEqual(t, j.started, last, "job %d overtakes", i)
				require.LessOrEqual(t, j.started-j.FirstDue, int64(21*second), "190 were waiting when the second one came")
				last = j.started
			}
		})
	}
}

// Whoever looks often gets no less than whoever looks seldom: what is written
// back at each look and read again at the next loses nothing.
func TestItDoesNotMatterHowOftenALimitIsAsked(t *testing.T) {
	t.Parallel()
	for _, rate := range []string{"1/m", "7/m", "100/m", "10/s", "300/s", "1/h"} {
		for _, every := range []time.Duration{300 * time.Microsecond, time.Millisecond, 7 * time.Millisecond, 200 * time.Millisecond, 999 * time.Millisecond, 1001 * time.Millisecond} {
			t.Run(rate+" "+every.String(), func(t *testing.T) {
				t.Parallel()
				limit := must(bucket.NewLimit(rate, 0))
				perMicro := float64(limit.Rate.Count()) / 1e6 / float64(limit.Rate.Period().Microseconds())
				// There is room for what it earns between two looks.
				limit.Burst = limit.Capacity()/bucket.Token + int64(float64(every.Microseconds())*perMicro) + 1
				row := store.Limit{Name: "task:a"}
				row.SetBucket(bucket.Bucket{Limit: limit, Stamp: simStart})

				// A limit under which only drop tasks wait is asked at every
				// arrival: here more arrive each time than it has tokens for.
				k := &look{slots: 100_000}
				k.lines = []*lookLine{{Line: store.Line{Task: "a"}, drop: true, limits: []int{0}}}
				k.limits = []*lookLimit{{declared: limit, mode: DeferSecond}}
				arrivals := make([]store.Candidate, int(float64(every.Microseconds())*perMicro)+2)
				starts, now := 0, simStart
				for end := simStart + min(time.Hour, 10_000*every).Microseconds(); now < end; {
					now += every.Microseconds()
					k.Ask(now, store.Locked{Limits: []store.Limit{row}})
					plan := k.Decide([][]store.Candidate{arrivals})
					for _, saved := range plan.Save {
						row = saved
					}
					starts += len(plan.Start)
				}

				due := float64(now-simStart) * perMicro
				require.InDelta(t, due-0.5, starts, 0.5+nearly, "rounded down")
			})
		}
	}
}
