package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/clock"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
	"github.com/weirq/weir/scheduler"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// call is one run of the program in this process.
type call struct {
	env      map[string]string
	stdin    string
	terminal bool // somebody sits at it
	signals  chan os.Signal
	exited   chan int // gets the code of an exit at once
	clock    clock.Clock
	stdout   *screen // default: it is only returned
	stderr   *screen // default: one of the call's own
}

type result struct {
	code     int
	out, err string
}

func (c call) run(args ...string) result {
	var out bytes.Buffer
	stdout := io.Writer(&out)
	if c.stdout != nil {
		stdout = c.stdout
	}
	if c.stderr == nil {
		c.stderr = &screen{}
	}
	if c.clock == nil {
		c.clock = clock.System{}
	}
	a := &app{
		in: strings.NewReader(c.stdin), out: bufio.NewWriter(stdout), err: c.stderr,
		env: func(name string) string { return c.env[name] }, clock: c.clock,
		inTerminal: c.terminal, outTerminal: c.terminal, errTerminal: c.terminal, errWidth: func() int { return 200 },
		signals: func() (<-chan os.Signal, func()) { return c.signals, func() {} },
		exit:    func(code int) { c.exited <- code },
	}
	code := a.run(args)
	return result{code, out.String(), c.stderr.String()}
}

// screen is what a terminal or a log has shown so far.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screen) shows(text string) func() bool {
	return func() bool { return strings.Contains(s.String(), text) }
}

// bundle is a database with Weir's tables, and the program on it.
type bundle struct {
	dsn    string
	client *queue.Client
}

func setup(t *testing.T, db storetest.Database) *bundle {
	t.Helper()
	db.Prepare(t)
	client, err := queue.Open(context.Background(), db.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return &bundle{db.DSN, client}
}

func sqlite(t *testing.T) *bundle {
	t.Helper()
	return setup(t, storetest.SQLite(t))
}

func (b *bundle) run(args ...string) result { return b.call(call{}, args...) }

func (b *bundle) call(c call, args ...string) result {
	return c.run(append(slices.Clone(args), "--database", b.dsn)...)
}

// ok runs the program and requires that it succeeds in silence.
func (b *bundle) ok(t *testing.T, args ...string) string {
	t.Helper()
	r := b.run(args...)
	require.Equal(t, exitOK, r.code, "%v: %s", args, r.err)
	require.Empty(t, r.err)
	return r.out
}

// json runs the program with --json and reads its one document.
func (b *bundle) json(t *testing.T, args ...string) map[string]any {
	t.Helper()
	return document(t, b.ok(t, append(args, "--json")...))
}

func document(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var doc map[string]any
	require.NoError(t, dec.Decode(&doc), "%s", text)
	require.False(t, dec.More(), "more than one document: %s", text)
	return doc
}

func items(t *testing.T, doc map[string]any) []map[string]any {
	t.Helper()
	require.Contains(t, doc, "next")
	raw, ok := doc["items"].([]any)
	require.True(t, ok, "%v", doc)
	out := make([]map[string]any, len(raw))
	for i := range raw {
		out[i], ok = raw[i].(map[string]any)
		require.True(t, ok)
	}
	return out
}

func keys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// words are the sorted words of a text.
func words(text string) []string { return slices.Sorted(slices.Values(strings.Fields(text))) }

// drain runs what may start now: "works" completes, "fails" fails for good,
// "sample" is dropped beyond two an hour.
func (b *bundle) drain(t *testing.T) {
	t.Helper()
	s, err := scheduler.New(b.client, scheduler.Logger(slog.New(slog.DiscardHandler)), scheduler.QueueLimit("mail", "50/h"),
		scheduler.SharedLimit("stripe", "5/h", scheduler.Burst(7), scheduler.Tasks("works"), scheduler.Queues("pay")))
	require.NoError(t, err)
	require.NoError(t, scheduler.Register(s, queue.Task[[]byte]("works"), func(context.Context, *queue.Job[[]byte]) error { return nil }, scheduler.Queue("mail")))
	require.NoError(t, scheduler.Register(s, queue.Task[[]byte]("fails"), func(context.Context, *queue.Job[[]byte]) error {
		return textError("first line\nsecond \x1b[31mline " + strings.Repeat("x", 100))
	}, scheduler.MaxRetries(0)))
	require.NoError(t, scheduler.Register(s, queue.Task[[]byte]("sample"), func(context.Context, *queue.Job[[]byte]) error { return nil },
		scheduler.RateLimit("2/h"), scheduler.OnExcess(scheduler.Drop)))
	require.NoError(t, s.Drain(t.Context()))
}

type textError string

func (e textError) Error() string { return string(e) }

// file writes a configuration file and returns its path.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const patience = 20 * time.Second
