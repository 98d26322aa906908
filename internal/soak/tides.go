package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirq/weir/queue"
)

// tides are the faults of files and of clocks.
var tides = []fault{
	{name: "another process keeps SQLite's lock, longer than a lease", run: lockedOut},
	{name: "the disk of a SQLite file is full", run: diskFull},
	{name: "a SQLite file cannot be written to", run: readOnly},
	{name: "SQLite's WAL under readers", run: walGrows},
	{name: "the host's clock set back and forth under SQLite", alone: true, run: hostSteps},
	{name: "three processes on PostgreSQL, their clocks an hour apart", alone: true, run: skewed},
	{name: "a process on SQLite stands still for three leases", run: suspended("sqlite")},
	{name: "a process on PostgreSQL stands still for three leases", run: suspended("postgres")},
	{name: "nothing to do, on SQLite", long: true, run: idle("sqlite")},
	{name: "nothing to do, on PostgreSQL", long: true, run: idle("postgres")},
}

func (s *sea) file() string { return filepath.Join(s.dir, "weir.db") }

// work has schedulers and producers work on a SQLite file, and returns when
// they do.
func (s *sea) work(ctx context.Context, path string, c childConfig) (*queue.Client, []*producer, error) {
	c.DSN = "sqlite:" + path
	client, err := queue.Open(ctx, c.DSN)
	if err != nil {
		return nil, nil, err
	}
	s.atEnd(func() { s.err = errors.Join(s.err, client.Close()) })
	for range schedulers {
		if _, err := s.schedule(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	producers := []*producer{s.produce(ctx, client, 10*time.Millisecond), s.produce(ctx, client, 10*time.Millisecond)}
	return client, producers, s.untilStarted(ctx, time.Now())
}

// untilStarted waits until a job is started after a moment.
func (s *sea) untilStarted(ctx context.Context, at time.Time) error {
	const patience = 30 * time.Second
	for {
		h, err := s.ledger().read()
		if err == nil && h.startsFrom(at) >= 0 {
			return nil
		}
		if time.Since(at) > patience {
			return fmt.Errorf("nothing was started for %v", patience)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// refusals is how many enqueues were refused.
func refusals(producers []*producer) (n int) {
	for _, p := range producers {
		m, _ := p.refused()
		n += m
	}
	return n
}

// lines is how many lines each scheduler logged, at most.
func (s *sea) lines() (most int) {
	for _, path := range s.logs {
		text, _ := os.ReadFile(path)
		most = max(most, strings.Count(string(text), "\n"))
	}
	return most
}
