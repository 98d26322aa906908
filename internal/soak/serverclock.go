package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// faketimeEnv names libfaketime, under which a server of ours can be told
// another time.
const faketimeEnv = "WEIR_FAKETIME"

// serverClock is the clock of the PostgreSQL server that goes on by an hour and
// comes back.
func serverClock(ctx context.Context, s *sea) (outcome, error) {
	const perSecond = "150/s"
	library := os.Getenv(faketimeEnv)
	if library == "" {
		return outcome{}, missing("no libfaketime")
	}
	p, err := installed()
	if err != nil {
		return outcome{}, err
	}
	c, err := s.emptyCluster("server", p)
	if err != nil {
		return outcome{}, err
	}
	step := filepath.Join(c.dir, "step")
	set := func(by string) error {
		// The server reads it at any moment: it is never half written.
		if err := os.WriteFile(step+".new", []byte(by+"\n"), 0o644); err != nil { // the folder around it is closed
			return err
		}
		return os.Rename(step+".new", step)
	}
	if err := set("+0"); err != nil {
		return outcome{}, err
	}
	c.env = []string{
		"LD_PRELOAD=" + library, "FAKETIME_TIMESTAMP_FILE=" + step, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1",
	}
	if err := c.create(ctx); err != nil {
		return outcome{}, err
	}
	client, producers, err := s.sail(ctx, childConfig{DSN: c.dsn(), Rate: perSecond, Schedule: "@every 1s"})
	if err != nil {
		return outcome{}, err
	}
	watch := pick(s, 20*time.Second, 2500*time.Millisecond)
	if err := pause(ctx, watch); err != nil {
		return outcome{}, err
	}
	var stepped []time.Time
	for _, by := range []string{"+3600", "+0"} {
		if err := set(by); err != nil {
			return outcome{}, err
		}
		stepped = append(stepped, time.Now())
		if err := pause(ctx, watch); err != nil {
			return outcome{}, err
		}
	}
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
	o.what = fmt.Sprintf("%d jobs, %d ticks; `clock_stepped_forward` %d times, `clock_stepped_back` %d times", len(ids), len(h.ticks), on, back)
	if on == 0 || back == 0 {
		o.broken = append(o.broken, "nobody told of a step")
	}
	// A tick each second, one more for the hour, and none again for it.
	if most := int(time.Since(stepped[0].Add(-watch)).Seconds()) + 3; len(h.ticks) > most {
		o.broken = append(o.broken, fmt.Sprintf("%d ticks were fired, and %d can be explained", len(h.ticks), most))
	}
	return o, nil
}
