package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/queue"
)

// killRound is two schedulers on one database, of which one after the other is
// killed and started again while they work off a backlog.
type killRound struct {
	dsn, dir    string
	jobs, kills int

	killed []int64 // when, in microseconds
}

// killResult is what a round showed.
type killResult struct {
	jobs, kills    int
	lost, repeated int
	over           int           // intervals that held more starts than the bound
	reclaim        time.Duration // the longest wait for a killed job after its lease could have ended
	perSecond      float64
}

func (r killResult) String() string {
	return fmt.Sprintf("%d | %d | %d | %d | %d | %v | %.0f", r.jobs, r.kills, r.lost, r.repeated, r.over, r.reclaim.Round(time.Millisecond), r.perSecond)
}

// check says what a round must show.
func (r killResult) check(kills int) error {
	const reclaimWithin = time.Second
	switch {
	case r.lost > 0:
		return fmt.Errorf("%d jobs were lost", r.lost)
	case r.repeated > kills:
		return fmt.Errorf("%d effects were repeated by %d kills", r.repeated, kills)
	case r.over > 0:
		return fmt.Errorf("the bound was broken %d times", r.over)
	case r.reclaim > reclaimWithin:
		return fmt.Errorf("a killed job came back %v after its lease", r.reclaim)
	}
	return nil
}

func (k *killRound) run(ctx context.Context) (killResult, error) {
	client, err := queue.Open(ctx, k.dsn)
	if err != nil {
		return killResult{}, err
	}
	defer client.Close()
	if _, err := work.EnqueueMany(ctx, client, make([]int, k.jobs)); err != nil {
		return killResult{}, err
	}
	began := time.Now()
	pair := make([]*exec.Cmd, 2)
	defer func() {
		for _, p := range pair {
			if p != nil {
				_ = p.Process.Kill()
				_ = p.Wait()
			}
		}
	}()
	for i := range pair {
		if pair[i], err = k.start(ctx); err != nil {
			return killResult{}, err
		}
	}
	for range k.kills {
		if err := pause(ctx, time.Duration(200+rand.IntN(400))*time.Millisecond); err != nil {
			return killResult{}, err
		}
		i := rand.IntN(len(pair))
		k.killed = append(k.killed, time.Now().UnixMicro())
		_ = pair[i].Process.Kill()
		_ = pair[i].Wait()
		if pair[i], err = k.start(ctx); err != nil {
			return killResult{}, err
		}
	}
	if err := k.settle(ctx, client); err != nil {
		return killResult{}, err
	}
	took := time.Since(began)
	for i, p := range pair {
		_ = p.Process.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil {
			return killResult{}, fmt.Errorf("scheduler %d did not stop well: %w", i, err)
		}
		pair[i] = nil
	}
	r, err := k.judge()
	r.perSecond = float64(k.jobs) / took.Seconds()
	return r, err
}

func (k *killRound) ledger() string { return filepath.Join(k.dir, "ledger") }

func (k *killRound) start(ctx context.Context) (*exec.Cmd, error) {
	config, err := json.Marshal(childConfig{DSN: k.dsn, Ledger: k.ledger()})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childEnv+"="+string(config))
	cmd.Stderr = os.Stderr
	return cmd, cmd.Start()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle waits until nothing is live any more.
func (k *killRound) settle(ctx context.Context, client *queue.Client) error {
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		page, err := client.List(ctx, queue.Filter{States: []queue.State{queue.StatePending, queue.StateRunning}, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Items) == 0 {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("jobs are left after five minutes")
}

type attempt struct{ granted, started, ended int64 }

// judge reads the ledger, which the schedulers kept outside the database.
func (k *killRound) judge() (killResult, error) {
	text, err := os.ReadFile(k.ledger())
	if err != nil {
		return killResult{}, err
	}
	attempts, effects := map[string][]attempt{}, map[string]int{}
	var granted []int64
	for line := range bytes.Lines(text) {
		var what, id string
		var grant, at int64
		if _, err := fmt.Sscan(string(line), &what, &id, &grant, &at); err != nil {
			return killResult{}, fmt.Errorf("ledger: %q: %w", line, err)
		}
		if what == "start" {
			attempts[id] = append(attempts[id], attempt{granted: grant, started: at})
			granted = append(granted, grant)
		} else {
			effects[id]++
			attempts[id][len(attempts[id])-1].ended = at
		}
	}
	r := killResult{jobs: k.jobs, kills: k.kills, lost: k.jobs - len(effects)}
	for _, n := range effects {
		r.repeated += n - 1
	}
	for _, list := range attempts {
		for i := 1; i < len(list); i++ {
			r.reclaim = max(r.reclaim, k.late(list[i-1], list[i]))
		}
	}
	r.over, err = overTheBound(granted)
	return r, err
}

// late is how long after the lease of a killed attempt the next one began. The
// lease may have been renewed until the kill, which is the first one after the
// attempt began.
func (k *killRound) late(before, next attempt) time.Duration {
	i, _ := slices.BinarySearch(k.killed, before.started)
	if i == len(k.killed) {
		return 0
	}
	return time.Duration(next.granted-k.killed[i])*time.Microsecond - lease
}

// overTheBound counts the intervals between two grants that hold more of them
// than capacity + length x rate.
func overTheBound(granted []int64) (int, error) {
	limit, err := bucket.NewLimit(rate, 0)
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
