package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/weirq/weir/internal/cron"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/wire"
)

// ScheduleInfo is a schedule as an operator sees it, at the database's time.
type ScheduleInfo struct {
	Name      string          `json:"name"`
	Cron      string          `json:"cron"`
	Timezone  string          `json:"timezone" wire:"null"` // "": an interval without one
	Missed    string          `json:"missed"`               // "skip" or "once"
	Task      string          `json:"task"`
	Queue     string          `json:"queue" wire:"null"` // "": the task's
	Args      json.RawMessage `json:"args"`              // where the arguments are JSON
	Priority  int             `json:"priority"`
	Metadata  json.RawMessage `json:"metadata"`
	UniqueKey string          `json:"unique_key" wire:"null"`
	Paused    bool            `json:"paused"`
	// Declared tells whether a running process declares it: otherwise nobody
	// fires it. It is known to two minutes.
	Declared   bool      `json:"declared"`
	LastTickAt time.Time `json:"last_tick_at"` // the last that was fired; zero: none
	// NextTicks are the next three, in the schedule's zone; none while it is
	// paused or not declared.
	NextTicks []time.Time `json:"next_ticks"`

	RawArgs []byte `json:"-"` // as stored
}

// MarshalJSON writes the schedule with stable names.
func (s ScheduleInfo) MarshalJSON() ([]byte, error) { return wire.Object(s) }

// shownTicks is how many ticks to come are shown.
const shownTicks = 3

// undeclaredAfter is how long after it was last looked after a schedule counts
// as nobody's: processes look after theirs every minute.
const undeclaredAfter = 2 * time.Minute

// Schedules lists the schedules by name, also those that no process declares any
// more.
func (c *Client) Schedules(ctx context.Context) ([]ScheduleInfo, error) {
	rows, err := c.store.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	now, err := c.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]ScheduleInfo, len(rows))
	for i := range rows {
		out[i] = newScheduleInfo(&rows[i], now)
	}
	return out, nil
}

// newScheduleInfo shows of a damaged row what can be read: the next process that
// declares the schedule mends it.
func newScheduleInfo(row *store.Schedule, now int64) ScheduleInfo {
	var job store.NewJob
	_ = json.Unmarshal([]byte(row.Job), &job)
	info := ScheduleInfo{
		Name: row.Name, Cron: row.Cron, Timezone: row.Timezone, Missed: row.Missed, Task: job.Task, Queue: job.Queue,
		Priority: job.Priority, Metadata: wire.JSON([]byte(job.Metadata)), UniqueKey: job.UniqueKey, Paused: row.Paused,
		Declared: row.SeenAt >= now-undeclaredAfter.Microseconds(), NextTicks: []time.Time{}, RawArgs: job.Args,
	}
	info.Args, _ = wire.Args(job.Args, 0)
	spec, err := cron.Parse(row.Cron, row.Timezone)
	if row.LastTick != 0 {
		info.LastTickAt = spec.In(wire.Time(row.LastTick))
	}
	if err != nil || !info.Declared || info.Paused {
		return info
	}
	spec = spec.From(wire.Time(row.Anchor))
	for at := spec.In(wire.Time(row.NextTick)); len(info.NextTicks) < shownTicks; at = spec.Next(at) {
		info.NextTicks = append(info.NextTicks, at)
	}
	return info
}

// PauseSchedule stops firing a schedule, in every process at once, until
// ResumeSchedule; restarts do not end that. A schedule that no process has
// declared is [ErrNotFound].
func (c *Client) PauseSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, name, "schedules pause", func(_ int64, row *store.Schedule) { row.Paused = true })
}

// ResumeSchedule lets a paused schedule go on from now, in every process within
// a second: ticks that came meanwhile are not made up for.
func (c *Client) ResumeSchedule(ctx context.Context, name string) error {
	return c.changeSchedule(ctx, name, "schedules resume", func(now int64, row *store.Schedule) {
		if !row.Paused {
			return
		}
		row.Paused = false
		if spec, err := cron.Parse(row.Cron, row.Timezone); err == nil { // else the next process that declares it mends the row
			at := wire.Time(max(now, row.LastTick))
			row.NextTick = spec.From(wire.Time(row.Anchor)).Next(at).UnixMicro()
		}
	})
}

func (c *Client) changeSchedule(ctx context.Context, name, action string, change func(now int64, row *store.Schedule)) error {
	found, err := c.store.ChangeSchedule(ctx, name, store.Act{Action: action, Subject: name}, change)
	if err == nil && !found {
		err = scheduleNotFound(name)
	}
	return err
}

func scheduleNotFound(name string) error {
	return fmt.Errorf("schedule %s: %w: `weir schedules list` shows those that a scheduler has declared", quote(name), ErrNotFound)
}

// RunSchedule enqueues a schedule's job now, also while it is paused. That is no
// tick: the next one comes when it would have. The job passes the limits as any
// other; one that holds the same unique key stands for it ([Receipt].Duplicate).
func (c *Client) RunSchedule(ctx context.Context, name string) (Receipt, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Receipt{}, fmt.Errorf("make an id: %w", err)
	}
	var inserted store.Inserted
	var found bool
	err = untilKnown(ctx, func(again bool) (err error) {
		inserted, found, err = c.store.RunSchedule(ctx, name, id.String(), again)
		return err
	})
	switch {
	case err != nil:
		return Receipt{ID: id.String()}, err
	case !found:
		return Receipt{}, scheduleNotFound(name)
	}
	return receipt(false, inserted), nil
}
