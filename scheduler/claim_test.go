package scheduler_test

import (
	"sync/atomic"

	"github.com/weirq/weir/internal/store"
)

// claims numbers the claims that tests make by hand.
var claims atomic.Int64

// wholeLine starts what waits in a line, up to a thousand jobs, whatever
// limits say.
type wholeLine struct{ line store.Line }

func (w wholeLine) Ask(int64, store.Locked) []store.Ask {
	return []store.Ask{{Line: w.line, Max: 1000}}
}

func (wholeLine) Decide(read [][]store.Candidate) store.Plan {
	var plan store.Plan
	for _, c := range read[0] {
		plan.Start = append(plan.Start, c.ID)
	}
	return plan
}
