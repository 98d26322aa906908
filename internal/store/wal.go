package store

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weirq/weir/internal/clock"
)

// SQLite moves what is in the WAL into the file by itself, but begins the WAL
// anew only at a moment without readers. Where there is always one the WAL
// grows, so it is begun anew with force: new readers need it no longer, and the
// others are waited for.
const (
	walEnough = 8 << 20 // bytes; less is left as it is
	// walMuch is when somebody should know of it.
	walMuch = 16 << 20
	// walEvery is how often it is looked at. Where a reader keeps it, it is left
	// alone ever longer: nothing can be written while readers are waited for.
	walEvery    = time.Second
	walLongest  = 8 * time.Second
	walPatience = 100 * time.Millisecond
)

// KeepWAL keeps SQLite's WAL small until ctx ends. It calls told with its size
// where a reader keeps it large, again and again, and once, held being false,
// when it is small again.
func (s *Store) KeepWAL(ctx context.Context, told func(size int64, held bool)) {
	if s.target.dialect != SQLite || s.fixed != nil { // who moves the clock calls TrimWAL
		return
	}
	wait, was := walEvery, false
	for {
		clock.Pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		size, held, err := s.TrimWAL(ctx)
		switch {
		case err != nil: // the next turn says so
		case held:
			wait = min(2*wait, walLongest)
			if size >= walMuch {
				was = true
				told(size, true)
			}
		default:
			wait = walEvery
			if was {
				was = false
				told(size, false)
			}
		}
	}
}

// TrimWAL begins SQLite's WAL anew where it is large, and tells how large it is
// then, in bytes, and whether a reader keeps it from that, who began before
// and has not ended.
func (s *Store) TrimWAL(ctx context.Context) (size int64, held bool, err error) {
	if size, err = s.walSize(); err != nil || size < walEnough {
		return size, false, err
	}
	if !s.writer.line.wait(ctx.Done(), false) {
		return size, false, ctx.Err()
	}
	defer s.writer.line.leave()
	if held, err = s.writer.checkpoint(context.WithoutCancel(ctx)); err != nil {
		return size, false, fmt.Errorf("database %s: begin the WAL anew: %w", s, err)
	}
	size, err = s.walSize()
	return size, held, err
}

func (s *Store) walSize() (int64, error) {
	info, err := os.Stat(s.target.path + "-wal")
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (w *writer) checkpoint(ctx context.Context) (busy bool, err error) {
	patience := func(d time.Duration) error {
		_, err := w.conn.ExecContext(ctx, fmt.Sprintf(`pragma busy_timeout = %d`, d.Milliseconds()))
		return err
	}
	if err := patience(walPatience); err != nil {
		return false, err
	}
	err = w.conn.QueryRowContext(ctx, `pragma wal_checkpoint(truncate)`).Scan(&busy, new(int), new(int))
	if e := patience(w.peers.patience); err == nil {
		err = e
	}
	return busy, err
}
