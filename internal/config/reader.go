package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirq/weir/internal/suggest"
	"github.com/weirq/weir/queue"
)

// reader collects what is wrong with a file while it is read.
type reader struct {
	file     string
	windows  bool // the file's strategy is fixed_window
	findings []Finding
}

func (r *reader) fault(code Code, at position, key, message, mend string) {
	r.add(code, at, key, message, mend, nil)
}

func (r *reader) add(code Code, at position, key, message, mend string, cause error) {
	r.findings = append(r.findings, Finding{
		Code: code, Place: Place{File: r.file, Line: at.line, Column: at.column, Key: key},
		Message: message, Mend: mend, cause: cause,
	})
}

// section is a mapping that is being read. Every key that is asked for is
// known; what is left over at the end is not.
type section struct {
	*reader

	path  string
	of    *node
	known []string
	// misplaced says for keys that belong elsewhere, or have another name
	// here, what to do.
	misplaced map[string]string
}

// section opens a mapping. Nothing at all is an empty one.
func (r *reader) section(path string, n *node) *section {
	s := &section{reader: r, path: path, of: n}
	if n.kind != mapping && n.kind != absent {
		s.wrongType("", n, "a mapping of keys and values")
	}
	return s
}

// entry returns a key's entry, and whether it is there. The key is known.
func (s *section) entry(key string) (entry, bool) {
	s.known = append(s.known, key)
	return s.find(key)
}

// has tells whether a key is there, with or without a value.
func (s *section) has(key string) bool {
	_, there := s.find(key)
	return there
}

func (s *section) find(key string) (entry, bool) {
	for _, e := range s.of.entries {
		if e.key == key {
			return e, true
		}
	}
	return entry{}, false
}

// value returns the value of a key that is there and not empty. A key with
// nothing behind its colon is a fault: it says something and means nothing.
func (s *section) value(key, want string) (*node, bool) {
	e, there := s.entry(key)
	if !there {
		return nil, false
	}
	switch {
	case e.of.damaged && e.of.kind == absent:
		return nil, false
	case e.of.kind == absent:
		s.fault(WrongType, e.at, join(s.path, key), fmt.Sprintf("%q has no value", key), "give "+want+", or leave the key out")
		return nil, false
	}
	return e.of, true
}

// missing reports what a mapping does not say, if all of it could be read.
func (s *section) missing(code Code, at position, message, mend string) {
	if !s.of.damaged {
		s.fault(code, at, s.path, message, mend)
	}
}

func (s *section) wrongType(key string, n *node, want string) {
	path := s.path
	if key != "" {
		path = join(s.path, key)
	}
	s.wrongTypeAt(path, n, want)
}

func (r *reader) wrongTypeAt(path string, n *node, want string) {
	if n.damaged {
		return
	}
	found := n.kind.String()
	if n.value != "" {
		found = quote(n.value) + ", " + found
	}
	r.fault(WrongType, n.position, path, "it is "+found, "give "+want)
}

// text reads a scalar as it was written; numbers are taken for names too.
func (s *section) text(key, want string) (string, *node, bool) {
	n, ok := s.value(key, want)
	if !ok {
		return "", nil, false
	}
	if n.kind != text && n.kind != number {
		s.wrongType(key, n, want)
		return "", nil, false
	}
	return n.value, n, true
}

// name reads the name of a task, queue or limit.
func (s *section) name(key, kind string) (string, *node, bool) {
	value, n, ok := s.text(key, "the name of a "+kind)
	if !ok || !s.checkName(kind, value, n.position, join(s.path, key)) {
		return "", nil, false
	}
	return value, n, true
}

// checkName reports a name that the library would refuse.
func (r *reader) checkName(kind, name string, at position, path string) bool {
	err := queue.CheckName(kind, name)
	if err == nil {
		return true
	}
	message, mend := split(err.Error())
	r.add(BadName, at, path, message, mend, err)
	return false
}

