package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weirq/weir/queue"
)

// freighter enqueues heavy jobs and watches SQLite's WAL.
type freighter struct {
	client *queue.Client
	wal    string
	ids    []string
}

func (f *freighter) size() int64 {
	info, err := os.Stat(f.wal)
	if err != nil {
		return 0
	}
	return info.Size()
}

// load goes on until it has done enough, and returns how large the WAL was.
func (f *freighter) load(ctx context.Context, enough func() bool) (largest int64, err error) {
	weight := queue.Metadata(map[string]any{"weight": strings.Repeat("x", 30_000)})
	for !enough() {
		receipts, err := work.EnqueueMany(ctx, f.client, make([]int, 20), weight)
		if err != nil {
			return 0, err
		}
		for _, r := range receipts {
			f.ids = append(f.ids, r.ID)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
		largest = max(largest, f.size())
	}
	return largest, nil
}

// walGrows is SQLite's WAL under load, first while others read all the time,
// then while one reads in a transaction that does not end.
func walGrows(ctx context.Context, s *sea) (outcome, error) {
	const perSecond, most, quiet = "300/s", 64 << 20, 8 << 20
	client, producers, err := s.work(ctx, s.file(), childConfig{Rate: perSecond})
	if err != nil {
		return outcome{}, err
	}
	f := &freighter{client: client, wal: s.file() + "-wal"}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	for range 2 {
		s.producers.Go(func() {
			for reading.Err() == nil {
				_, _ = client.List(reading, queue.Filter{Limit: 20})
			}
		})
	}
	until := time.Now().Add(pick(s, 4*time.Minute, 2*time.Second))
	loaded, err := f.load(ctx, func() bool { return time.Now().After(until) })
	if err != nil {
		return outcome{}, err
	}
	beside, err := sql.Open("sqlite", "file:"+s.file())
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = beside.Close() })
	snapshot, err := beside.BeginTx(ctx, nil)
	if err != nil {
		return outcome{}, err
	}
	defer func() { _ = snapshot.Rollback() }()
	if err := snapshot.QueryRowContext(ctx, `select count(*) from weir_jobs`).Scan(new(int)); err != nil {
		return outcome{}, err
	}
	until = time.Now().Add(time.Minute)
	held, err := f.load(ctx, func() bool { return s.logged("wal_held") > 0 || time.Now().After(until) })
	if err != nil {
		return outcome{}, err
	}
	if err := snapshot.Rollback(); err != nil {
		return outcome{}, err
	}
	stop()
	ids := append(s.acknowledged(producers...), f.ids...)
	if err := settle(ctx, client); err != nil {
		return outcome{}, err
	}
	calm := time.Now()
	for f.size() >= quiet && time.Since(calm) < 15*time.Second {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return outcome{}, err
		}
	}
	back, left := time.Since(calm), f.size()
	o, err := s.landed(ctx, client, ids, perSecond)
	if err != nil {
		return o, err
	}
	o.back, o.within = back, 10*time.Second
	const mebibyte = 1 << 20
	o.what = fmt.Sprintf("%d jobs; at most %d MiB while others read, %d MiB under a reader that did not end, `wal_held` %d times; %d MiB after it",
		len(ids), loaded/mebibyte, held/mebibyte, s.logged("wal_held"), left/mebibyte)
	if loaded > most {
		o.broken = append(o.broken, "the WAL was not bounded")
	}
	if s.logged("wal_held") == 0 {
		o.broken = append(o.broken, "nobody told of the reader")
	}
	return o, nil
}
