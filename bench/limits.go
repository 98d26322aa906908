package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/internal/bench"
)

const (
	// mixedFor is for how long limited jobs are watched, from the start of the
	// workers.
	mixedFor = 12 * time.Second
	// throttledFor is for how long the throttled are watched, once they are all
	// that is left to do.
	throttledFor = 10 * time.Second
)

// ledger is when limited and free jobs began: where the system tells, the time
// of the grant, which is what limits are about, else that of the handler.
type ledger struct {
	mu            sync.Mutex
	limited, free []time.Time
}

func (l *ledger) note(job bench.Job) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if job.Limited {
		if !job.Granted.IsZero() {
			now = job.Granted
		}
		l.limited = append(l.limited, now)
	} else {
		l.free = append(l.free, now)
	}
}

func (l *ledger) freeJobs() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.free)
}

// shareOf says what share of the rate limited jobs got from their first start
// to their last, the burst left out, and by how many starts any interval
// exceeds the bound, as handlers saw it.
func (l *ledger) shareOf() (share, over float64) {
	starts := l.limited
	slices.SortFunc(starts, time.Time.Compare)
	if len(starts) <= ratePerSecond {
		return 0, 0
	}
	took := starts[len(starts)-1].Sub(starts[0]).Seconds()
	share = float64(len(starts)-ratePerSecond) / (took * ratePerSecond)
	// With b(i) = i - rate x t(i), an interval from i to j holds j - i + 1
	// starts, which is over the bound by b(j) - b(i) + 1 - burst.
	least := math.Inf(1)
	for i, at := range starts {
		b := float64(i) - at.Sub(starts[0]).Seconds()*ratePerSecond
		least = min(least, b)
		over = max(over, b-least+1-ratePerSecond)
	}
	return share, over
}

// mixed measures how fast free jobs are done that wait behind as many limited
// ones, which were enqueued first and have the higher priority in one case.
func (s spec) mixed(ctx context.Context, system bench.System) (bench.Figure, error) {
	limited := bench.Job{Limited: true}
	ahead := s.Jobs
	switch s.Variant {
	case alone:
		ahead = 0
	case hugeBacklog:
		ahead, limited.Priority = backlogJobs, 10
	}
	if err := bench.Fill(ctx, system, bench.Jobs(ahead, limited)); err != nil {
		return bench.Figure{}, err
	}
	if err := bench.Fill(ctx, system, bench.Jobs(s.Jobs, bench.Job{})); err != nil {
		return bench.Figure{}, err
	}
	var l ledger
	start := time.Now()
	stop, err := system.Start(ctx, bench.Workers{Count: s.Workers, Rate: measuredRate, Handle: l.note})
	if err != nil {
		return bench.Figure{}, err
	}
	until := mixedFor
	if ahead == 0 {
		until = 0
	}
	for err == nil && (l.freeJobs() < s.Jobs || time.Since(start) < until) {
		err = sleep(ctx, time.Millisecond)
	}
	if err := errors.Join(err, stop()); err != nil {
		return bench.Figure{}, fmt.Errorf("%d of %d free jobs were handled: %w", len(l.free), s.Jobs, err)
	}
	took := slices.MaxFunc(l.free, time.Time.Compare).Sub(start).Seconds()
	figure := bench.Figure{Value: float64(s.Jobs) / took, Unit: bench.JobsPerSecond}
	if ahead > 0 {
		share, over := l.shareOf()
		figure.Detail = map[string]float64{"share_of_rate": share, "over_the_bound": over}
	}
	return figure, nil
}

const percentOfCore = "% of a core"

// throttled measures what it costs that limited jobs wait, and nothing else is
// there to do: processor time of the process and of the store's server.
func (s spec) throttled(ctx context.Context, system bench.System) (bench.Figure, error) {
	// By another process: PostgreSQL counts the rows that a session has written
	// for certain when that has ended.
	filler := s
	filler.Role = filling
	cmd, err := filler.command(ctx)
	if err != nil {
		return bench.Figure{}, err
	}
	if err := cmd.Run(); err != nil {
		return bench.Figure{}, fmt.Errorf("fill: %w", err)
	}
	var l ledger
	stop, err := system.Start(ctx, bench.Workers{Count: s.Workers, Rate: measuredRate, Handle: l.note})
	if err != nil {
		return bench.Figure{}, err
	}
	figure, err := s.watchThrottled(ctx)
	if err := errors.Join(err, stop()); err != nil {
		return bench.Figure{}, err
	}
	figure.Detail["share_of_rate"], figure.Detail["over_the_bound"] = l.shareOf()
	return figure, nil
}

func (s spec) watchThrottled(ctx context.Context) (bench.Figure, error) {
	// The first rush is over.
	if err := sleep(ctx, 3*time.Second); err != nil {
		return bench.Figure{}, err
	}
	start := time.Now()
	before, err := s.usage()
	if err != nil {
		return bench.Figure{}, err
	}
	rowsBefore, err := s.writtenRows(ctx)
	if err != nil {
		return bench.Figure{}, err
	}
	if err := sleep(ctx, throttledFor); err != nil {
		return bench.Figure{}, err
	}
	took := time.Since(start).Seconds()
	after, err := s.usage()
	if err != nil {
		return bench.Figure{}, err
	}
	process, server := 100*(after.process-before.process)/took, 100*(after.server-before.server)/took
	figure := bench.Figure{Value: process + server, Unit: percentOfCore, Detail: map[string]float64{"process": process}}
	if s.Server != 0 {
		figure.Detail["server"] = server
	}
	if s.Store == postgres {
		rows, err := s.writtenRows(ctx)
		if err != nil {
			return bench.Figure{}, err
		}
		figure.Detail["rows_per_second"] = (rows - rowsBefore) / took
	}
	return figure, nil
}

// writtenRows is how many rows PostgreSQL has inserted, updated and deleted in
// this cell's database, a moment ago.
func (s spec) writtenRows(ctx context.Context) (rows float64, err error) {
	if s.Store != postgres {
		return 0, nil
	}
	conn, err := pgx.Connect(ctx, s.Target)
	if err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, `
select (tup_inserted + tup_updated + tup_deleted)::float8 from pg_stat_database where datname = current_database()`).Scan(&rows)
	return rows, errors.Join(err, conn.Close(ctx))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
