package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
)

func TestTimesAreWrittenForAPerson(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	a := &app{clock: clock.NewFake(now)}
	for d, want := range map[time.Duration]string{
		0:                        "now",
		-300 * time.Millisecond:  "now",
		-5 * time.Second:         "5s ago",
		-65 * time.Second:        "1m05s ago",
		-90 * time.Minute:        "1h30m ago",
		-47 * time.Hour:          "47h00m ago",
		-72 * time.Hour:          "3 days ago",
		250 * time.Millisecond:   "in 250ms",
		30 * time.Second:         "in 30s",
		300 * 24 * 3 * time.Hour: "in 900 days",
	} {
		assert.Equal(t, want, a.ago(now.Add(d)))
	}
	assert.Equal(t, "-", a.ago(time.Time{}))
	assert.Empty(t, a.at(time.Time{}))
	assert.Equal(t, "2026-03-01 11:59:30.250 UTC (29s ago)", a.at(now.Add(-29750*time.Millisecond)))
}

func TestATableIsAlignedWhateverIsInIt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{out: bufio.NewWriter(&out)}
	a.table("things", []string{"NAME", "TEXT"}, [][]string{
		{"é🌊", "two\nlines"}, {"", "red \x1b[31m \u202e"}, {"long-name", strings.Repeat("x", 100)}, {"x", "\xff"},
	})
	require.NoError(t, a.out.Flush())
	assert.Equal(t, strings.Join([]string{
		"NAME       TEXT",
		"é🌊         two ...",
		`-          red \x1b[31m \x202e`,
		"long-name  " + strings.Repeat("x", 57) + "...",
		"x          \uFFFD",
		"",
	}, "\n"), out.String())
}

func TestALogLineStandsAboveTheProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &console{out: &out}
	c.line("one")
	c.show("running 1")
	c.line("two")
	c.show("running 2")
	c.settle()
	c.line("three")
	assert.Equal(t, "one\n\r\x1b[Krunning 1\r\x1b[Ktwo\nrunning 1\r\x1b[Krunning 2\nthree\n", out.String())
	assert.Equal(t, "runn", fitting("running 1", 5))
	assert.Equal(t, "running 1", fitting("running 1", 0))
	assert.Equal(t, "running 1", fitting("running 1", 10))
}
