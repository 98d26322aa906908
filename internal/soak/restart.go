package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// restarted is a PostgreSQL server that is restarted under load, as pg_ctl
// restart does it in one of its modes.
func restarted(of func() (programs, error), with syscall.Signal) func(context.Context, *sea) (outcome, error) {
	return func(ctx context.Context, s *sea) (outcome, error) {
		const perSecond = "150/s"
		p, err := of()
		if err != nil {
			return outcome{}, err
		}
		c, err := s.cluster(ctx, "server", p)
		if err != nil {
			return outcome{}, err
		}
		client, producers, err := s.sail(ctx, childConfig{DSN: c.dsn(), Rate: perSecond})
		if err != nil {
			return outcome{}, err
		}
		restarts := pick(s, 8, 1)
		var healed []time.Time
		for n := range restarts {
			if err := pause(ctx, time.Second); err != nil {
				return outcome{}, err
			}
			c.end(with)
			if err := pause(ctx, time.Second); err != nil {
				return outcome{}, err
			}
			if err := c.start(ctx); err != nil {
				return outcome{}, err
			}
			healed = append(healed, time.Now())
			if err := s.untilAll(ctx, "database_back", (n+1)*schedulers); err != nil {
				return outcome{}, err
			}
		}
		if err := pause(ctx, time.Second); err != nil {
			return outcome{}, err
		}
		ids := s.acknowledged(producers...)
		o, err := s.landed(ctx, client, ids, perSecond, healed...)
		if err != nil {
			return o, err
		}
		o.within = 3 * time.Second // the longest pause between two tries is 2 s
		stopped, back := s.logged("database_error"), s.logged("database_back")
		refused := 0
		for _, p := range producers {
			n, _ := p.refused()
			refused += n
		}
		o.what = fmt.Sprintf("%d restarts, %d jobs, %d enqueues repeated; `database_error` %d times, `database_back` %d times",
			restarts, len(ids), refused, stopped, back)
		return o, nil
	}
}
