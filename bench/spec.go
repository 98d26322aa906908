package main

import (
	"context"
	"fmt"

	"github.com/weirq/weir/internal/bench"
)

// What is measured.
const (
	drain        = "drain"
	drainLimited = "drain-limited"
	enqueueOne   = "enqueue-one"
	enqueueBulk  = "enqueue-bulk"
	pickup       = "pickup-p99"
	mixed        = "mixed"
	throttledCPU = "throttled-cpu"
)

// The stores.
const (
	postgres = "postgres"
	sqlite   = "sqlite"
	redis    = "redis"
)

// Who is measured.
const (
	weir     = "weir"
	river    = "river"
	asynq    = "asynq"
	goqite   = "goqite"
	backlite = "backlite"
	neoq     = "neoq"
	raw      = "raw"
)

// row is one line of a table: what is run, again and again.
type row struct {
	Work  string `json:"work"`
	Store string `json:"store"`
	Peer  string `json:"peer"`
	// Variant says how this row differs from the ordinary one of its work,
	// which has none.
	Variant variant `json:"variant,omitempty"`
	Jobs    int     `json:"jobs"`
	// Workers are handlers at once, or, where jobs are enqueued, callers.
	Workers int `json:"workers"`
}

func (r row) String() string {
	s := fmt.Sprintf("%s %s %s, %d jobs, %d at once", r.Work, r.Peer, r.Store, r.Jobs, r.Workers)
	if r.Variant != "" {
		s += " (" + string(r.Variant) + ")"
	}
	return s
}

// variant is a way to differ from the ordinary.
type variant string

const (
	alone         variant = "alone"                // mixed: nothing limited is there
	hugeBacklog   variant = "behind 1,000,000"     // of limited jobs that wait, of higher priority
	sameProcess   variant = "in one process"       // producer and workers
	otherProcess  variant = "from another process" // the producer is one
	appendfsync   variant = "appendfsync always"   // Redis is as durable as the others
	twoProcesses  variant = "two processes"        // workers in each
	hundredLines  variant = "100 lines"            // queues
	thousandLines variant = "1,000 lines"
	withHistory   variant = "with a history" // of finished jobs
	historyRows           = 10_000_000
	backlogJobs           = 1_000_000
	measuredRate          = "100/s" // of limited jobs, where they are measured
	ratePerSecond         = 100
)

// spec is what one process is told to do.
type spec struct {
	row

	// Target is where the store is: a URL, a file, or an address.
	Target string `json:"target"`
	// Server is the process id of the store's server, or 0.
	Server int `json:"server"`
	// Role is "" for the process that measures.
	Role role `json:"role"`
	// Out is the file that gets the figure.
	Out string `json:"out"`
	// Profile is the prefix of the files that get profiles, or "".
	Profile string `json:"profile"`
}

// role is what a process does beside the one that measures.
type role string

const (
	measuring role = ""
	producing role = "produce" // enqueues for workers elsewhere
	filling   role = "fill"    // enqueues a backlog
	working   role = "work"    // works beside the one that measures
)

// open opens the system that a spec names on its store, which is empty or was
// opened by another process before.
func (s spec) open(ctx context.Context) (bench.System, error) {
	type key struct{ peer, store string }
	open, ok := map[key]func(context.Context, spec) (bench.System, error){
		{weir, postgres}:   openWeir,
		{weir, sqlite}:     openWeir,
		{river, postgres}:  openRiverPostgres,
		{river, sqlite}:    openRiverSQLite,
		{asynq, redis}:     openAsynq,
		{goqite, sqlite}:   openGoqite,
		{backlite, sqlite}: openBacklite,
		{neoq, postgres}:   openNeoq,
		{raw, postgres}:    openRawPostgres,
		{raw, sqlite}:      openRawSQLite,
	}[key{s.Peer, s.Store}]
	if !ok {
		return nil, fmt.Errorf("%s does not run on %s", s.Peer, s.Store)
	}
	return open(ctx, s)
}

func openWeir(ctx context.Context, s spec) (bench.System, error) {
	dsn := s.Target
	if s.Store == sqlite {
		dsn = "sqlite:" + dsn
	}
	w, err := bench.OpenWeir(ctx, dsn)
	if err != nil {
		return nil, err
	}
	w.Shared = s.Variant == twoProcesses
	return w, nil
}
