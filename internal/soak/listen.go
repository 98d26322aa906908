package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/weirq/weir/internal/relay"
	"github.com/weirq/weir/queue"
)

// How long a job may wait for its start that nobody heard of: schedulers look
// twice a second.
const unheard = 1500 * time.Millisecond

// deafened is a listening connection that the server ends every two seconds.
func deafened(ctx context.Context, s *sea) (outcome, error) {
	const perSecond = "1000/s"
	direct := server(os.Getenv(serverEnv))
	dsn, err := schemaOf(string(direct), s.number)
	if err != nil {
		return outcome{}, err
	}
	client, producers, err := s.sail(ctx, childConfig{DSN: dsn, Rate: perSecond})
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	ended := int64(0)
	for range pick(s, 30, 2) {
		if err := pause(ctx, 2*time.Second); err != nil {
			return outcome{}, err
		}
		n, err := direct.number(ctx, `select count(pg_terminate_backend(pid)) from pg_stat_activity where query ilike 'listen "weir_' || md5('`+schemaName(s.number)+`') || '%'`)
		if err != nil {
			return outcome{}, err
		}
		ended += n
		if err := s.untilAll(ctx, "wakeups_lost", int(ended)); err != nil {
			return outcome{}, err
		}
	}
	if err := s.untilAll(ctx, "wakeups_heard", int(ended)+schedulers); err != nil {
		return outcome{}, err
	}
	took := time.Since(began)
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, perSecond, began)
	if err != nil {
		return o, err
	}
	h, err := s.ledger().read()
	if err != nil {
		return o, err
	}
	wait, busy := h.longestWait(producers), s.busy(took)
	o.within = unheard
	o.what = fmt.Sprintf("%d connections ended, %d jobs; `wakeups_heard` %d times; longest wait for a start %v, CPU %.0f %%",
		ended, len(ids), s.logged("wakeups_heard"), wait.Round(time.Millisecond), 100*busy)
	if wait > unheard {
		o.broken = append(o.broken, fmt.Sprintf("a job waited for %v", wait))
	}
	if heard := s.logged("wakeups_heard"); heard > int(ended)+schedulers {
		o.broken = append(o.broken, fmt.Sprintf("%d times a scheduler listened again, for %d connections", heard, ended))
	}
	return o, nil
}

// cut is a network that moves nothing any more, without a word.
func cut(ctx context.Context, s *sea) (outcome, error) {
	const perSecond = "150/s"
	direct, err := schemaOf(os.Getenv(serverEnv), s.number)
	if err != nil {
		return outcome{}, err
	}
	u, err := url.Parse(direct)
	if err != nil {
		return outcome{}, err
	}
	r, err := relay.Listen(ctx, u.Host)
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(r.Close)
	u.Host = r.Address()
	if _, err := s.crewed(ctx, schedulers, childConfig{DSN: u.String(), Rate: perSecond, Lease: 30 * time.Second}); err != nil {
		return outcome{}, err
	}
	// The producer's way to the server is whole.
	client, err := queue.Open(ctx, direct)
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { _ = client.Close() })
	producer := s.produce(ctx, client, 20*time.Millisecond)
	if err := pause(ctx, 2*time.Second); err != nil {
		return outcome{}, err
	}
	r.Cut()
	if err := pause(ctx, pick(s, time.Minute, 6*time.Second)); err != nil {
		return outcome{}, err
	}
	r.Mend()
	mended := time.Now()
	if err := s.untilAll(ctx, "database_back", schedulers); err != nil {
		return outcome{}, err
	}
	ids := s.acknowledged(producer)
	o, err := s.landed(ctx, client, ids, perSecond, mended)
	o.within = 15 * time.Second // a connection that is being made, and the pause after it
	if !s.short {
		o.allowed = schedulers * concurrency // their leases ran out meanwhile
	}
	o.what = fmt.Sprintf("%d jobs of a producer that was not cut off; `database_error` %d times, `database_back` %d times",
		len(ids), s.logged("database_error"), s.logged("database_back"))
	return o, err
}
