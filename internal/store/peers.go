package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// peers shares SQLite's one lock with the other processes that write to the
// file. SQLite's own wait for it polls, and ever more seldom, so that a process
// which commits and begins again at once keeps the others out for seconds.
// Here who waits goes on polling, and who is not alone leaves the lock alone
// for a moment after each commit.
type peers struct {
	patience time.Duration // how long the lock is waited for
	version  int64         // of the file, as of this process's last write
	seen     time.Time     // when another process had written since
	free     time.Time     // until then the lock is left alone
}

const (
	lockPoll = 2 * time.Millisecond
	lockFree = 2 * time.Millisecond
	// peerGone is how long a process counts that does not write.
	peerGone = time.Second
)

// begin begins a transaction as a writer.
func (p *peers) begin(ctx context.Context, t *tx) error {
	if wait := p.free.Sub(now()); wait > 0 {
		clock.Pause(ctx, wait)
	}
	for giveUp := now().Add(p.patience); ; {
		poll, cancel := context.WithTimeout(ctx, lockPoll)
		_, err := t.ExecContext(poll, beginSQLite)
		cancel()
		if err == nil {
			return p.look(ctx, t)
		}
		// It may have begun all the same, just when its time was over.
		_, _ = t.ExecContext(context.WithoutCancel(ctx), `rollback`)
		code, _ := sqliteCode(err)
		locked := code&0xff == sqliteBusy || errors.Is(err, context.DeadlineExceeded)
		if !locked || ctx.Err() != nil {
			return err
		}
		if now().After(giveUp) {
			return fmt.Errorf("the database is locked: another process has been writing for %v", p.patience)
		}
	}
}

// look notes whether another process has written. Within this one there is no
// other writer.
func (p *peers) look(ctx context.Context, t *tx) error {
	version, err := dataVersion(ctx, t)
	if err != nil {
		return err
	}
	if version != p.version {
		if p.version != 0 {
			p.seen = now()
		}
		p.version = version
	}
	return nil
}

// dataVersion changes, on one connection, when another one has written.
func dataVersion(ctx context.Context, t *tx) (int64, error) {
	row, err := selectRow[struct {
		Version int64 `db:"data_version"`
	}](ctx, t, `pragma data_version`)
	return row.Version, err
}

// committed gives the others their turn.
func (p *peers) committed() {
	if at := now(); at.Sub(p.seen) < peerGone {
		p.free = at.Add(lockFree)
	}
}

// now is real time, also under an injected clock: other processes do not know
// of that one.
func now() time.Time { return clock.System{}.Now() }
