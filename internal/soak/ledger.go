package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/weirq/weir/bucket"
)

// ledger is a file in which handlers write down what they do. It lies outside
// the database, so that nothing which happens to that can change it.
type ledger string

// note appends a line in one write, which other processes cannot cut.
func note(file *os.File, what, id string, granted time.Time) error {
	_, err := fmt.Fprintf(file, "%s %s %d %d\n", what, id, granted.UnixMicro(), time.Now().UnixMicro())
	return err
}

// attempt is one run of a job. Times are microseconds: the grant is the
// database's, the others are the host's.
type attempt struct{ granted, started, ended int64 }

// history is what a ledger says.
type history struct {
	attempts map[string][]attempt
	effects  map[string]int
	granted  []int64
	ticks    []int64 // the grants of a schedule's jobs
}

func (l ledger) read() (history, error) {
	h := history{attempts: map[string][]attempt{}, effects: map[string]int{}}
	text, err := os.ReadFile(string(l))
	if err != nil {
		return h, err
	}
	for line := range bytes.Lines(text) {
		var what, id string
		var grant, at int64
		if _, err := fmt.Sscan(string(line), &what, &id, &grant, &at); err != nil {
			return h, fmt.Errorf("ledger: %q: %w", line, err)
		}
		switch list := h.attempts[id]; what {
		case "start":
			h.attempts[id] = append(list, attempt{granted: grant, started: at})
			h.granted = append(h.granted, grant)
		case "effect":
			h.effects[id]++
			list[len(list)-1].ended = at
		case "tick":
			h.ticks = append(h.ticks, grant)
		}
	}
	return h, nil
}

// ended is how many effects there are so far.
func (l ledger) ended() int {
	text, _ := os.ReadFile(string(l))
	return bytes.Count(text, []byte("effect "))
}

// repeated is how many effects there were beyond the first of each job.
func (h history) repeated() (n int) {
	for _, times := range h.effects {
		n += times - 1
	}
	return n
}

// lost is how many of the jobs had no effect.
func (h history) lost(ids []string) (n int) {
	for _, id := range ids {
		if h.effects[id] == 0 {
			n++
		}
	}
	return n
}

// startsFrom is how long after a moment the first job was started; negative:
// none was.
func (h history) startsFrom(at time.Time) time.Duration {
	first := int64(-1)
	for _, list := range h.attempts {
		for _, a := range list {
			if a.started >= at.UnixMicro() && (first < 0 || a.started < first) {
				first = a.started
			}
		}
	}
	if first < 0 {
		return -1
	}
	return time.UnixMicro(first).Sub(at)
}

// longestWait is the longest time from an acknowledgement to the start.
func (h history) longestWait(producers []*producer) (longest time.Duration) {
	for _, p := range producers {
		for id, at := range p.when {
			if list := h.attempts[id]; len(list) > 0 {
				longest = max(longest, time.UnixMicro(list[0].started).Sub(at))
			}
		}
	}
	return longest
}

// overBetween counts as overTheBound does, apart for the times between steps of
// the clock: grants are told by when their handlers began.
func (h history) overBetween(rate string, steps ...time.Time) (over int, err error) {
	parts := make([][]int64, len(steps)+1)
	for _, list := range h.attempts {
		for _, a := range list {
			n := 0
			for n < len(steps) && time.UnixMicro(a.started).After(steps[n]) {
				n++
			}
			parts[n] = append(parts[n], a.granted)
		}
	}
	for _, part := range parts {
		n, err := overTheBound(rate, 0, part)
		if err != nil {
			return 0, err
		}
		over += n
	}
	return over, nil
}

// overTheBound counts the intervals between two grants that hold more of them
// than capacity + length x rate.
func overTheBound(rate string, burst int64, granted []int64) (int, error) {
	limit, err := bucket.NewLimit(rate, burst)
	if err != nil {
		return 0, err
	}
	slices.Sort(granted)
	capacity := float64(limit.Capacity()) / float64(bucket.Token)
	perMicro := float64(limit.Rate.Count()) / float64(bucket.Token) / float64(limit.Rate.Period().Microseconds())
	over := 0
	for i := range granted {
		for j := i; j < len(granted); j++ {
			if float64(j-i+1) > capacity+float64(granted[j]-granted[i])*perMicro+1e-6 {
				over++
			}
		}
	}
	return over, nil
}
