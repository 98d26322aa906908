package scheduler

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/internal/store"
)

// read is a limit of the fixed-window strategy of which a row was read: an open
// window in which a number of starts is counted.
func read(name string, count, counted int64) *limit {
	w := &window{quota: bucket.Quota{Count: count, Period: time.Minute}}
	w.read(store.Window{Name: name, ID: 1, From: simStart, Count: counted, Now: simStart + 1}, time.UnixMicro(simStart+1))
	return &limit{Declared: store.Declared{Name: name}, window: w}
}

// asked is a line with jobs, covered by limits.
type asked struct {
	task   string
	limits []*limit
	jobs   []store.Candidate
	cap    int // 0: none
}

// decide runs a look over lines, and returns the ids of what starts.
func decide(t *testing.T, slots int, locked []store.Window, lines ...asked) ([]int64, *look, store.Plan) {
	t.Helper()
	k := &look{slots: slots}
	for _, a := range lines {
		key := store.Line{Task: a.task, Queue: "q"}
		view := &lookLine{Line: key, share: 100, line: &line{Line: key, limits: a.limits}}
		if a.cap > 0 {
			view.gates = []int{len(k.gates)}
			k.gates = append(k.gates, &lookGate{gate: &gate{name: taskPrefix + a.task, task: a.task, cap: a.cap}})
		}
		k.lines = append(k.lines, view)
	}
	k.windows = newWindows(k.lines)
	asks := k.Ask(simStart+2, store.Locked{Windows: locked, Gates: make([]store.Gate, len(k.gates))})
	read := make([][]store.Candidate, len(asks))
	for i, ask := range asks {
		for _, a := range lines {
			if a.task == ask.Task {
				read[i] = a.jobs[:min(ask.Max, len(a.jobs))]
			}
		}
	}
	plan := k.Decide(read)
	return plan.Start, k, plan
}

// jobs are candidates of a rank (the lower, the sooner), with ids in a row.
func jobs(rank, first, n int) []store.Candidate {
	out := make([]store.Candidate, n)
	for i := range out {
		out[i] = store.Candidate{ID: int64(first + i), Rank: rank}
	}
	return out
}

func TestALookStartsAtMostOneJobThatLimitsCoverAndAnyNumberOfOthers(t *testing.T) {
	started, k, _ := decide(t, 10, nil,
		asked{task: "limited", limits: []*limit{read("l", 5, 0)}, jobs: jobs(1, 100, 5)},
		asked{task: "free", jobs: jobs(0, 1, 4)})
	require.Equal(t, []int64{1, 2, 3, 4, 100}, started)
	require.Equal(t, "limited", k.windows.admitted.Task)
	require.True(t, k.lines[0].left(), "another waits for the next refresh")
}

// The second one that has room can start a moment later, and finds a slot then.
func TestALimitedJobThatHasRoomHasTheNextSlotAndHoldsUpNoOther(t *testing.T) {
	for _, c := range []struct {
		name    string
		slots   int
		counted int64
		started []int64
	}{
		{"the last slot is the second one's", 2, 0, []int64{100}},
		{"the others are taken by what no limit covers", 4, 0, []int64{100, 1, 2}},
		{"there is room for two", 3, 3, []int64{100, 1}},
		{"for one: the others are throttled, and have no slot left for them", 3, 4, []int64{100, 1, 2}},
	} {
		started, _, _ := decide(t, c.slots, nil,
			asked{task: "limited", limits: []*limit{read("l", 5, c.counted)}, jobs: jobs(-9, 100, 5)},
			asked{task: "free", jobs: jobs(0, 1, 4)})
		require.Equal(t, c.started, started, c.name)
	}
}

func TestALineWhoseLimitHasNoRoomIsNotAskedAtAll(t *testing.T) {
	shared, own := read("shared", 5, 5), read("own", 5, 0)
	started, k, _ := decide(t, 10, nil,
		asked{task: "both", limits: []*limit{own, shared}, jobs: jobs(-9, 100, 5)},
		asked{task: "own", limits: []*limit{own}, jobs: jobs(-8, 200, 5)},
		asked{task: "free", jobs: jobs(0, 1, 2)})
	require.Equal(t, []int64{200, 1, 2}, started)
	require.Len(t, k.asked, 2)
	require.Zero(t, k.lines[0].max)
	require.EqualValues(t, 1, k.windows.views[own].Count)
	require.EqualValues(t, 5, k.windows.views[shared].Count, "a refusal leaves every limit as it was")
}

