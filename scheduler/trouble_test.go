package scheduler

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
)

func TestADatabaseThatIsAwayIsAskedAfterPausesThatGrow(t *testing.T) {
	var log bytes.Buffer
	c := clock.NewFake(time.UnixMicro(simStart))
	s := &Scheduler{clock: c, log: slog.New(slog.NewTextHandler(&log, nil))}
	away := errors.New("connection refused")
	var pauses []time.Duration
	for range 9 {
		s.surveyAt = c.Now()
		s.fail("turn", away)
		require.True(t, s.surveyAt.IsZero(), "nothing that is remembered is sure")
		pauses = append(pauses, s.trouble.until.Sub(c.Now()))
		c.Advance(pauses[len(pauses)-1])
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms, 2000 * ms}, pauses)
	require.Equal(t, 4, strings.Count(log.String(), "msg=database_error"), "of 9.15 s, one in two seconds")
	require.Contains(t, log.String(), `doing=turn error="connection refused"`)

	s.recover()
	s.recover()
	require.Equal(t, 1, strings.Count(log.String(), "msg=database_back after=9.15s"), "told once")
	s.fail("turn", away)
	require.Equal(t, 50*ms, s.trouble.until.Sub(c.Now()), "the next trouble begins anew")

	log.Reset()
	for range 100 { // it comes and goes
		s.fail("turn", away)
		c.Advance(100 * ms)
		s.recover()
	}
	require.LessOrEqual(t, strings.Count(log.String(), "\n"), 10)
}

func TestWhatIsShownOfADatabaseErrorIsBounded(t *testing.T) {
	s := &Scheduler{clock: clock.NewFake(time.UnixMicro(simStart)), log: slog.New(slog.DiscardHandler)}
	s.fail("turn", errors.New(strings.Repeat("é", 400)+"\x00\xff"))
	text := s.spell.Load().Error
	require.LessOrEqual(t, len(text), 500)
	require.Equal(t, strings.Repeat("é", 248)+" ...", text)
}

func TestShedsAreToldInSums(t *testing.T) {
	var log bytes.Buffer
	to := slog.New(slog.NewTextHandler(&log, nil))
	var g shedLog
	now := time.UnixMicro(simStart)
	g.flush(to, now, true)
	require.True(t, g.flushAt().IsZero())
	for n := range 5 {
		g.add("b", 1)
		g.add("a", 10)
		g.add("c", 0)
		g.flush(to, now.Add(time.Duration(n)*400*time.Millisecond), false)
	}
	g.flush(to, now.Add(2*time.Second), true)
	var lines []string
	for line := range strings.Lines(log.String()) {
		_, told, _ := strings.Cut(strings.TrimSpace(line), "msg=")
		lines = append(lines, told)
	}
	require.Equal(t, []string{
		"jobs_shed limit=a count=10", "jobs_shed limit=b count=1", // at 0 s
		"jobs_shed limit=a count=30", "jobs_shed limit=b count=3", // at 1.2 s
		"jobs_shed limit=a count=10", "jobs_shed limit=b count=1", // at the stop
	}, lines)
}
