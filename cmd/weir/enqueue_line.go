package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/internal/suggest"
	"github.com/weirq/weir/queue"
)

// jobLine is a job as a line of JSON.
type jobLine struct {
	Task       string
	Args       json.RawMessage
	ArgsBase64 []byte // instead of args: any bytes
	Queue      string
	Priority   int
	Delay      string
	RunAt      string
	UniqueKey  string
	Metadata   json.RawMessage
	ID         string
	Timeout    string
	MaxRetries *int

	StartBefore string
	StartWithin string
}

// members are the names of a line's members, and where their values go.
func (l *jobLine) members() map[string]any {
	return map[string]any{
		"task": &l.Task, "args": &l.Args, "args_base64": &l.ArgsBase64, "queue": &l.Queue, "priority": &l.Priority,
		"delay": &l.Delay, "run_at": &l.RunAt, "unique_key": &l.UniqueKey, "metadata": &l.Metadata, "id": &l.ID,
		"timeout": &l.Timeout, "max_retries": &l.MaxRetries, "start_before": &l.StartBefore, "start_within": &l.StartWithin,
	}
}

// read reads a line. It is stricter than encoding/json: a member that is not
// known, is there twice, has another case or an empty text would be lost in
// silence.
func (l *jobLine) read(text []byte) error {
	const form = `write a JSON object a line, as in {"task": "send_email", "args": {}}`
	if err := json.Unmarshal(text, &json.RawMessage{}); err != nil {
		return fmt.Errorf("not JSON: %w: %s", err, form)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return errors.New("no JSON object: " + form)
	}
	members, seen := l.members(), map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		into, known := members[name]
		switch {
		case !known:
			return fmt.Errorf("unknown member %q: %s", name, suggest.DidYouMean(name, slices.Collect(maps.Keys(members))))
		case seen[name]:
			return fmt.Errorf("member %q is there twice: keep one", name)
		}
		seen[name] = true
		if err := readMember(dec, name, into); err != nil {
			return err
		}
	}
	return nil
}

// readMember reads the value of a member; null is as if it were not there.
func readMember(dec *json.Decoder, name string, into any) error {
	var value json.RawMessage
	if err := dec.Decode(&value); err != nil {
		return fmt.Errorf("member %q: %w", name, err)
	}
	if !present(value) {
		return nil
	}
	err := json.Unmarshal(value, into)
	given, isText := into.(*string)
	switch {
	case err != nil && isText:
		return fmt.Errorf("member %q: %.80s is no text: write one, as in %s", name, value, strconv.Quote(exampleOf[name]))
	case err != nil && name == "args_base64":
		return fmt.Errorf("member %q: not base64, as in \"/wA=\"", name)
	case err != nil:
		return fmt.Errorf("member %q: %.80s: use a whole number, in plain digits", name, value)
	case isText && *given == "":
		return fmt.Errorf("member %q is empty: give it a value, or leave it out", name)
	}
	return nil
}

// exampleOf shows what a member may hold that is a text.
var exampleOf = map[string]string{
	"task": "send_email", "queue": "emails", "unique_key": "order 17", "id": "018f2f5e-0000-7000-8000-000000000000",
	"delay": "30s", "timeout": "30s", "start_within": "5m", "run_at": "2026-03-01T09:00:00+01:00", "start_before": "2026-03-01T09:00:00+01:00",
}

// parse makes a job of a line.
func (a *app) parse(text []byte) (queue.NewJob, error) {
	// What is not UTF-8 would be replaced in silence, and name something else.
	if !utf8.Valid(text) {
		return queue.NewJob{}, errors.New("the line is not UTF-8: give any other bytes as args_base64")
	}
	var l jobLine
	if err := l.read(text); err != nil {
		return queue.NewJob{}, err
	}
	for _, name := range []string{l.Task, l.Queue, l.UniqueKey} {
		if strings.ContainsRune(name, utf8.RuneError) {
			return queue.NewJob{}, fmt.Errorf("name %q: it has an escape that is no character", name)
		}
	}
	job := queue.NewJob{
		Task: l.Task, Queue: l.Queue, Priority: l.Priority, UniqueKey: l.UniqueKey,
		ID: l.ID, MaxRetries: l.MaxRetries, Args: l.ArgsBase64,
	}
	if l.Args != nil {
		if l.ArgsBase64 != nil {
			return job, errors.New("args and args_base64: give one of the two")
		}
		job.Args = l.Args
	}
	job.Metadata = l.Metadata
	var err error
	if job.RunAt, err = parseTime("run_at", l.RunAt); err != nil {
		return job, err
	}
	if job.StartBefore, err = deadline("start_before", l.StartBefore); err != nil {
		return job, err
	}
	if job.StartWithin, err = lineDuration("start_within", l.StartWithin); err != nil {
		return job, err
	}
	if l.StartWithin != "" && job.StartWithin <= 0 {
		return job, fmt.Errorf("start_within %q: use a time above 0", l.StartWithin)
	}
	if job.Delay, err = lineDuration("delay", l.Delay); err != nil {
		return job, err
	}
	if job.Timeout, err = lineDuration("timeout", l.Timeout); err != nil {
		return job, err
	}
	return job, a.fillQueue(&job)
}

// present tells a value from a member that is missing or null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

func lineDuration(member, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%s %.80q: %s", member, text, wantTime)
	}
	return d, nil
}
