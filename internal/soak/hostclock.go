package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/queue"
)

// clockEnv names the file that says by how much the host's clock is wrong, in
// programs that are built to read it.
const clockEnv = "WEIR_STEPPED_CLOCK"

// hostClock makes a file for it.
func (s *sea) hostClock(name string, by time.Duration) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, setClock(path, by)
}

func setClock(path string, by time.Duration) error {
	// It is read at any moment: it is never half written.
	if err := os.WriteFile(path+".new", []byte(by.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// wrongClock makes the clock of the soak and of the processes that it starts
// one that can be set.
func (s *sea) wrongClock() (set func(by time.Duration) error, err error) {
	path, err := s.hostClock("clock", time.Hour)
	if err != nil {
		return nil, err
	}
	s.atEnd(func() { s.err = errors.Join(s.err, os.Unsetenv(clockEnv)) })
	if err := os.Setenv(clockEnv, path); err != nil {
		return nil, err
	}
	time.Sleep(10 * time.Millisecond)
	if (clock.System{}).Now().Round(0).Sub(time.Now().Round(0)) < time.Minute {
		return nil, missing("this program was not built with a clock that can be set: scripts/soak does that")
	}
	return func(by time.Duration) error { return setClock(path, by) }, setClock(path, 0)
}

// hostSteps is a host whose clock is set back and forth under all that work on
// one SQLite file.
func hostSteps(ctx context.Context, s *sea) (outcome, error) {
	const perSecond, week = "150/s", 7 * 24 * time.Hour
	set, err := s.wrongClock()
	if err != nil {
		return outcome{}, err
	}
	client, producers, err := s.work(ctx, s.file(), childConfig{Rate: perSecond, Schedule: "@every 1s"})
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	watch := pick(s, 20*time.Second, 1200*time.Millisecond)
	if err := pause(ctx, watch); err != nil {
		return outcome{}, err
	}
	var stepped []time.Time
	for _, by := range []time.Duration{-500 * time.Millisecond, -time.Hour, 0, week} {
		if err := set(by); err != nil {
			return outcome{}, err
		}
		stepped = append(stepped, time.Now())
		if err := pause(ctx, watch); err != nil {
			return outcome{}, err
		}
	}
	ended := time.Now()
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, perSecond, stepped...)
	if err != nil {
		return o, err
	}
	h, err := s.ledger().read()
	if err != nil {
		return o, err
	}
	if o.over, err = h.overBetween(perSecond, stepped...); err != nil {
		return o, err
	}
	o.within = 2 * time.Second
	on, back := s.logged("clock_stepped_forward"), s.logged("clock_stepped_back")
	o.what = fmt.Sprintf("0.5 s back, an hour back, an hour on, a week on; %d jobs, %d ticks, %.1f %% of the rate; `clock_stepped_forward` %d times, `clock_stepped_back` %d times",
		len(ids), len(h.ticks), 100*h.share(150, began, ended), on, back)
	if on < 2*schedulers || back == 0 {
		o.broken = append(o.broken, "a step was not told of")
	}
	// A tick each second, and one more for each step on.
	if most := int(time.Since(began).Seconds()) + 4; len(h.ticks) > most {
		o.broken = append(o.broken, fmt.Sprintf("%d ticks were fired, and %d can be explained", len(h.ticks), most))
	}
	return o, nil
}

// skewed are processes on PostgreSQL whose clocks are an hour ahead and behind.
// The first is killed.
func skewed(ctx context.Context, s *sea) (outcome, error) {
	const perSecond = "150/s"
	if _, err := s.wrongClock(); err != nil { // the soak's own stays right
		return outcome{}, err
	}
	dsn, err := dsn("postgres", s.dir, s.number)
	if err != nil {
		return outcome{}, err
	}
	client, err := queue.Open(ctx, dsn)
	if err != nil {
		return outcome{}, err
	}
	s.atEnd(func() { s.err = errors.Join(s.err, client.Close()) })
	for i, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		path, err := s.hostClock(fmt.Sprintf("clock-%d", i+1), by)
		if err != nil {
			return outcome{}, err
		}
		if _, err := s.schedule(ctx, childConfig{DSN: dsn, Rate: perSecond, Lease: 2 * time.Second, Schedule: "@every 1s", Clock: path}); err != nil {
			return outcome{}, err
		}
	}
	if err := s.untilAll(ctx, "wakeups_heard", 3); err != nil {
		return outcome{}, err
	}
	producers := []*producer{s.produce(ctx, client, 10*time.Millisecond), s.produce(ctx, client, 10*time.Millisecond)}
	if err := s.untilStarted(ctx, time.Now()); err != nil {
		return outcome{}, err
	}
	began := time.Now()
	watch := pick(s, time.Minute, 4*time.Second)
	if err := pause(ctx, watch/2); err != nil {
		return outcome{}, err
	}
	s.kill(0)
	killed := time.Now()
	if err := pause(ctx, watch/2); err != nil {
		return outcome{}, err
	}
	ended := time.Now()
	ids := s.acknowledged(producers...)
	o, err := s.landed(ctx, client, ids, perSecond, killed)
	if err != nil {
		return o, err
	}
	h, err := s.ledger().read()
	if err != nil {
		return o, err
	}
	o.within, o.allowed = time.Second, concurrency
	o.what = fmt.Sprintf("the first of 3 killed; %d jobs, %d ticks, %.1f %% of the rate", len(ids), len(h.ticks), 100*h.share(150, began, ended))
	if most := int(time.Since(began).Seconds()) + 4; len(h.ticks) > most {
		o.broken = append(o.broken, fmt.Sprintf("%d ticks were fired, and %d can be explained", len(h.ticks), most))
	}
	return o, nil
}

// share is how much of a rate was started between two moments.
func (h history) share(perSecond float64, from, until time.Time) float64 {
	n := 0
	for _, list := range h.attempts {
		for _, a := range list {
			if at := time.UnixMicro(a.started); at.After(from) && at.Before(until) {
				n++
			}
		}
	}
	return float64(n) / until.Sub(from).Seconds() / perSecond
}
