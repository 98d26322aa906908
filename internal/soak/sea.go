package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirq/weir/queue"
)

// sea is what a fault happens to: schedulers on a database, a producer that
// enqueues, and the servers that the fault needs.
type sea struct {
	dir    string // everything on disk
	number int
	short  bool

	crew      []*exec.Cmd
	logs      []string
	ends      []func()
	producers sync.WaitGroup
	err       error // what the end showed
}

// atEnd calls do when the fault is over, before what was put off earlier.
func (s *sea) atEnd(do func()) { s.ends = append(s.ends, do) }

func (s *sea) end() {
	for _, p := range s.crew {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	for _, end := range slices.Backward(s.ends) {
		end()
	}
}

// pick is one of two values: for the long form, and for the short one.
func pick[T any](s *sea, long, short T) T {
	if s.short {
		return short
	}
	return long
}

func (s *sea) ledger() ledger { return ledger(filepath.Join(s.dir, "ledger")) }

// schedule starts a scheduler; its place in the crew is returned.
func (s *sea) schedule(ctx context.Context, c childConfig) (int, error) {
	n := len(s.crew) + 1
	c.Ledger, c.Log = string(s.ledger()), filepath.Join(s.dir, fmt.Sprintf("scheduler-%d.log", n))
	stderr, err := appendTo(c.Log)
	if err != nil {
		return 0, err
	}
	defer stderr.Close()
	p, err := startChild(ctx, c, stderr)
	if err != nil {
		return 0, err
	}
	s.crew, s.logs = append(s.crew, p), append(s.logs, c.Log)
	return n - 1, nil
}

// kill ends a scheduler with kill -9.
func (s *sea) kill(n int) {
	_ = s.crew[n].Process.Kill()
	_ = s.crew[n].Wait()
}

// stop ends the schedulers, each of which must stop well.
func (s *sea) stop() (err error) {
	for i, p := range s.crew {
		if p.ProcessState != nil {
			continue
		}
		_ = p.Process.Signal(syscall.SIGTERM)
		if e := p.Wait(); e != nil {
			err = errors.Join(err, fmt.Errorf("scheduler %d did not stop well: %w", i+1, e))
		}
	}
	return err
}

// busy is how much of a processor each scheduler used in its life, which lasted
// at least that long; they have been stopped.
func (s *sea) busy(life time.Duration) (most float64) {
	for _, p := range s.crew {
		used := p.ProcessState.UserTime() + p.ProcessState.SystemTime()
		most = max(most, used.Seconds()/life.Seconds())
	}
	return most
}

// logged is how often schedulers logged an event, or one that begins so.
func (s *sea) logged(event string) (n int) {
	for _, path := range s.logs {
		text, _ := os.ReadFile(path)
		n += strings.Count(string(text), " msg="+event)
	}
	return n
}

// schedulers is how many there are where nothing else is said.
const schedulers = 2

// sail has schedulers and two producers work on a database.
func (s *sea) sail(ctx context.Context, c childConfig) (*queue.Client, []*producer, error) {
	client, err := s.crewed(ctx, schedulers, c)
	if err != nil {
		return nil, nil, err
	}
	return client, []*producer{s.produce(ctx, client, 10*time.Millisecond), s.produce(ctx, client, 10*time.Millisecond)}, nil
}

// crewed has schedulers work on a database, and waits until they do.
func (s *sea) crewed(ctx context.Context, schedulers int, c childConfig) (*queue.Client, error) {
	client, err := queue.Open(ctx, c.DSN)
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { s.err = errors.Join(s.err, client.Close()) })
	for range schedulers {
		if _, err := s.schedule(ctx, c); err != nil {
			return nil, err
		}
	}
	return client, s.untilAll(ctx, "wakeups_", schedulers)
}

// untilAll waits until an event was logged so many times.
func (s *sea) untilAll(ctx context.Context, event string, times int) error {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); s.logged(event) < times; {
		if time.Now().After(deadline) {
			return fmt.Errorf("`%s` was logged %d times after %v, and not %d", event, s.logged(event), patience, times)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// producer enqueues jobs one after the other, each until it is acknowledged.
type producer struct {
	every time.Duration

	mu       sync.Mutex
	acked    []string
	when     map[string]time.Time // the acknowledgements
	refusals []error
	stop     context.CancelFunc
}

// produce enqueues a job every so often until the producer is ended.
func (s *sea) produce(ctx context.Context, client *queue.Client, every time.Duration) *producer {
	ctx, stop := context.WithCancel(ctx)
	p := &producer{every: every, stop: stop, when: map[string]time.Time{}}
	s.producers.Go(func() { p.run(ctx, client) })
	return p
}

func (p *producer) run(ctx context.Context, client *queue.Client) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.enqueue(context.WithoutCancel(ctx), client, n)
	}
}

// enqueue tries until the job is acknowledged: the id makes that one job. What
// has been begun is brought to its end.
func (p *producer) enqueue(ctx context.Context, client *queue.Client, n int) {
	const patience = 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var opts []queue.EnqueueOption
	for {
		receipt, err := work.Enqueue(ctx, client, n, opts...)
		p.mu.Lock()
		if err == nil {
			p.acked = append(p.acked, receipt.ID)
			p.when[receipt.ID] = time.Now()
		} else {
			p.refusals = append(p.refusals, err)
		}
		p.mu.Unlock()
		if err == nil || pause(ctx, 50*time.Millisecond) != nil {
			return
		}
		opts = []queue.EnqueueOption{queue.ID(receipt.ID)}
	}
}

// acknowledged stops the producers and returns the ids that they have.
func (s *sea) acknowledged(p ...*producer) (ids []string) {
	for _, p := range p {
		p.stop()
	}
	s.producers.Wait()
	for _, p := range p {
		ids = append(ids, p.acked...)
	}
	return ids
}

// refused is how many enqueues failed and had to be repeated, and the last
// reason.
func (p *producer) refused() (n int, last error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n = len(p.refusals); n > 0 {
		last = p.refusals[n-1]
	}
	return n, last
}

// landed waits until every job has come to its end, stops the schedulers, and
// reads in the ledger what became of the acknowledged jobs, and how long after
// the end of each fault work came back.
func (s *sea) landed(ctx context.Context, client *queue.Client, ids []string, rate string, healed ...time.Time) (outcome, error) {
	if err := settle(ctx, client); err != nil {
		return outcome{}, err
	}
	if err := s.stop(); err != nil {
		return outcome{}, err
	}
	h, err := s.ledger().read()
	if err != nil {
		return outcome{}, err
	}
	o := outcome{lost: h.lost(ids), repeated: h.repeated()}
	for _, at := range healed {
		back := h.startsFrom(at)
		if back < 0 {
			o.back = back
			break
		}
		o.back = max(o.back, back)
	}
	o.over, err = overTheBound(rate, 0, h.granted)
	return o, err
}
