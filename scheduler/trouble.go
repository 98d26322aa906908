package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weirq/weir/internal/store"
)

// trouble is a database that does not answer: what was said of it, and when
// it is tried again.
type trouble struct {
	since time.Time
	until time.Time
	pause time.Duration
	err   error
	said  bool   // the log has a line of it
	lines rarely // also those of earlier trouble: a database may come and go
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second

	// What goes wrong again and again is told so often.
	tellTrouble  = 2 * time.Second
	tellRenewals = 10 * time.Second

	// longestSpell is how much of what a database answered is shown to those who
	// look at this process, in bytes.
	longestSpell = 500 - len(" ...")
)

// rarely says whether a line of the log is due again.
type rarely struct{ last time.Time }

func (r *rarely) due(now time.Time, every time.Duration) bool {
	if since := now.Sub(r.last); since >= 0 && since < every {
		return false
	}
	r.last = now
	return true
}

// fail notes that the database did not do what was asked. The next try comes
// after a pause that grows; what was to be written stays.
func (s *Scheduler) fail(doing string, err error) {
	now := s.clock.Now()
	t := &s.trouble
	if t.err == nil {
		t.since = now
		t.pause = firstPause
	} else {
		t.pause = min(2*t.pause, lastPause)
	}
	t.err, t.until = err, now.Add(t.pause)
	s.spell.Store(&store.Spell{Error: bounded(errorText(err), longestSpell), From: t.since.UnixMicro()})
	s.surveyAt = time.Time{} // afterwards nothing that is remembered is sure
	if s.lane != nil {
		s.lane.readAt = time.Time{}
	}
	if errors.Is(err, store.ErrLocked) {
		s.goRound()
	}
	if t.lines.due(now, tellTrouble) {
		t.said = true
		s.log.Error("database_error", "doing", doing, "error", err, "since", t.since, "next_try_in", t.pause)
	}
}

// recover notes that the database answers again.
func (s *Scheduler) recover() {
	// A Drain that gave up forgot its trouble, and left the spell.
	if spell := s.spell.Load(); spell != nil && spell.Until == 0 {
		s.spell.Store(&store.Spell{Error: spell.Error, From: spell.From, Until: s.clock.Now().UnixMicro()})
	}
	if s.trouble.err == nil {
		return
	}
	if s.trouble.said {
		s.log.Info("database_back", "after", s.clock.Now().Sub(s.trouble.since))
		select {
		case s.sayNow <- struct{}{}:
		default:
		}
	}
	s.trouble = trouble{lines: s.trouble.lines}
}

// doubtful is a claim of which nobody knows whether it was made: the reply to its
// commit was lost. Its jobs hold tokens and attempts, so nothing else starts until
// the database has told of them, or their leases are over.
type doubtful struct {
	claim int64 // 0: there is none
	look  *look
	began time.Time
}

// resolve finds the jobs of a doubtful claim: they wait for slots then.
func (s *Scheduler) resolve(ctx context.Context) error {
	d := s.doubtful
	asking, cancel := context.WithTimeout(ctx, s.config.lease)
	defer cancel()
	jobs, err := s.store.Claimed(asking, d.claim)
	late := past(d.began.Add(s.config.lease), s.clock.Now())
	if err != nil && !late {
		return err
	}
	if late {
		s.unresolved(d.look, jobs, err)
	}
	s.doubtful = doubtful{}
	s.admitted(ctx, d.look, jobs, d.began)
	s.ahead.add(s.hold(jobs, d.began)) //nolint:contextcheck // a stop cancels handlers later, by itself
	return err
}

// blocked is a row that another session keeps locked, as somebody who left a
// transaction open does. For a while the turns go round such rows, so that only
// what needs them waits.
type blocked struct {
	until   time.Time
	results []store.Result // whose jobs are locked
	retryAt time.Time      // when these are written again
	told    bool
}

const (
	skipLockedFor = 30 * time.Second
	retryLocked   = 500 * time.Millisecond
)

// goRound notes that a turn waited for a locked row in vain.
func (s *Scheduler) goRound() {
	s.blocked.until, s.blocked.told = s.clock.Now().Add(skipLockedFor), false
}

// goesRound tells whether rows that other sessions have locked are passed over.
func (s *Scheduler) goesRound() bool { return s.clock.Now().Before(s.blocked.until) }

// passedOver notes what a turn left out, and returns the results to be written
// later.
func (s *Scheduler) passedOver(k *look, postponed []store.Result) {
	b := &s.blocked
	if len(postponed) > 0 {
		b.results = append(b.results, postponed...)
		b.retryAt = s.clock.Now().Add(retryLocked)
	}
	var names []string
	if k != nil {
		for _, l := range k.limits {
			if l.row.Busy {
				names = append(names, l.row.Name)
			}
		}
		for _, g := range k.gates {
			if g.row.Busy {
				names = append(names, g.name)
			}
		}
		if k.windows != nil {
			names = append(names, k.windows.busy...)
		}
	}
	if len(names)+len(postponed) > 0 && !b.told {
		b.told = true
		s.log.Warn("rows_locked", "limits", names, "jobs", len(postponed))
	}
}

// heard tells whether this process hears what others make ready.
func (s *Scheduler) heard(err error) {
	if err != nil {
		s.log.Warn("wakeups_lost", "error", err)
		return
	}
	s.log.Info("wakeups_heard")
}

// shedLog sums up sheds: one line for each limit, once a second at most.
type shedLog struct {
	counts map[string]int64
	last   time.Time
}

const shedLogEvery = time.Second

func (g *shedLog) add(limit string, n int64) {
	if n == 0 {
		return
	}
	if g.counts == nil {
		g.counts = map[string]int64{}
	}
	g.counts[limit] += n
}

// flushAt is when counts that were not told are due; the zero time: there are
// none.
func (g *shedLog) flushAt() time.Time {
	if len(g.counts) == 0 {
		return time.Time{}
	}
	return g.last.Add(shedLogEvery)
}

func (g *shedLog) flush(log *slog.Logger, now time.Time, force bool) {
	if len(g.counts) == 0 || (!force && now.Before(g.flushAt())) {
		return
	}
	names := make([]string, 0, len(g.counts))
	for name := range g.counts {
		names = append(names, name)
	}
	slices.SortFunc(names, strings.Compare)
	for _, name := range names {
		log.Info("jobs_shed", "limit", name, "count", g.counts[name])
	}
	clear(g.counts)
	g.last = now
}