func TestAJobIsCountedInEveryLimitThatCoversIt(t *testing.T) {
	l, m, exact := read("l", 5, 1), read("m", 5, 2), read("x", 5, 3)
	exact.window.exact = true
	_, k, plan := decide(t, 10, []store.Window{{Name: "x", ID: 7, From: simStart, Count: 3, Now: simStart + 2}},
		asked{task: "a", limits: []*limit{l, m, exact}, jobs: jobs(0, 1, 2)})
	require.Equal(t, []int64{1}, plan.Start)
	require.Equal(t, []int64{2, 3, 4}, []int64{k.windows.views[l].Count, k.windows.views[m].Count, k.windows.views[exact].Count})
	require.Equal(t, []store.SavedWindow{{Name: "x", ID: 7, From: simStart, Count: 4, Started: 1}}, plan.SaveWindows, "exact limits are counted by the turn")
	k.windows.learn(time.UnixMicro(simStart + 2))
	require.EqualValues(t, 2, l.window.row.Count)
	require.EqualValues(t, 7, exact.window.row.ID)
}

func TestOfAnExactLimitTheLockedRowDecides(t *testing.T) {
	const minute = 60 * second
	for _, c := range []struct {
		name    string
		locked  store.Window
		started int
		saved   []store.SavedWindow
	}{
		{"it has room", store.Window{ID: 3, From: simStart, Count: 4, Now: simStart + 2}, 1, []store.SavedWindow{{ID: 3, From: simStart, Count: 5, Started: 1}}},
		{"another process took the last place", store.Window{ID: 3, From: simStart, Count: 5, Now: simStart + 2}, 0, nil},
		{"its window is over: the turn opens the next", store.Window{ID: 3, From: simStart - minute, Count: 5, Now: simStart + 2}, 1, []store.SavedWindow{{ID: 4, From: simStart + 2, Count: 1, Started: 1}}},
		{"an operator paused it", store.Window{ID: 3, From: simStart, Paused: true, Now: simStart + 2}, 0, nil},
		{"an operator cut its count", store.Window{ID: 3, From: simStart, Count: 2, Rate: sql.NullString{String: "2/m", Valid: true}, Now: simStart + 2}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := read("", 5, 0)
			l.window.exact = true
			started, k, plan := decide(t, 10, []store.Window{c.locked}, asked{task: "a", limits: []*limit{l}, jobs: jobs(0, 1, 2)})
			require.Len(t, started, c.started)
			require.Equal(t, c.saved, plan.SaveWindows)
			k.windows.learn(time.UnixMicro(simStart + 2))
			require.Equal(t, plan.SaveWindows != nil && plan.SaveWindows[0].Count < 5, l.window.room(), "what was locked is known afterwards")
		})
	}
}

func TestCapsComeBeforeLimits(t *testing.T) {
	l := read("l", 5, 0)
	started, k, _ := decide(t, 10, nil,
		asked{task: "capped", cap: 1, limits: []*limit{l}, jobs: jobs(0, 1, 5)},
		asked{task: "free", jobs: jobs(1, 10, 2)})
	require.Equal(t, []int64{1, 10, 11}, started, "its cap is used up: none of its line may start, and nobody waits behind it")
	require.EqualValues(t, 1, k.windows.views[l].Count)
	started, _, _ = decide(t, 0, nil, asked{task: "a", limits: []*limit{l}, jobs: jobs(0, 1, 5)})
	require.Empty(t, started)
}

func TestAnOperatorsCountHoldsUntilItEnds(t *testing.T) {
	w := &window{quota: bucket.Quota{Count: 100, Period: time.Minute}}
	over := func(rate string, until int64) *store.Window {
		return &store.Window{Rate: sql.NullString{String: rate, Valid: true}, OverUntil: sql.NullInt64{Int64: until, Valid: until != 0}, Now: simStart}
	}
	require.EqualValues(t, 100, w.inForce(&store.Window{Now: simStart}))
	require.EqualValues(t, 20, w.inForce(over("20/m", 0)))
	require.EqualValues(t, 20, w.inForce(over("20/m", simStart+1)))
	require.EqualValues(t, 100, w.inForce(over("20/m", simStart)), "it is over")
	require.EqualValues(t, 20, w.inForce(over("20/h", 0)), "it changes the count, never the period")
	require.EqualValues(t, 8, w.inForce(over("8/1.5s", 0)))
	require.EqualValues(t, 100, w.inForce(over("garbage", 0)))
}

