package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	libneoq "github.com/acaloiaro/neoq"
	neoqpostgres "github.com/acaloiaro/neoq/backends/postgres"
	"github.com/acaloiaro/neoq/handler"
	neoqjobs "github.com/acaloiaro/neoq/jobs"
	"github.com/acaloiaro/neoq/logging"
	"github.com/jackc/pgx/v5"

	"github.com/weirq/weir/internal/bench"
)

// neoqSystem is neoq on PostgreSQL, with synchronous commits, which it turns
// off by default. It works jobs as they are announced, and looks for others
// only now and then, a hundred at a time.
type neoqSystem struct {
	neoq libneoq.Neoq
	ask  *pgx.Conn
}

const (
	neoqQueue = "free"
	// neoqLook is how often neoq looks for jobs that it was not told of:
	// seldom by default, and often where it is to work off a backlog.
	neoqLook = 20 * time.Millisecond
)

func openNeoq(ctx context.Context, s spec) (bench.System, error) {
	u, err := url.Parse(s.Target)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	q.Set("pool_max_conns", strconv.Itoa(max(20, min(s.Workers, 120))))
	u.RawQuery = q.Encode()
	opts := []libneoq.ConfigOption{
		libneoq.WithBackend(neoqpostgres.Backend), neoqpostgres.WithConnectionString(u.String()),
		neoqpostgres.WithSynchronousCommit(true), libneoq.WithLogLevel(logging.LogLevelError),
	}
	if s.Work == drain {
		opts = append(opts, libneoq.WithPendingJobCheckInterval(neoqLook))
	}
	n, err := libneoq.New(ctx, opts...)
	if err != nil {
		return nil, err
	}
	ask, err := pgx.Connect(ctx, s.Target)
	return &neoqSystem{n, ask}, err
}

func (n *neoqSystem) Close() error {
	n.neoq.Shutdown(context.Background())
	return n.ask.Close(context.Background())
}

func (n *neoqSystem) Enqueue(ctx context.Context, job bench.Job) error {
	_, err := n.neoq.Enqueue(ctx, &neoqjobs.Job{Queue: neoqQueue, Payload: map[string]any{
		"n": job.Args.N, "at": strconv.FormatInt(job.Args.At, 10), "text": job.Args.Text,
	}})
	return err
}

func (*neoqSystem) EnqueueMany(context.Context, []bench.Job) error { return errors.ErrUnsupported }

func (n *neoqSystem) Start(ctx context.Context, w bench.Workers) (stop func() error, err error) {
	h := handler.New(neoqQueue, func(ctx context.Context) error {
		job, err := neoqjobs.FromContext(ctx)
		if err != nil {
			return err
		}
		text, _ := job.Payload["at"].(string)
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("payload %v: %w", job.Payload, err)
		}
		w.Handle(bench.Job{Args: bench.Args{At: at}})
		return nil
	}, handler.Concurrency(w.Count))
	return func() error { return nil }, n.neoq.Start(ctx, h)
}

func (n *neoqSystem) Finished(ctx context.Context, _ int) (done bool, err error) {
	err = n.ask.QueryRow(ctx, `select not exists (select 1 from neoq_jobs where status <> 'processed')`).Scan(&done)
	return done, err
}
