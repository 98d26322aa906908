package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/queue"
)

// idle is a scheduler that has nothing to do, and costs next to nothing.
func idle(database string) func(context.Context, *sea) (outcome, error) {
	return func(ctx context.Context, s *sea) (outcome, error) {
		const most = 0.01 // of a processor
		dsn, err := dsn(database, s.dir, s.number)
		if err != nil {
			return outcome{}, err
		}
		client, err := queue.Open(ctx, dsn)
		if err != nil {
			return outcome{}, err
		}
		s.atEnd(func() { s.err = errors.Join(s.err, client.Close()) })
		n, err := s.schedule(ctx, childConfig{DSN: dsn})
		if err != nil {
			return outcome{}, err
		}
		if _, err := work.Enqueue(ctx, client, 0); err != nil {
			return outcome{}, err
		}
		if err := s.untilStarted(ctx, time.Now()); err != nil {
			return outcome{}, err
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return outcome{}, err
		}
		before, err := processorTime(s.crew[n].Process.Pid)
		if err != nil {
			return outcome{}, missing("/proc tells no processor time here")
		}
		began := time.Now()
		if err := pause(ctx, 30*time.Second); err != nil {
			return outcome{}, err
		}
		after, err := processorTime(s.crew[n].Process.Pid)
		if err != nil {
			return outcome{}, err
		}
		used := (after - before).Seconds() / time.Since(began).Seconds()
		o := outcome{what: fmt.Sprintf("%.2f %% of a processor", 100*used)}
		if used > most {
			o.broken = append(o.broken, fmt.Sprintf("more than %.0f %% of a processor", 100*most))
		}
		return o, s.stop()
	}
}

// processorTime is how much of it a process has used.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, system = 11, 12 // after the name in brackets
	if len(fields) <= system {
		return 0, errors.New("/proc: no such form")
	}
	var ticks int
	for _, i := range []int{user, system} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil
}
