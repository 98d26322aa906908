package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"sync"
	"time"

	libgoqite "maragu.dev/goqite"
	"maragu.dev/goqite/jobs"

	"github.com/weirq/weir/internal/bench"
)

// goqiteSystem is goqite with its job runner, set up as its README does: one
// connection, a poll every 10 ms. It deletes what is done.
type goqiteSystem struct {
	db, read *sql.DB
	queue    *libgoqite.Queue
}

// goqiteSchema is the schema that goqite's documentation says to install.
//
//go:embed goqite.sql
var goqiteSchema string

const goqiteJob = "free"

func openGoqite(ctx context.Context, s spec) (bench.System, error) {
	db, err := openSQLite(s.Target)
	if err != nil {
		return nil, err
	}
	if s.Role == measuring {
		if _, err := db.ExecContext(ctx, goqiteSchema); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	read, err := openSQLite(s.Target)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &goqiteSystem{db, read, libgoqite.New(libgoqite.NewOpts{DB: db, Name: "jobs"})}, nil
}

func (g *goqiteSystem) Close() error { return errors.Join(g.db.Close(), g.read.Close()) }

func (g *goqiteSystem) Enqueue(ctx context.Context, job bench.Job) error {
	body, err := json.Marshal(job.Args)
	if err != nil {
		return err
	}
	_, err = jobs.Create(ctx, g.queue, goqiteJob, libgoqite.Message{Body: body})
	return err
}

func (g *goqiteSystem) EnqueueMany(ctx context.Context, list []bench.Job) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, job := range list {
		body, err := json.Marshal(job.Args)
		if err != nil {
			return err
		}
		if _, err := jobs.CreateTx(ctx, tx, g.queue, goqiteJob, libgoqite.Message{Body: body}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (g *goqiteSystem) Start(ctx context.Context, w bench.Workers) (stop func() error, err error) {
	runner := jobs.NewRunner(jobs.NewRunnerOpts{Limit: w.Count, PollInterval: 10 * time.Millisecond, Queue: g.queue})
	runner.Register(goqiteJob, func(_ context.Context, body []byte) error {
		var args bench.Args
		if err := json.Unmarshal(body, &args); err != nil {
			return err
		}
		w.Handle(bench.Job{Args: args})
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { runner.Start(ctx) })
	return func() error {
		cancel()
		running.Wait()
		return nil
	}, nil
}

func (g *goqiteSystem) Finished(ctx context.Context, _ int) (done bool, err error) {
	err = g.read.QueryRowContext(ctx, `select not exists (select 1 from goqite)`).Scan(&done)
	return done, err
}
