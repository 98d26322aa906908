package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/weirq/weir/queue"
)

// killRate paces the starts, and killBurst keeps jobs of one length from ending at
// one moment, also at the beginning: a kill repeats what ended since the last commit.
const (
	killRate  = "75/s"
	killBurst = 5
)

// kills runs rounds in which schedulers are killed.
func kills(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("soak", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "how many rounds on each database")
	jobs := flags.Int("jobs", 2000, "jobs in a round")
	kills := flags.Int("kills", 20, "kill -9 in a round")
	_ = flags.Parse(args) // it exits
	dir, err := os.MkdirTemp("", "weir-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("| database | round | jobs | kills | lost | repeated effects | over the bound | slowest reclaim after its lease | jobs/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	var failed error
	for _, database := range []string{"sqlite", "postgres"} {
		for n := 1; n <= *rounds; n++ {
			folder := filepath.Join(dir, fmt.Sprintf("%s-%d", database, n))
			if err := os.Mkdir(folder, 0o700); err != nil {
				return err
			}
			k := killRound{dir: folder, jobs: *jobs, kills: *kills}
			if k.dsn, err = dsn(database, folder, n); err != nil {
				return err
			}
			result, err := k.run(ctx)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", database, n, err)
			}
			fmt.Printf("| %s | %d | %s |\n", database, n, result)
			failed = errors.Join(failed, result.check(*kills))
		}
	}
	return failed
}

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
	if err := settle(ctx, client); err != nil {
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

func (k *killRound) ledger() ledger { return ledger(filepath.Join(k.dir, "ledger")) }

func (k *killRound) start(ctx context.Context) (*exec.Cmd, error) {
	return startChild(ctx, childConfig{DSN: k.dsn, Ledger: string(k.ledger()), Rate: killRate, Burst: killBurst}, os.Stderr)
}

// judge reads the ledger.
func (k *killRound) judge() (killResult, error) {
	h, err := k.ledger().read()
	if err != nil {
		return killResult{}, err
	}
	r := killResult{jobs: k.jobs, kills: k.kills, lost: k.jobs - len(h.effects), repeated: h.repeated()}
	for _, list := range h.attempts {
		for i := 1; i < len(list); i++ {
			r.reclaim = max(r.reclaim, k.late(list[i-1], list[i]))
		}
	}
	r.over, err = overTheBound(killRate, killBurst, h.granted)
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
