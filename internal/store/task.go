package store

import (
	"context"
	"fmt"
)

// Task is a task as it was last registered.
type Task struct {
	Name         string `db:"name"          json:"name"`
	Queue        string `db:"queue"         json:"queue"`
	MaxRetries   int    `db:"max_retries"   json:"max_retries"`
	Definition   string `db:"definition"    json:"definition"` // JSON, for people
	RegisteredAt int64  `db:"registered_at" json:"-"`
}

var registerTasksSQL = &statement{
	postgres: `
insert into weir_tasks (name, queue, max_retries, definition, registered_at)
select r.name, r.queue, r.max_retries, r.definition, coalesce($2::bigint, ` + pgNow + `)
from json_to_recordset($1::json) as r(name text, queue text, max_retries int, definition text)
order by r.name collate "C"
on conflict (name) do update set queue = excluded.queue, max_retries = excluded.max_retries,
   definition = excluded.definition, registered_at = excluded.registered_at`,
	sqlite: `
insert into weir_tasks (name, queue, max_retries, definition, registered_at)
select r.value ->> 'name', r.value ->> 'queue', r.value ->> 'max_retries', r.value ->> 'definition', $2
from json_each($1) r where true
order by 1
on conflict (name) do update set queue = excluded.queue, max_retries = excluded.max_retries,
   definition = excluded.definition, registered_at = excluded.registered_at`,
}

// Register stores what a process runs: its tasks, and its limits' rows where
// they are new or cover something else. A row to be written that a session keeps
// locked is ErrLocked. PostgreSQL.
func (s *Store) Register(ctx context.Context, tasks []Task, limits []Declared) error {
	err := s.declare(ctx, func(t *tx) error {
		if len(tasks) > 0 {
			if _, err := s.execJSON(ctx, t, registerTasksSQL, tasks, s.given()); err != nil {
				return err
			}
		}
		return s.declareLimits(ctx, t, limits)
	})
	if err != nil {
		return fmt.Errorf("register %d tasks and %d limits: %w", len(tasks), len(limits), err)
	}
	return nil
}

var tasksSQL = &statement{postgres: `select name, queue, max_retries, definition, registered_at from weir_tasks order by name`}

// Tasks lists the registered tasks by name.
func (s *Store) Tasks(ctx context.Context) ([]Task, error) {
	rows, err := selectRows[Task](ctx, s.read, s.text(tasksSQL))
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return rows, nil
}
