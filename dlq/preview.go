package dlq

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirq/weir/internal/store"
)

// A Preview says what a replay of a dead letter would do as things stand.
type Preview struct {
	// Registered: a process has registered the task. The job of one that
	// nobody runs waits.
	Registered bool
	Starts     int      // how often the new job may be started
	Limits     []string // that it has to pass, with their rates, as "task:send_email 100/m"
	// DuplicateOf is the live job that holds the unique key: while it does, a
	// replay changes nothing. Empty: none.
	DuplicateOf string
	// RetryAt is when it is retried without anybody's doing; zero: never.
	RetryAt time.Time
	// Retries is how often that may happen in all, replays by hand counted.
	Retries int
}

// Preview says what a replay of an entry would do.
func (l *Letters) Preview(ctx context.Context, e *Entry) (Preview, error) {
	p, err := l.preview(ctx, e)
	if err != nil {
		return p, fmt.Errorf("preview of dead letter %s: %w", e.ID, err)
	}
	return p, nil
}

func (l *Letters) preview(ctx context.Context, e *Entry) (p Preview, err error) {
	number, _, err := parseID(e.ID)
	if err != nil {
		return p, err
	}
	rivals, err := l.store.DeadRivals(ctx, []int64{number})
	if err != nil {
		return p, err
	}
	for _, r := range rivals {
		p.DuplicateOf = r.NewID
	}
	limits, err := l.store.Limits(ctx)
	if err != nil {
		return p, err
	}
	for i := range limits {
		if covers(&limits[i], e) {
			p.Limits = append(p.Limits, described(&limits[i]))
		}
	}
	tasks, err := l.store.Tasks(ctx)
	if err != nil {
		return p, err
	}
	retries := store.DefaultMaxRetries
	for _, t := range tasks {
		if t.Name == e.Task {
			p.Registered, retries = true, t.MaxRetries
			p.retry(&t, e)
		}
	}
	if e.MaxRetries != nil {
		retries = *e.MaxRetries
	}
	p.Starts = retries + 1
	return p, nil
}

// retry reads what the task says about the retry of its dead letters.
func (p *Preview) retry(t *store.Task, e *Entry) {
	var definition struct {
		Retry struct {
			After time.Duration `json:"after"`
			Max   int           `json:"max"`
		} `json:"dlq_retry"`
	}
	if json.Unmarshal([]byte(t.Definition), &definition) != nil || e.Kind != Failed {
		return
	}
	if p.Retries = definition.Retry.Max; e.Replays < p.Retries {
		p.RetryAt = e.DeadAt.Add(definition.Retry.After)
	}
}

func covers(l *store.Limit, e *Entry) bool {
	var c store.Covers
	if json.Unmarshal([]byte(l.Covers), &c) != nil {
		return false
	}
	return slices.Contains(c.Tasks, e.Task) || slices.Contains(c.Queues, e.Queue)
}

func described(l *store.Limit) string {
	text := l.Name
	if b, err := l.Bucket(); err == nil {
		text += " " + b.Limit.Rate.String()
	}
	if l.Rate.Valid {
		text = l.Name + " " + l.Rate.String + " (override)"
	}
	if l.Paused {
		text += " (paused)"
	}
	return text
}
