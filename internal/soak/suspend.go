package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/weirq/weir/queue"
)

// suspended is a process that stands still for three of its leases, as on a
// machine that sleeps, and goes on.
func suspended(database string) func(context.Context, *sea) (outcome, error) {
	return func(ctx context.Context, s *sea) (outcome, error) {
		const perSecond = "150/s"
		dsn, err := dsn(database, s.dir, s.number)
		if err != nil {
			return outcome{}, err
		}
		client, err := queue.Open(ctx, dsn)
		if err != nil {
			return outcome{}, err
		}
		s.atEnd(func() { s.err = errors.Join(s.err, client.Close()) })
		lease := pick(s, 2*time.Second, time.Second)
		for range 2 {
			if _, err := s.schedule(ctx, childConfig{DSN: dsn, Rate: perSecond, Lease: lease}); err != nil {
				return outcome{}, err
			}
		}
		producers := []*producer{s.produce(ctx, client, 10*time.Millisecond), s.produce(ctx, client, 10*time.Millisecond)}
		if err := s.untilStarted(ctx, time.Now()); err != nil {
			return outcome{}, err
		}
		times := pick(s, 6, 1)
		var moments []time.Time
		for range times {
			if err := pause(ctx, time.Second); err != nil {
				return outcome{}, err
			}
			if err := s.signal(ctx, 0, "STOP"); err != nil {
				return outcome{}, err
			}
			moments = append(moments, time.Now())
			if err := pause(ctx, 3*lease); err != nil {
				return outcome{}, err
			}
			if err := s.signal(ctx, 0, "CONT"); err != nil {
				return outcome{}, err
			}
			moments = append(moments, time.Now())
		}
		if err := pause(ctx, time.Second); err != nil {
			return outcome{}, err
		}
		ids := s.acknowledged(producers...)
		o, err := s.landed(ctx, client, ids, perSecond, moments...)
		if err != nil {
			return o, err
		}
		// Where it stood still in a transaction the other one waits: on SQLite for
		// as long as that takes, on PostgreSQL until the server ends it.
		o.within = pick(s, 12*time.Second, 5*time.Second)
		o.allowed = times * concurrency
		o.what = fmt.Sprintf("%d times for %v, leases of %v; %d jobs, `clock_stepped_forward` %d times, `lease_lost` %d times, `late_result_refused` %d times",
			times, 3*lease, lease, len(ids), s.logged("clock_stepped_forward"), s.logged("lease_lost"), s.logged("late_result_refused"))
		return o, nil
	}
}

// signal sends a scheduler a signal that not every system has.
func (s *sea) signal(ctx context.Context, n int, name string) error {
	return exec.CommandContext(ctx, "kill", "-"+name, strconv.Itoa(s.crew[n].Process.Pid)).Run()
}
