package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirq/weir/internal/suggest"
	"github.com/weirq/weir/scheduler"
)

// A File is what a configuration file says. What it leaves out is zero, and
// has the default of the scheduler.
type File struct {
	Path          string                 // as it was given
	Dir           string                 // its folder, absolute: relative paths count from it
	Database      string                 // a DSN; a relative path is made absolute
	Migrate       string                 // "auto" or "check"
	Listen        string                 // read and not used by this version
	Strategy      scheduler.StrategyName // "": not given
	Refresh       time.Duration          // for how long what was read of the limits serves; 0: not given
	Concurrency   int
	Lease         time.Duration
	ShutdownGrace *time.Duration // 0 is a grace of its own
	Retention     *time.Duration // of completed and cancelled jobs; 0: for ever
	DeadRetention []DeadRetention
	Tasks         []Task // in the order of the file, as all lists here
	Queues        []Queue
	Limits        []Limit
	Schedules     []Schedule

	databaseAt, listenAt Place
}

// A Task is one entry of "tasks".
type Task struct {
	Name        string
	Place       Place // of its name
	Queue       string
	Rate        Rate
	Rates       []Rate // a list instead of Rate
	OnExcess    scheduler.Excess
	Timeout     time.Duration // one that the file does not give is that of the target
	MaxRetries  *int
	Backoff     *scheduler.Backoff
	Concurrency int
	Breaker     *scheduler.Breaker
	DLQRetry    *DLQRetry

	// What runs it: one of the three.
	HTTP      *HTTP
	Exec      *Exec
	Elsewhere bool // another process does
}

// Here tells whether this process runs the task.
func (t *Task) Here() bool { return t.HTTP != nil || t.Exec != nil }

// HTTP is where the jobs of a task are posted.
type HTTP struct {
	URL     string
	Headers map[string]string
	Place   Place
}

// String shows the URL without what may be secret in it.
func (h *HTTP) String() string { return withoutSecrets(h.URL) }

// Exec is a command that runs a task.
type Exec struct {
	Command []string // a program with a slash is made absolute
	Dir     string   // absolute
	Place   Place
}

// A Queue is one entry of "queues".
type Queue struct {
	Name        string
	Place       Place
	Rate        Rate
	Concurrency int
}

// A Limit is one entry of "limits".
type Limit struct {
	Name   string
	Place  Place
	Rate   Rate
	Exact  bool
	Tasks  []string
	Queues []string
}

// The bounds of the file's times.
const (
	shortestLease = time.Second
	longestLease  = 24 * time.Hour
	longestGrace  = 24 * time.Hour
	longestTime   = 366 * 24 * time.Hour
)

// Load reads a file. An error is a [*FileError] with everything that is wrong
// with it.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		f := Finding{Code: Unreadable, Place: Place{File: path}, Message: readProblem(err), Mend: "name a file that can be read", cause: err}
		return nil, &FileError{File: path, Findings: []Finding{f}}
	}
	return Parse(path, data)
}

// readProblem leaves the path out of the system's message: the place has it.
func readProblem(err error) string {
	if pe, ok := err.(*os.PathError); ok { //nolint:errorlint // ReadFile's own
		return "cannot read it: " + pe.Err.Error()
	}
	return "cannot read it: " + err.Error()
}

// Parse reads a file's content; path says where it came from and what its
// relative paths count from.
func Parse(path string, data []byte) (*File, error) {
	r := &reader{file: path}
	f := &File{Path: path, Dir: filepath.Dir(path)}
	if abs, err := filepath.Abs(path); err == nil {
		f.Dir = filepath.Dir(abs)
	}
	if root := r.parse(data); root != nil {
		r.readFile(f, root)
	}
	if len(r.findings) > 0 {
		inOrder(r.findings)
		return nil, &FileError{File: path, Findings: r.findings}
	}
	return f, nil
}

func (r *reader) readFile(f *File, root *node) {
	s := r.section("", root)
	f.Database, f.databaseAt = s.database(f.Dir)
	f.Migrate = s.migrate()
	if text, n, ok := s.text("listen", "an address, as in 127.0.0.1:8377"); ok {
		f.Listen, f.listenAt = text, s.place(n.position, "listen")
	}
	f.Strategy = s.strategy()
	f.Refresh = s.refreshInterval()
	if n, _, ok := s.whole("concurrency", BadNumber, 1, maxConcurrency); ok {
		f.Concurrency = int(n)
	}
	f.Lease, _ = s.duration("lease", shortestLease, longestLease)
	if grace, ok := s.duration("shutdown_grace", 0, longestGrace); ok {
		f.ShutdownGrace = &grace
	}
	f.Retention, f.DeadRetention = s.retention()
	f.Tasks = s.tasks(f.Dir)
	f.Queues = s.queues()
	f.Limits = s.limits(f)
	f.Schedules = s.schedules(f)
	r.tellApart(f)
	s.end()
}

const maxConcurrency = 100_000

// entries opens a mapping of names; names that the library refuses are
// reported.
func (s *section) named(key, kind string, read func(path string, e entry)) {
	e, there := s.entry(key)
	if !there {
		return
	}
	path := join(s.path, key)
	for _, e := range s.section(path, e.of).of.entries {
		at := join(path, e.key)
		if s.checkName(kind, e.key, e.at, at) {
			read(at, e)
		}
	}
}

// strategy reads the file's strategy, on which depends what its limits may say.
func (s *section) strategy() scheduler.StrategyName {
	const want = `"token_bucket" (the default) or "fixed_window"`
	value, n, ok := s.text("strategy", want)
	name := scheduler.StrategyName(value)
	if ok && name != scheduler.TokenBucket && name != scheduler.FixedWindow {
		s.fault(BadStrategy, n.position, "strategy", "strategy "+quote(value), "use "+want)
	}
	s.windows = name == scheduler.FixedWindow
	return name
}

func (s *section) migrate() string {
	value, n, ok := s.text("migrate", `"auto" or "check"`)
	if ok && value != "auto" && value != "check" {
		s.fault(BadMigrate, n.position, "migrate", "migrate "+quote(value), `use "auto" (the default) or "check" (refuse a schema that is not up to date)`)
		return ""
	}
	return value
}

// place makes a position that outlives the reading.
func (r *reader) place(at position, key string) Place {
	return Place{r.file, at.line, at.column, key}
}

// Task is the file's entry of a task; nil where it has none.
func (f *File) Task(name string) *Task {
	for i := range f.Tasks {
		if f.Tasks[i].Name == name {
			return &f.Tasks[i]
		}
	}
	return nil
}

// NoTask says that the file has no such task, and which one was perhaps meant.
func (f *File) NoTask(name string) string {
	text := fmt.Sprintf("task %s is not in %s", quote(name), f.Path)
	if near := suggest.Nearest(name, f.taskNames()); near != "" {
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return text
}

// Runs tells whether serve has something to do with the file.
func (f *File) Runs() bool {
	return slices.ContainsFunc(f.Tasks, func(t Task) bool { return t.Here() })
}

func (r Rate) String() string {
	switch {
	case r.IsZero():
		return ""
	case r.Windowed():
		return r.Quota.String()
	}
	return r.Limit.String()
}

// hold is how long the limit is held each time it runs dry under a backlog.
func (r Rate) hold() time.Duration {
	if r.Defer == scheduler.UntilToken {
		return r.Limit.TokenHold()
	}
	return r.Limit.Hold(time.Second)
}
