package dlq

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirq/weir/internal/store"
)

// A Filter selects dead letters. Zero values select all; several fields select
// what meets all of them.
type Filter struct {
	Kind    Kind
	NotKind Kind // all kinds but this one
	Task    string
	Queue   string
	Reason  string // what the reason begins with, byte for byte
	// Text occurs in the reason, the arguments (where these have up to 4 KiB),
	// the job's metadata or the unique key, byte for byte.
	Text      string
	OlderThan time.Duration // they died longer ago; 0: any
	NewerThan time.Duration // they died less long ago; 0: any

	// OldestFirst is for lists and exports. Default: the latest first.
	OldestFirst bool
	// Limit and Cursor are for lists alone.
	Limit  int    // entries on a page, 1 to 10,000. Default: 100
	Cursor string // Next of the page before
}

// ParseKind reads the name of a kind: shed, failed or expired. Anything else is
// an [InvalidError].
func ParseKind(name string) (Kind, error) {
	switch k := Kind(name); k {
	case Shed, Failed, Expired:
		return k, nil
	}
	return "", &InvalidError{Field: "kind", Value: quote(name), Problem: "use shed, failed or expired"}
}

// String is the filter in words, as it is recorded: kind=shed task="a b".
func (f *Filter) String() string {
	var parts []string
	add := func(name, value string) {
		if value == "" {
			return
		}
		if strings.ContainsFunc(value, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '"' }) {
			value = strconv.Quote(value)
		}
		parts = append(parts, name+"="+value)
	}
	add("kind", string(f.Kind))
	if f.NotKind != "" {
		parts = append(parts, "kind!="+string(f.NotKind))
	}
	add("task", f.Task)
	add("queue", f.Queue)
	add("reason", f.Reason)
	add("text", f.Text)
	if f.OlderThan > 0 {
		add("older_than", f.OlderThan.String())
	}
	if f.NewerThan > 0 {
		add("newer_than", f.NewerThan.String())
	}
	return strings.Join(parts, " ")
}

// check refuses what cannot be meant.
func (f *Filter) check() error {
	for _, kind := range []Kind{f.Kind, f.NotKind} {
		if kind != "" {
			if _, err := ParseKind(string(kind)); err != nil {
				return err
			}
		}
	}
	for _, name := range []struct{ field, value string }{{"task", f.Task}, {"queue", f.Queue}} {
		if len(name.value) > 255 || !utf8.ValidString(name.value) || strings.ContainsFunc(name.value, unicode.IsControl) {
			return &InvalidError{name.field, quote(name.value), "no name has control characters, more than 255 bytes, or bytes that are not UTF-8"}
		}
	}
	for _, text := range []struct{ field, value string }{{"reason", f.Reason}, {"text", f.Text}} {
		if !utf8.ValidString(text.value) || strings.Contains(text.value, "\x00") {
			return &InvalidError{text.field, quote(text.value), "no reason has NUL, or bytes that are not UTF-8"}
		}
	}
	switch {
	case f.OlderThan < 0:
		return &InvalidError{"older than", f.OlderThan.String(), "use a time above 0, as in 24h"}
	case f.NewerThan < 0:
		return &InvalidError{"newer than", f.NewerThan.String(), "use a time above 0, as in 24h"}
	case f.NewerThan > 0 && f.NewerThan <= f.OlderThan:
		return &InvalidError{"newer than", f.NewerThan.String(), fmt.Sprintf("nothing is newer than that and older than %v: use more", f.OlderThan)}
	}
	return nil
}

// quote makes any text readable, and keeps a message short.
func quote(s string) string {
	const enough = 80
	if len(s) > enough {
		return strconv.Quote(s[:enough]) + "..."
	}
	return strconv.Quote(s)
}

// stored is the filter as the store takes it. Ages count from now on.
func (l *Letters) stored(ctx context.Context, f *Filter) (store.DeadFilter, error) {
	out := store.DeadFilter{
		Kind: string(f.Kind), NotKind: string(f.NotKind), Task: f.Task, Queue: f.Queue, Reason: f.Reason, Text: f.Text, OldestFirst: f.OldestFirst,
	}
	if err := f.check(); err != nil {
		return out, err
	}
	if f.OlderThan == 0 && f.NewerThan == 0 {
		return out, nil
	}
	now, err := l.store.Now(ctx)
	if err != nil {
		return out, err
	}
	if f.OlderThan > 0 {
		out.Until = now - f.OlderThan.Microseconds()
	}
	if f.NewerThan > 0 {
		out.From = now - f.NewerThan.Microseconds()
	}
	return out, nil
}
