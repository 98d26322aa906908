package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirq/weir/queue"
)

// jobLine is a job as a line of JSON.
type jobLine struct {
	Task       string          `json:"task"`
	Args       json.RawMessage `json:"args"`
	ArgsBase64 []byte          `json:"args_base64"` // instead of args: any bytes
	Queue      string          `json:"queue"`
	Priority   int             `json:"priority"`
	Delay      string          `json:"delay"`
	RunAt      string          `json:"run_at"`
	UniqueKey  string          `json:"unique_key"`
	Metadata   json.RawMessage `json:"metadata"`
	ID         string          `json:"id"`
	Timeout    string          `json:"timeout"`
	MaxRetries *int            `json:"max_retries"`

	StartBefore string `json:"start_before"`
	StartWithin string `json:"start_within"`
}

// parse reads a line. A member that is not known is refused: it would be lost
// in silence.
func (a *app) parse(text []byte) (queue.NewJob, error) {
	// What is not UTF-8 would be replaced in silence, and name something else.
	if !utf8.Valid(text) {
		return queue.NewJob{}, errors.New("the line is not UTF-8: give any other bytes as args_base64")
	}
	var l jobLine
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return queue.NewJob{}, fmt.Errorf(`%w: write a JSON object a line, as in {"task": "send_email", "args": {}}`, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return queue.NewJob{}, errors.New("more than one JSON object: write one a line")
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
	if present(l.Args) {
		if l.ArgsBase64 != nil {
			return job, errors.New("args and args_base64: give one of the two")
		}
		job.Args = l.Args
	}
	if present(l.Metadata) {
		job.Metadata = l.Metadata
	}
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
		return 0, fmt.Errorf("%s %.80q: write a time with its unit, as in \"30s\"", member, text)
	}
	return d, nil
}