func TestThreeStartsThatAreNotCountedCloseALimit(t *testing.T) {
	const landed = -1
	for _, c := range []struct {
		name   string
		starts []int64 // the generation of each that was not counted
		closes int     // after so many starts; 0: never
	}{
		{"one", []int64{1}, 0},
		{"three in a row", []int64{1, 1, 1}, 3},
		{"three in a row over windows", []int64{1, 2, 3}, 3},
		{"two, then one that lands", []int64{1, 2, landed, 3, 4}, 0},
		{"every other, within one window", []int64{1, landed, 1, landed, 1}, 5},
		{"every other, over windows", []int64{1, landed, 1, landed, 2, landed, 2, landed, 3}, 0},
	} {
		var l losses
		closed := 0
		for i, generation := range c.starts {
			if generation == landed {
				l.landed()
			} else if l.add(generation) {
				closed = i + 1
			}
		}
		require.Equal(t, c.closes, closed, c.name)
		require.Equal(t, c.closes > 0, l.closed, c.name)
	}
}

func TestALimitThatWasReopenedClosesAtTheNextLoss(t *testing.T) {
	var l losses
	l.add(1)
	l.add(1)
	require.True(t, l.add(1))
	require.False(t, l.add(1), "it is closed already")
	l.closed = false // a probe landed: that is no count
	require.True(t, l.add(2))
	l.closed = false
	l.landed()
	require.False(t, l.add(2))
	require.False(t, l.add(3))
	require.True(t, l.add(4), "in a row")
}

func TestAWindowThatWasReadIsNotAskedAgainBeforeItsEnd(t *testing.T) {
	full := read("l", 5, 5).window
	at := time.UnixMicro(simStart + 1)
	require.False(t, full.room())
	require.Equal(t, at.Add(time.Minute-time.Microsecond), full.ends)
	require.False(t, full.outlived(full.ends.Add(-1)))
	require.True(t, full.outlived(full.ends))
	full.row.Paused = true
	require.False(t, full.outlived(full.ends), "its end changes nothing")
	require.False(t, read("l", 5, 4).window.outlived(full.ends), "it has room, and the next start reads it anyway")
	require.False(t, read("l", 0, 0).window.room(), "a count of 0 is a pause")

	w := &window{quota: bucket.Quota{Count: 5, Period: time.Minute}}
	w.read(store.Window{ID: 4, From: simStart, Count: 5, Now: simStart + 60*second}, at)
	require.True(t, w.over)
	require.True(t, w.room(), "it can be rolled")
	w.rolled(simStart+60*second, at)
	require.Equal(t, bucket.Window{ID: 5, From: simStart + 60*second}, w.row.State())
	require.Equal(t, at.Add(time.Minute), w.ends)
	require.False(t, w.over)
}

// The database's clock stands beside the row; the process's own only says when to
// look again.
func TestTheProcesssOwnClockAdmitsNothing(t *testing.T) {
	for _, skew := range []time.Duration{-48 * time.Hour, -time.Second, 0, time.Second, 48 * time.Hour} {
		at := time.UnixMicro(simStart).Add(skew)
		for _, c := range []struct {
			row  store.Window
			room bool
			over bool
		}{
			{store.Window{ID: 1, From: simStart - 59*second, Count: 5, Now: simStart}, false, false},
			{store.Window{ID: 1, From: simStart - 59*second, Count: 4, Now: simStart}, true, false},
			{store.Window{ID: 1, From: simStart - 60*second, Count: 5, Now: simStart}, true, true},
		} {
			w := &window{quota: bucket.Quota{Count: 5, Period: time.Minute}}
			w.read(c.row, at)
			require.Equal(t, []bool{c.room, c.over}, []bool{w.room(), w.over}, "%v", skew)
			require.Equal(t, at.Add(time.Duration(c.row.From+60*second-simStart)*time.Microsecond), w.ends)
		}
	}
}

func TestAWindowWhoseRowIsLockedLetsNothingStart(t *testing.T) {
	at := time.UnixMicro(simStart)
	w := &window{quota: bucket.Quota{Count: 5, Period: time.Minute}}
	row := store.Window{ID: 4, From: simStart - 60*second, Now: simStart}
	w.read(row, at)
	w.lose(false)
	require.True(t, w.room(), "who loses a roll keeps what it read")
	w.read(row, at)
	w.lose(false)
	require.False(t, w.room(), "the other has not opened it")
	row.ID++
	w.read(row, at)
	w.lose(false)
	require.True(t, w.room(), "it is the first that was lost of this generation")
	w.read(row, at)
	w.lose(true)
	require.False(t, w.room(), "nobody waited for the row")
	w.read(row, at)
	require.True(t, w.room(), "it is tried again at the next refresh")
}
