package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weirq/weir/queue"
)

// strict is a database whose transactions are isolated more than Weir asks for,
// and calls that cancel jobs while these are started, swept and finished.
func strict(level string) func(context.Context, *sea) (outcome, error) {
	return func(ctx context.Context, s *sea) (outcome, error) {
		const perSecond, jobs = "400/s", 2000
		admin := server(os.Getenv(serverEnv))
		name := fmt.Sprintf("soak_%d_%d", os.Getpid(), s.number)
		if err := admin.exec(ctx, `create database `+name, `alter database `+name+` set default_transaction_isolation = '`+level+`'`); err != nil {
			return outcome{}, err
		}
		s.atEnd(func() {
			s.err = errors.Join(s.err, admin.exec(context.WithoutCancel(ctx), `drop database `+name+` with (force)`))
		})
		u, err := url.Parse(string(admin))
		if err != nil {
			return outcome{}, err
		}
		u.Path = "/" + name
		began := time.Now()
		client, producers, err := s.sail(ctx, childConfig{DSN: u.String(), Rate: perSecond})
		if err != nil {
			return outcome{}, err
		}
		var refusals []error
		cancelled := 0
		for until := time.Now().Add(pick(s, time.Minute, 2*time.Second)); time.Now().Before(until); {
			receipts, err := work.EnqueueMany(ctx, client, make([]int, jobs/10))
			if err != nil {
				return outcome{}, err
			}
			n, refused := cancelHalves(ctx, client, receipts)
			cancelled += n
			refusals = append(refusals, refused...)
		}
		ids := s.acknowledged(producers...)
		deadlocks, err := server(u.String()).number(ctx, `select deadlocks from pg_stat_database where datname = current_database()`)
		if err != nil {
			return outcome{}, err
		}
		o, err := s.landed(ctx, client, ids, perSecond, began)
		o.within = 10 * time.Second
		o.what = fmt.Sprintf("%d jobs beside %d cancels; deadlocks: %d", len(ids), cancelled, deadlocks)
		for _, p := range producers {
			refusals = append(refusals, p.refusals...)
		}
		if len(refusals) > 0 {
			o.broken = append(o.broken, fmt.Sprintf("%d calls failed, the last one: %v", len(refusals), refusals[len(refusals)-1]))
		}
		if n := s.logged("database_error"); n > 0 {
			o.broken = append(o.broken, fmt.Sprintf("schedulers had %d errors", n))
		}
		if deadlocks > 2 {
			o.broken = append(o.broken, "there were deadlocks")
		}
		for _, path := range s.logs {
			text, _ := os.ReadFile(path)
			if strings.Contains(string(text), "40001") || strings.Contains(string(text), "40P01") {
				o.broken = append(o.broken, "a scheduler told of a serialization failure")
			}
		}
		return o, err
	}
}

// cancelHalves cancels jobs from several sides at once, each half of them in an
// order of its own. One that has ended cannot be cancelled.
func cancelHalves(ctx context.Context, client *queue.Client, receipts []queue.Receipt) (cancelled int, refusals []error) {
	const sides = 4
	var mu sync.Mutex
	var calls sync.WaitGroup
	for range sides {
		order := rand.Perm(len(receipts))
		calls.Go(func() {
			for _, i := range order[:len(order)/2] {
				err := client.Cancel(ctx, receipts[i].ID)
				_, ended := errors.AsType[*queue.NotCancellableError](err)
				mu.Lock()
				switch {
				case err == nil:
					cancelled++
				case !ended:
					refusals = append(refusals, err)
				}
				mu.Unlock()
			}
		})
	}
	calls.Wait()
	return cancelled, refusals
}
