package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// diskFull is a disk that something else fills up, and that has room again.
func diskFull(ctx context.Context, s *sea) (outcome, error) {
	disk, err := s.disk("20m")
	if err != nil {
		return outcome{}, err
	}
	filler := filepath.Join(disk, "filler")
	return s.unwritable(ctx, filepath.Join(disk, "weir.db"), func() error { return fill(filler) }, func() error { return os.Remove(filler) })
}

// fill writes a file until nothing more can be written.
func fill(path string) error {
	file, err := appendTo(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for size := 1 << 16; size > 0; {
		switch _, err := file.Write(make([]byte, size)); {
		case errors.Is(err, syscall.ENOSPC):
			size /= 2
		case err != nil:
			return err
		}
	}
	return nil
}

// unwritable is a file that cannot be written to for a while.
func (s *sea) unwritable(ctx context.Context, path string, spoil, mend func() error) (outcome, error) {
	const perSecond = "150/s"
	client, producers, err := s.work(ctx, path, childConfig{Rate: perSecond})
	if err != nil {
		return outcome{}, err
	}
	if err := pause(ctx, pick(s, 5*time.Second, 500*time.Millisecond)); err != nil {
		return outcome{}, err
	}
	if err := spoil(); err != nil {
		return outcome{}, err
	}
	if err := s.untilAll(ctx, "database_error", schedulers); err != nil { // what was free in the file is used up first
		return outcome{}, errors.Join(err, mend())
	}
	before, stopped := s.lines(), time.Now()
	if err := pause(ctx, pick(s, 30*time.Second, 2500*time.Millisecond)); err != nil {
		return outcome{}, err
	}
	lines, lasted := s.lines()-before, time.Since(stopped)
	refused := refusals(producers)
	if err := mend(); err != nil {
		return outcome{}, err
	}
	healed := time.Now()
	if err := s.untilStarted(ctx, healed); err != nil {
		return outcome{}, err
	}
	if err := pause(ctx, pick(s, 5*time.Second, 500*time.Millisecond)); err != nil {
		return outcome{}, err
	}
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, perSecond, healed)
	if err != nil {
		return o, err
	}
	o.within = 10 * time.Second
	o.allowed = pick(s, schedulers*concurrency, 0) // what ran then may outlive its lease
	o.what = fmt.Sprintf("%d jobs; %d enqueues refused, %d lines of log in %.0f s, `database_back` %d times",
		len(ids), refused, lines, lasted.Seconds(), s.logged("database_back"))
	if refused == 0 {
		o.broken = append(o.broken, "no enqueue was refused")
	}
	if float64(lines) > lasted.Seconds() {
		o.broken = append(o.broken, "more than a line of log a second")
	}
	return o, nil
}
