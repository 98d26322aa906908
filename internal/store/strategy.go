package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The strategies under which the jobs of a database run: one for all processes.
const (
	TokenBucket = "token_bucket"
	FixedWindow = "fixed_window"
)

// ErrStrategy is returned to a process that comes with another strategy than the
// database has.
var ErrStrategy = errors.New("another strategy")

// ErrLive is returned where the strategy cannot be switched because processes
// run jobs.
var ErrLive = errors.New("processes are running jobs")

var (
	storeStrategySQL = &statement{postgres: `insert into weir_settings (name, value) values ('strategy', $1) on conflict do nothing`}
	strategySQL      = &statement{postgres: `select value from weir_settings where name = 'strategy'`}
	shareStrategySQL = &statement{
		postgres: strategySQL.postgres + ` for share`,
		sqlite:   strategySQL.postgres,
	}
	lockStrategySQL = &statement{
		postgres: strategySQL.postgres + ` for update`,
		sqlite:   strategySQL.postgres,
	}
	switchStrategySQL = &statement{postgres: `update weir_settings set value = $1 where name = 'strategy'`}
	unsetAllSQL       = &statement{postgres: `
update weir_limits set override_rate = null, override_burst = null, override_until = null, override_reason = null
where override_rate is not null`}
)

// Strategy is the strategy of the database: "" until a process has run jobs.
func (s *Store) Strategy(ctx context.Context) (string, error) {
	return s.strategy(ctx, s.read, strategySQL)
}

func (s *Store) strategy(ctx context.Context, h Handle, st *statement) (string, error) {
	rows, err := selectRows[struct {
		Value string `db:"value"`
	}](ctx, h, s.text(st))
	if err != nil {
		return "", fmt.Errorf("read the strategy: %w", err)
	}
	if len(rows) == 0 {
		return "", nil
	}
	return rows[0].Value, nil
}

// Switched is what a switch of the strategy did.
type Switched struct {
	From      string // "": none was stored
	Overrides int64  // that were unset: they mean something else under the other strategy
}

// SwitchStrategy gives the database another strategy, if no process runs jobs;
// else it is refused, with ErrLive.
func (s *Store) SwitchStrategy(ctx context.Context, to string) (out Switched, err error) {
	err = s.write(ctx, func(t *tx) error {
		out = Switched{}
		n, err := s.exec(ctx, t, storeStrategySQL, to)
		if err != nil || n == 1 {
			return err
		}
		if out.From, err = s.strategy(ctx, t, lockStrategySQL); err != nil || out.From == to {
			return err
		}
		// A process that stays takes no lock of the strategy. To delete the rows of
		// those who are gone waits for one that is saying at this moment that it is
		// live, or takes its row away, so that it has to join. Whatever row is left is
		// of a live one, whether or not its time ends right now.
		if _, err := s.exec(ctx, t, goneSQL, s.given()); err != nil {
			return err
		}
		live, err := selectRows[Process](ctx, t, s.text(leftSQL), s.given())
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return stillLive(live)
		}
		if _, err = s.exec(ctx, t, switchStrategySQL, to); err != nil {
			return err
		}
		out.Overrides, err = s.exec(ctx, t, unsetAllSQL)
		return err
	})
	if err != nil {
		return Switched{}, fmt.Errorf("switch %s to %s: %w", s, to, err)
	}
	return out, nil
}

func stillLive(live []Process) error {
	const enough = 5
	names := make([]string, 0, enough)
	var until int64
	for i, p := range live {
		if i < enough {
			names = append(names, fmt.Sprintf("%s (process %d)", p.Host, p.PID))
		}
		until = max(until, p.LiveUntil-p.Now)
	}
	if len(live) > enough {
		names = append(names, fmt.Sprintf("%d more", len(live)-enough))
	}
	wait := (time.Duration(until) * time.Microsecond).Round(time.Second)
	return fmt.Errorf("%w: %s: stop them; one that was killed counts for another %v at most", ErrLive, strings.Join(names, ", "), max(wait, time.Second))
}
