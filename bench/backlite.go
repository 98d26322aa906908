package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	libbacklite "github.com/mikestefanello/backlite"

	"github.com/weirq/weir/internal/bench"
)

// backliteSystem is backlite, without retention of what is done, which is its
// default.
type backliteSystem struct {
	db, read *sql.DB
	insert   *libbacklite.Client
}

// backliteTask is a task, and the configuration of its queue.
type backliteTask struct{ bench.Args }

func (backliteTask) Config() libbacklite.QueueConfig {
	return libbacklite.QueueConfig{Name: "free", MaxAttempts: 5, Backoff: 5 * time.Second, Timeout: 10 * time.Second}
}

func openBacklite(_ context.Context, s spec) (bench.System, error) {
	db, err := openSQLite(s.Target)
	if err != nil {
		return nil, err
	}
	read, err := openSQLite(s.Target)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &backliteSystem{db: db, read: read}
	if b.insert, err = b.client(1); err == nil && s.Role == measuring {
		err = b.insert.Install()
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *backliteSystem) client(workers int) (*libbacklite.Client, error) {
	return libbacklite.NewClient(libbacklite.ClientConfig{
		DB: b.db, NumWorkers: workers, ReleaseAfter: 10 * time.Minute, CleanupInterval: time.Hour,
	})
}

func (b *backliteSystem) Close() error { return errors.Join(b.db.Close(), b.read.Close()) }

func (b *backliteSystem) Enqueue(ctx context.Context, job bench.Job) error {
	_, err := b.insert.Add(backliteTask{job.Args}).Ctx(ctx).Save()
	return err
}

func (b *backliteSystem) EnqueueMany(ctx context.Context, jobs []bench.Job) error {
	tasks := make([]libbacklite.Task, len(jobs))
	for i, job := range jobs {
		tasks[i] = backliteTask{job.Args}
	}
	_, err := b.insert.Add(tasks...).Ctx(ctx).Save()
	return err
}

func (b *backliteSystem) Start(ctx context.Context, w bench.Workers) (stop func() error, err error) {
	client, err := b.client(w.Count)
	if err != nil {
		return nil, err
	}
	client.Register(libbacklite.NewQueue(func(_ context.Context, task backliteTask) error {
		w.Handle(bench.Job{Args: task.Args})
		return nil
	}))
	client.Start(context.WithoutCancel(ctx))
	b.insert = client // it tells its own dispatcher what was added
	return func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if !client.Stop(stopping) {
			return errors.New("backlite did not stop within 10 s")
		}
		return nil
	}, nil
}

func (b *backliteSystem) Finished(ctx context.Context, _ int) (done bool, err error) {
	err = b.read.QueryRowContext(ctx, `select not exists (select 1 from backlite_tasks)`).Scan(&done)
	return done, err
}
