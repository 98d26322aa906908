package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// group is group commit: single inserts that arrive while a commit is under
// way go together into the next one, so that their number does not cost as
// many flushes of the disk.
type group struct {
	mu      sync.Mutex
	pending []*groupedInsert
	running bool
	wg      sync.WaitGroup // Close waits for the flusher
	company company
}

// company is who is waited for before a commit: callers that were just answered
// tend to come back at once with their next job. Without it those who came
// meanwhile would go alone, half of all callers in each commit. Where they do not
// come back, not even half of them, they are waited for less and less often.
type company struct {
	want    int           // pending ones
	arrived chan struct{} // closed when there are so many; nil: nobody waits
	atMost  time.Duration
	vain    int // how often they did not come since they did
	pass    int // commits until the next wait
}

const (
	// patienceShare of the time the last commit took is waited at most, and not
	// longer than mostPatience: a database that hung has told nothing about callers.
	patienceShare = 4
	mostPatience  = 5 * time.Millisecond
	// mostVain waits count: up to 2^mostVain commits go between two.
	mostVain = 4
)

type groupedInsert struct {
	ctx    context.Context //nolint:containedctx // its caller's: how long somebody waits
	job    NewJob
	result Inserted
	err    error
	done   chan struct{}
}

// InsertOne inserts one job, together with what other callers insert at the
// same time. When ctx ends first the outcome is unknown: the insert may be
// repeated with the same id.
func (s *Store) InsertOne(ctx context.Context, job NewJob) (Inserted, error) {
	if err := ctx.Err(); err != nil {
		return Inserted{}, err
	}
	// A job that can collide waits, on PostgreSQL, for whoever has its key or id
	// in an open transaction, which may itself be waiting for one of ours: it
	// must not make the others wait.
	if s.target.dialect == Postgres && (job.UniqueKey != "" || job.Repeat) {
		out, err := s.Insert(ctx, []NewJob{job})
		if err != nil {
			return Inserted{}, err
		}
		return out[0], nil
	}
	c := &groupedInsert{ctx: ctx, job: job, done: make(chan struct{})}
	g := &s.group
	g.mu.Lock()
	g.pending = append(g.pending, c)
	if g.company.arrived != nil && len(g.pending) >= g.company.want {
		close(g.company.arrived)
		g.company.arrived = nil
	}
	if !g.running {
		g.running = true
		g.wg.Add(1)
		go s.flushInserts(context.WithoutCancel(ctx))
	}
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		return Inserted{}, ctx.Err()
	}
}

// flushInserts commits what is pending until nothing is.
func (s *Store) flushInserts(ctx context.Context) {
	g := &s.group
	defer g.wg.Done()
	for {
		g.mu.Lock()
		batch := g.pending
		if len(batch) == 0 {
			g.running = false
			g.mu.Unlock()
			return
		}
		if len(batch) > insertRows {
			batch = batch[:insertRows]
		}
		g.pending = g.pending[len(batch):]
		g.mu.Unlock()

		began := s.elapsed()
		s.insertGroup(ctx, batch)
		clear(batch) // what pending lies in is not to keep them
		g.gather(len(batch), s.elapsed()-began)
	}
}

// gather waits, after a commit that took so long, until those who were just
// answered are back.
func (g *group) gather(answered int, took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.company
	if c.pass > 0 {
		c.pass--
		return
	}
	if len(g.pending) >= insertRows {
		return
	}
	c.want = min(answered+len(g.pending), insertRows)
	arrived, atMost := make(chan struct{}), min(took/patienceShare, c.atMost)
	c.arrived = arrived
	g.mu.Unlock()
	// In real time, also under an injected clock, which nobody moves meanwhile.
	fired, stop := clock.System{}.Timer(atMost)
	select {
	case <-arrived:
	case <-fired:
	}
	stop()
	g.mu.Lock()
	c.arrived = nil
	if missing := c.want - len(g.pending); missing <= answered/2 {
		c.vain = 0
		return
	}
	c.vain = min(c.vain+1, mostVain)
	c.pass = 1 << c.vain
}

// insertGroup answers the callers of one batch. Where one of its jobs cannot
// be stored, each goes alone, so that the others do not suffer for it. A batch
// for which nobody waits any more is given up: a database that hangs holds up
// the next one no longer than its callers are willing to wait.
func (s *Store) insertGroup(ctx context.Context, batch []*groupedInsert) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var waiting atomic.Int64
	waiting.Store(int64(len(batch)))
	for _, c := range batch {
		defer context.AfterFunc(c.ctx, func() { //nolint:contextcheck // it watches over another one
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})()
	}
	jobs := make([]NewJob, len(batch))
	for i, c := range batch {
		jobs[i] = c.job
	}
	results, err := s.Insert(ctx, jobs)
	if err != nil && len(batch) > 1 && unfit(err) {
		for i := range batch {
			s.insertGroup(ctx, batch[i:i+1])
		}
		return
	}
	for i, c := range batch {
		if c.err = err; err == nil {
			c.result = results[i]
		}
		close(c.done)
	}
}
