package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/weirq/weir/internal/clock"
)

const (
	// watchEvery is how often SQLite is asked whether another process has
	// written.
	watchEvery = 50 * time.Millisecond
	// hearEvery is how often a notice to oneself shows that the channel lives: a
	// connection can be dead for hours before TCP says so.
	hearEvery    = 30 * time.Second
	hearPatience = 5 * time.Second

	firstReconnect = 100 * time.Millisecond
	lastReconnect  = 5 * time.Second
)

// ErrDeaf is told where the server takes LISTEN and notices do not arrive: a
// pooler that hands connections out by the transaction stands between.
var ErrDeaf = errors.New("notices of other processes do not arrive, as behind a pooler in transaction mode: their jobs are found by looking, twice a second")

// Watch passes on to OnWake what other processes made ready, until ctx ends. It
// calls told with nil when it hears them, on PostgreSQL, and with an error
// when it does not; who polls finds the same later.
func (s *Store) Watch(ctx context.Context, told func(error)) {
	switch {
	case s.fixed != nil: // who moves the clock says when anything happens
	case s.target.dialect == SQLite:
		s.watchFile(ctx)
	default:
		s.watchChannel(ctx, told)
	}
}

// watchFile asks whether another process has written. On the writer's own
// connection what this process writes does not count.
func (s *Store) watchFile(ctx context.Context) {
	var last int64
	for ; ctx.Err() == nil; clock.Pause(ctx, watchEvery) {
		version, err := s.writer.version(ctx)
		if err == nil && version != last {
			if last != 0 {
				s.wakes.send(Wake{Look: true})
			}
			last = version
		}
	}
}

func (w *writer) version(ctx context.Context) (int64, error) {
	if !w.line.wait(ctx.Done(), false) {
		return 0, ctx.Err()
	}
	defer w.line.leave()
	return dataVersion(ctx, &tx{conn: w.conn, writer: w})
}

// watchChannel listens, and connects again when the connection is lost. A
// channel that never lived will not come to life.
func (s *Store) watchChannel(ctx context.Context, told func(error)) {
	wait, lived := firstReconnect, false
	for ctx.Err() == nil {
		err := s.listen(ctx, func() {
			wait, lived = firstReconnect, true
			told(nil)
		})
		if ctx.Err() != nil {
			return
		}
		told(err)
		if !lived && errors.Is(err, ErrDeaf) {
			return
		}
		clock.Pause(ctx, wait)
		wait = min(2*wait, lastReconnect)
	}
}

// sessionSQL names the session of the server that a connection has.
var sessionSQL = &statement{postgres: `select pid || ' ' || backend_start from pg_stat_activity where pid = pg_backend_pid()`}

// sharesSessions tells whether two connections have one session, which only a
// pooler does that hands sessions out by the transaction. A LISTEN would stay
// with one of them, and disturb whoever gets it next.
func (s *Store) sharesSessions(ctx context.Context) (bool, error) {
	const looks = 5 // others may come in between
	var sessions [2]string
	var conns [2]*sqlx.Conn
	db, err := s.pool(s.target.dsn, len(sessions), engineSilence)
	if err != nil {
		return false, err
	}
	defer func() { _ = db.Close() }()
	for i := range conns {
		if conns[i], err = db.Connx(ctx); err != nil {
			return false, err
		}
		defer func() { _ = conns[i].Close() }()
	}
	for range looks {
		for i, conn := range conns {
			if err := conn.GetContext(ctx, &sessions[i], s.text(sessionSQL)); err != nil {
				return false, err
			}
		}
		if sessions[0] == sessions[1] {
			return true, nil
		}
	}
	return false, nil
}

// listen hears notices over one connection until it is lost or ctx ends. It
// calls lives once a notice has arrived.
func (s *Store) listen(ctx context.Context, lives func()) error {
	shares, err := s.sharesSessions(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if shares {
		return ErrDeaf
	}
	var channel string
	if err := s.engine.GetContext(ctx, &channel, s.text(channelNameSQL), s.target.schema); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	notices := make(chan *pq.Notification, 64)
	conn, err := pq.NewListenerConn(s.target.dsn, notices)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	hangUp := func() { _ = conn.Close() }
	defer func() {
		hangUp()
		for range notices { // the connection's goroutine ends with the channel
		}
	}()
	defer context.AfterFunc(ctx, hangUp)()
	opening, cancel := context.WithTimeout(ctx, hearPatience)
	opened := context.AfterFunc(opening, hangUp)
	_, err = conn.Listen(channel)
	opened()
	cancel()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.wakes.send(Wake{Look: true}) // what came while nobody listened
	for test := 1; ; test++ {
		sending, cancel := context.WithTimeout(ctx, s.patience(hearPatience))
		err := s.notify(sending, s.engine, notice{From: s.notices.from, Test: test})
		cancel()
		if err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		heard, open := s.hear(ctx, notices, s.patience(hearPatience), test)
		if open && !heard {
			if test > 1 {
				return fmt.Errorf("listen: %w", errSilent)
			}
			return ErrDeaf
		}
		if open && test == 1 {
			lives()
		}
		if open {
			_, open = s.hear(ctx, notices, s.patience(hearEvery), 0)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !open:
			return fmt.Errorf("listen: the connection was lost: %w", conn.Err())
		}
	}
}

// hear passes notices on for some time, or until a test is heard.
func (s *Store) hear(ctx context.Context, notices <-chan *pq.Notification, d time.Duration, test int) (heard, open bool) {
	fired, stop := clock.System{}.Timer(d)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return false, false
		case <-fired:
			return false, true
		case got, open := <-notices:
			if !open {
				return false, false
			}
			n := readNotice(got.Extra)
			switch {
			case n.From != s.notices.from && n.Test == 0:
				s.wakes.send(n.wake())
			case n.From == s.notices.from && n.Test != 0 && n.Test == test:
				return true, true
			}
		}
	}
}
