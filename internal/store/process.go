package store

import (
	"context"
	"fmt"
	"time"
)

// Process is one that runs jobs, as it last said of itself.
type Process struct {
	Spell

	ID        string `db:"id"`
	Host      string `db:"host"`
	PID       int64  `db:"pid"`
	StartedAt int64  `db:"started_at"`
	SeenAt    int64  `db:"seen_at"` // when it said so
	LiveUntil int64  `db:"live_until"`
	Slots     int64  `db:"slots"`
	Running   int64  `db:"running"`
	Now       int64  `db:"now"`
}

// Spell is a time, by the clock of a process, during which the database failed it.
type Spell struct {
	Error string `db:"error"` // "": it never did
	From  int64  `db:"error_from"`
	Until int64  `db:"error_until"` // 0: it still does
}

var (
	liveSQL = func() *statement {
		const live = `
insert into weir_processes (id, host, pid, started_at, seen_at, live_until, slots, running, error, error_from, error_until)
select $1, $2, $3, c.now as began, c.now as seen, c.now + $5, $6, $7, $8, $9, $10 from (select %s as now) c where true
on conflict (id) do update set seen_at = excluded.seen_at, live_until = excluded.live_until, slots = excluded.slots, running = excluded.running,
       error = excluded.error, error_from = excluded.error_from, error_until = excluded.error_until`
		return &statement{
			postgres: fmt.Sprintf(live, `coalesce($4::bigint, `+pgNow+`)`),
			sqlite:   fmt.Sprintf(live, `$4`),
		}
	}()
	stayLiveSQL = func() *statement {
		const stay = `
update weir_processes set seen_at = c.now, live_until = c.now + $3, slots = $4, running = $5, error = $6, error_from = $7, error_until = $8
from (select %s as now) c where id = $1 and live_until > c.now`
		return &statement{
			postgres: fmt.Sprintf(stay, `coalesce($2::bigint, `+pgNow+`)`),
			sqlite:   fmt.Sprintf(stay, `$2`),
		}
	}()
	goneSQL = &statement{
		postgres: `delete from weir_processes where live_until <= coalesce($1::bigint, ` + pgNow + `)`,
		sqlite:   `delete from weir_processes where live_until <= $1`,
	}
	leaveSQL     = &statement{postgres: `delete from weir_processes where id = $1`}
	leftSQL      = processesWhere(`true`)
	processesSQL = processesWhere(`p.live_until > c.now`)
)

func processesWhere(which string) *statement {
	rows := `
select p.*, c.now from weir_processes p, (select %s as now) c where ` + which + ` order by p.host, p.pid, p.id`
	return &statement{
		postgres: fmt.Sprintf(rows, `coalesce($1::bigint, `+pgNow+`)`),
		sqlite:   fmt.Sprintf(rows, `$1`),
	}
}

// Join says that a process runs jobs under a strategy, and goes on to for so
// long. The first one gives the database its strategy; one that comes with
// another is refused, with ErrStrategy.
func (s *Store) Join(ctx context.Context, p Process, strategy string, live time.Duration) error {
	err := s.write(ctx, func(t *tx) error {
		if _, err := s.exec(ctx, t, storeStrategySQL, strategy); err != nil {
			return err
		}
		// A switch of the strategy waits for this transaction, and this one for it.
		have, err := s.strategy(ctx, t, shareStrategySQL)
		if err != nil {
			return err
		}
		if have != strategy {
			return fmt.Errorf("database %s: %w: its jobs run under %s, and this process comes with %s: change its strategy, or stop all processes and run `weir migrate strategy %s`",
				s, ErrStrategy, have, strategy, strategy)
		}
		if _, err := s.exec(ctx, t, goneSQL, s.given()); err != nil {
			return err
		}
		_, err = s.exec(ctx, t, liveSQL, p.ID, p.Host, p.PID, s.given(), live.Microseconds(), p.Slots, p.Running, p.Error, p.From, p.Until)
		return err
	})
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	return nil
}

// Stay says that a process which joined still runs jobs, and tells whether it
// still counted as live: only then is the strategy the one that it joined under.
// On PostgreSQL that is one statement, on the connections that handlers cannot
// starve.
func (s *Store) Stay(ctx context.Context, p Process, live time.Duration) (stayed bool, err error) {
	n, err := s.alone(ctx, stayLiveSQL, func() []any {
		return []any{p.ID, s.given(), live.Microseconds(), p.Slots, p.Running, p.Error, p.From, p.Until}
	})
	if err != nil {
		return false, fmt.Errorf("say that this process is live: %w", err)
	}
	return n == 1, nil
}

// ForgetGone deletes the rows of processes that ended without a word.
func (s *Store) ForgetGone(ctx context.Context) error {
	_, err := s.alone(ctx, goneSQL, func() []any { return []any{s.given()} })
	if err != nil {
		return fmt.Errorf("forget processes that are gone: %w", err)
	}
	return nil
}

// alone runs a statement that can be repeated, as a transaction of its own. One
// that failed runs again in a transaction, which is tried as often as that helps.
func (s *Store) alone(ctx context.Context, st *statement, args func() []any) (n int64, err error) {
	if s.engine != nil {
		if n, err = s.exec(ctx, s.engine, st, args()...); err == nil || ctx.Err() != nil {
			return n, cancelled(ctx, err)
		}
	}
	err = s.write(ctx, func(t *tx) (err error) {
		n, err = s.exec(ctx, t, st, args()...)
		return err
	})
	return n, err
}

// Leave says that a process runs no jobs any more.
func (s *Store) Leave(ctx context.Context, id string) error {
	err := s.write(ctx, func(t *tx) error {
		_, err := s.exec(ctx, t, leaveSQL, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Processes lists the processes that run jobs, by host and number.
func (s *Store) Processes(ctx context.Context) ([]Process, error) {
	rows, err := selectRows[Process](ctx, s.read, s.text(processesSQL), s.given())
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return rows, nil
}
