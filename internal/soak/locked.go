package main

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// lockedOut is a process that keeps SQLite's lock for longer than a lease, again
// and again.
func lockedOut(ctx context.Context, s *sea) (outcome, error) {
	const perSecond = "150/s"
	client, producers, err := s.work(ctx, s.file(), childConfig{Rate: perSecond, Lease: time.Second})
	if err != nil {
		return outcome{}, err
	}
	beside, err := sql.Open("sqlite", "file:"+s.file()+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = beside.Close() })
	var healed []time.Time
	var took []time.Duration // by enqueues while nobody has the lock
	locks, hold := pick(s, 6, 1), 3*time.Second
	for n := range locks {
		for free := time.Now(); time.Since(free) < time.Second; {
			from := time.Now()
			if _, err := work.Enqueue(ctx, client, n); err != nil {
				return outcome{}, err
			}
			took = append(took, time.Since(from))
			if err := pause(ctx, 5*time.Millisecond); err != nil {
				return outcome{}, err
			}
		}
		tx, err := beside.BeginTx(ctx, nil)
		if err != nil {
			return outcome{}, err
		}
		if err := pause(ctx, hold+time.Duration(n%3)*time.Second); err != nil {
			return outcome{}, err
		}
		if err := tx.Rollback(); err != nil {
			return outcome{}, err
		}
		healed = append(healed, time.Now())
	}
	if err := pause(ctx, time.Second); err != nil {
		return outcome{}, err
	}
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, perSecond, healed...)
	if err != nil {
		return o, err
	}
	o.within = 3 * time.Second                   // the longest pause between two tries is 2 s
	o.allowed = locks * schedulers * concurrency // what ran when the lock was taken outlived its lease
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	o.what = fmt.Sprintf("%d locks of 3 s to 5 s, leases of 1 s, %d jobs; `database_error` %d times, `database_back` %d times, at most %d lines of log; without a lock 99 %% of the enqueues within %v",
		locks, len(ids), s.logged("database_error"), s.logged("database_back"), s.lines(), p99.Round(time.Millisecond))
	if most := 100 * time.Millisecond; !s.short && p99 > most {
		o.broken = append(o.broken, fmt.Sprintf("enqueues took %v while nobody had the lock", p99))
	}
	if n := refusals(producers); n > 0 {
		o.broken = append(o.broken, fmt.Sprintf("%d enqueues were refused, by locks shorter than the timeout", n))
	}
	return o, nil
}