// split parts an error that ends in its mend, as those of the library do.
func split(text string) (message, mend string) {
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, ""
}

// whole reads a whole number from low to high.
func (s *section) whole(key string, code Code, low, high int64) (int64, *node, bool) {
	want := fmt.Sprintf("a whole number from %d to %d, in plain digits", low, high)
	n, ok := s.value(key, want)
	if !ok {
		return 0, nil, false
	}
	if n.kind != number {
		s.wrongType(key, n, want)
		return 0, nil, false
	}
	// The YAML forms 0x10, 1_000 and 010 are refused: they read as one thing
	// and mean another.
	v, err := strconv.ParseInt(n.value, 10, 64)
	if err != nil || n.value != strconv.FormatInt(v, 10) || v < low || v > high {
		s.fault(code, n.position, join(s.path, key), key+" "+quote(n.value), "use "+want)
		return 0, nil, false
	}
	return v, n, true
}

// duration reads a duration in Go's syntax.
func (s *section) duration(key string, low, high time.Duration) (time.Duration, bool) {
	want := fmt.Sprintf("a time from %s to %s, as in 30s or 1h30m", short(low), short(high))
	return s.time(key, want, func(d time.Duration) bool { return d >= low && d <= high })
}

// time reads a duration in Go's syntax that has to be what is wanted.
func (s *section) time(key, want string, allowed func(time.Duration) bool) (time.Duration, bool) {
	n, ok := s.value(key, want)
	if !ok {
		return 0, false
	}
	d, problem := parseDuration(n)
	if problem == "" && !allowed(d) {
		problem = "out of range"
	}
	switch {
	case n.kind != text && n.kind != number:
		s.wrongType(key, n, want)
	case problem != "":
		s.fault(BadDuration, n.position, join(s.path, key), key+" "+quote(n.value)+": "+problem, "use "+want)
	default:
		return d, true
	}
	return 0, false
}

func parseDuration(n *node) (time.Duration, string) {
	d, err := time.ParseDuration(n.value)
	switch {
	case err == nil:
		return d, ""
	case n.kind == number:
		return 0, "no unit"
	}
	return 0, "not a time"
}

// short writes a duration without its zero parts: 24h0m0s is 24h.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// names reads a list of names.
func (s *section) names(key, kind string) []named {
	want := fmt.Sprintf("a list of names of %ss, as in [one, two]", kind)
	n, ok := s.value(key, want)
	if !ok {
		return nil
	}
	if n.kind != list {
		s.wrongType(key, n, want)
		return nil
	}
	out := make([]named, 0, len(n.items))
	for i, item := range n.items {
		path := fmt.Sprintf("%s[%d]", join(s.path, key), i)
		if item.kind != text && item.kind != number {
			s.wrongTypeAt(path, item, "the name of a "+kind)
			continue
		}
		if s.checkName(kind, item.value, item.position, path) {
			out = append(out, named{item.value, item.position, path})
		}
	}
	return out
}

type named struct {
	name string
	at   position
	path string
}

// notServed refuses a key that a later version serves.
func (s *section) notServed(keys ...string) {
	for _, key := range keys {
		if e, there := s.find(key); there {
			s.known = append(s.known, key)
			s.fault(NotServed, e.at, join(s.path, key), fmt.Sprintf("%q is not served by this version yet", key), "remove it")
		}
	}
}

// end reports the keys that nothing asked for.
func (s *section) end() {
	for _, e := range s.of.entries {
		if slices.Contains(s.known, e.key) {
			continue
		}
		mend := s.misplaced[e.key]
		if mend == "" {
			mend = suggest.DidYouMean(e.key, s.known)
		}
		s.fault(UnknownKey, e.at, join(s.path, e.key), fmt.Sprintf("unknown key %s", quote(e.key)), mend)
	}
}

// quote makes any text readable, and keeps a message short.
func quote(s string) string {
	const enough = 64
	if len(s) > enough {
		return strconv.Quote(s[:enough]) + "..."
	}
	return strconv.Quote(s)
}
