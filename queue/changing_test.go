package queue_test

import "github.com/weirq/weir/internal/store"

// changing is a turn that does nothing but to change the one limit it locked.
func changing(do func(*store.Limit)) store.Admission { return &change{do: do} }

type change struct {
	do   func(*store.Limit)
	save []store.Limit
}

func (c *change) Ask(_ int64, locked store.Locked) []store.Ask {
	limits := locked.Limits
	c.do(&limits[0])
	c.save = limits
	return nil
}

func (c *change) Decide([][]store.Candidate) store.Plan { return store.Plan{Save: c.save} }
