package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	libriver "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	"golang.org/x/time/rate"

	"github.com/weirq/weir/internal/bench"
)

// riverSystem is River. Limits are left to the worker there: one that finds no
// token puts its job off by a second (JobSnooze).
type riverSystem[Tx any] struct {
	driver riverdriver.Driver[Tx]
	insert *libriver.Client[Tx]
	close  func()
	// tuned takes the settings of River's own benchmark instead of the default
	// ones.
	tuned     bool
	completed atomic.Int64
}

type (
	riverFree    struct{ bench.Args }
	riverLimited struct{ bench.Args }
)

func (riverFree) Kind() string    { return "free" }
func (riverLimited) Kind() string { return "limited" }

func openRiverPostgres(ctx context.Context, s spec) (bench.System, error) {
	config, err := pgxpool.ParseConfig(s.Target)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return openRiver(ctx, s, riverpgxv5.New(pool), pool.Close)
}

// One connection is what the driver's documentation asks for.
func openRiverSQLite(ctx context.Context, s spec) (bench.System, error) {
	db, err := openSQLite(s.Target)
	if err != nil {
		return nil, err
	}
	return openRiver[*sql.Tx](ctx, s, riversqlite.New(db), func() { _ = db.Close() })
}

func openRiver[Tx any](ctx context.Context, s spec, driver riverdriver.Driver[Tx], closing func()) (*riverSystem[Tx], error) {
	r := &riverSystem[Tx]{driver: driver, close: closing, tuned: s.Work != throttledCPU}
	if s.Role == measuring {
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return nil, err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return nil, err
		}
	}
	var err error
	r.insert, err = libriver.NewClient(driver, &libriver.Config{Logger: slog.New(slog.DiscardHandler)})
	return r, err
}

func (r *riverSystem[Tx]) Close() error {
	r.close()
	return nil
}

func (*riverSystem[Tx]) args(job bench.Job) libriver.JobArgs {
	if job.Limited {
		return riverLimited{job.Args}
	}
	return riverFree{job.Args}
}

// options: River's priorities go from 1, the first, to 4; 4 is never used here
// and 2 is the ordinary one.
func (*riverSystem[Tx]) options(job bench.Job) *libriver.InsertOpts {
	if job.Priority == 0 {
		return nil
	}
	return &libriver.InsertOpts{Priority: 1}
}

func (r *riverSystem[Tx]) Enqueue(ctx context.Context, job bench.Job) error {
	_, err := r.insert.Insert(ctx, r.args(job), r.options(job))
	return err
}

// InsertManyFast is COPY on PostgreSQL, and one statement on SQLite.
func (r *riverSystem[Tx]) EnqueueMany(ctx context.Context, jobs []bench.Job) error {
	params := make([]libriver.InsertManyParams, len(jobs))
	for i, job := range jobs {
		params[i] = libriver.InsertManyParams{Args: r.args(job), InsertOpts: r.options(job)}
	}
	_, err := r.insert.InsertManyFast(ctx, params)
	return err
}

func (r *riverSystem[Tx]) Start(ctx context.Context, w bench.Workers) (stop func() error, err error) {
	limiter, err := newLimiter(w.Rate)
	if err != nil {
		return nil, err
	}
	workers := libriver.NewWorkers()
	libriver.AddWorker(workers, libriver.WorkFunc(func(_ context.Context, job *libriver.Job[riverFree]) error {
		w.Handle(bench.Job{Args: job.Args.Args})
		return nil
	}))
	libriver.AddWorker(workers, libriver.WorkFunc(func(_ context.Context, job *libriver.Job[riverLimited]) error {
		if !limiter.Allow() {
			return libriver.JobSnooze(time.Second)
		}
		w.Handle(bench.Job{Limited: true, Args: job.Args.Args})
		return nil
	}))
	config := &libriver.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues: map[string]libriver.QueueConfig{libriver.QueueDefault: {MaxWorkers: w.Count}},
	}
	if r.tuned {
		config.FetchCooldown, config.FetchPollInterval = 2*time.Millisecond, 20*time.Millisecond
	}
	client, err := libriver.NewClient(r.driver, config)
	if err != nil {
		return nil, err
	}
	// As River's benchmark does: the events come after the completer has
	// committed.
	events, unsubscribe := client.SubscribeConfig(&libriver.SubscribeConfig{
		ChanSize: 200_000, Kinds: []libriver.EventKind{libriver.EventKindJobCompleted},
	})
	go func() {
		for range events {
			r.completed.Add(1)
		}
	}()
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error {
		defer unsubscribe()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := client.StopAndCancel(stopping)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}, nil
}

func (r *riverSystem[Tx]) Finished(_ context.Context, n int) (bool, error) {
	return r.completed.Load() >= int64(n), nil
}

// newLimiter is a limiter in the memory of one process, for systems that leave
// limits to the handler.
func newLimiter(text string) (*rate.Limiter, error) {
	perSecond, err := parseRate(text)
	if err != nil {
		return nil, err
	}
	return rate.NewLimiter(rate.Limit(perSecond), int(min(perSecond, math.MaxInt32))), nil
}
