package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/weirq/weir/internal/relay"
)

const failoverRate = "150/s"

// pair is a primary, and a standby that has all that was acknowledged.
type pair struct{ primary, standby *cluster }

func (s *sea) pair(ctx context.Context) (p pair, err error) {
	programs, err := installed()
	if err != nil {
		return p, err
	}
	if p.primary, err = s.cluster(ctx, "primary", programs); err != nil {
		return p, err
	}
	if p.standby, err = s.emptyCluster("standby", programs); err != nil {
		return p, err
	}
	p.standby.password = p.primary.password
	from := fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=standby", p.primary.port)
	if err := p.standby.run(ctx, "pg_basebackup", "-D", "data", "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return p, err
	}
	if err := p.standby.start(ctx); err != nil {
		return p, err
	}
	err = p.primary.sql().exec(ctx, `alter system set synchronous_standby_names = 'standby'`, `select pg_reload_conf()`)
	if err != nil {
		return p, err
	}
	return p, p.primary.sql().until(ctx, `select count(*) from pg_stat_replication where sync_state = 'sync'`)
}

// promote makes the standby the primary.
func (p pair) promote(ctx context.Context) error {
	return p.standby.run(ctx, "pg_ctl", "promote", "-D", "data", "-w")
}

// eitherHost is a DSN that names both servers.
func (p pair) eitherHost() string {
	first, second := fmt.Sprintf("127.0.0.1:%d", p.primary.port), fmt.Sprintf("127.0.0.1:%d", p.standby.port)
	return strings.Replace(p.primary.dsn(), first, first+","+second, 1)
}

// failover is a primary that is killed under load, and its standby promoted.
func failover(ctx context.Context, s *sea) (outcome, error) {
	p, err := s.pair(ctx)
	if err != nil {
		return outcome{}, err
	}
	client, producers, err := s.sail(ctx, childConfig{DSN: p.eitherHost(), Rate: failoverRate})
	if err != nil {
		return outcome{}, err
	}
	if err := pause(ctx, pick(s, 10*time.Second, time.Second)); err != nil {
		return outcome{}, err
	}
	p.primary.end(syscall.SIGKILL)
	// What it leaves in shared memory is removed when it starts again.
	s.atEnd(func() { _ = p.primary.start(context.WithoutCancel(ctx)) })
	if err := p.promote(ctx); err != nil {
		return outcome{}, err
	}
	promoted := time.Now()
	if err := pause(ctx, pick(s, 10*time.Second, 2*time.Second)); err != nil {
		return outcome{}, err
	}
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, failoverRate, promoted)
	o.within = 5 * time.Second
	o.what = fmt.Sprintf("%d jobs, the DSN names both hosts; `database_back` %d times", len(ids), s.logged("database_back"))
	return o, err
}

// switchover is a primary that is made read-only while its connections stay
// open, and another server that takes its place behind the same address.
func switchover(ctx context.Context, s *sea) (outcome, error) {
	p, err := s.pair(ctx)
	if err != nil {
		return outcome{}, err
	}
	r, err := relay.Listen(ctx, fmt.Sprintf("127.0.0.1:%d", p.primary.port))
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(r.Close)
	u, err := url.Parse(p.primary.dsn())
	if err != nil {
		return outcome{}, err
	}
	u.Host = r.Address()
	client, producers, err := s.sail(ctx, childConfig{DSN: u.String(), Rate: failoverRate})
	if err != nil {
		return outcome{}, err
	}
	if err := pause(ctx, pick(s, 10*time.Second, time.Second)); err != nil {
		return outcome{}, err
	}
	if err := p.primary.sql().exec(ctx, `alter system set default_transaction_read_only = on`, `select pg_reload_conf()`); err != nil {
		return outcome{}, err
	}
	// What was under way is written and has reached the other server.
	if err := pause(ctx, time.Second); err != nil {
		return outcome{}, err
	}
	if err := p.primary.sql().until(ctx, `select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()`); err != nil {
		return outcome{}, err
	}
	if err := p.promote(ctx); err != nil {
		return outcome{}, err
	}
	r.Redirect(fmt.Sprintf("127.0.0.1:%d", p.standby.port))
	moved := time.Now()
	if err := pause(ctx, pick(s, 10*time.Second, 2*time.Second)); err != nil {
		return outcome{}, err
	}
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, failoverRate, moved)
	o.within = 10 * time.Second
	o.what = fmt.Sprintf("%d jobs, old connections left open; `database_back` %d times", len(ids), s.logged("database_back"))
	return o, err
}
