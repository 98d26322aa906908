package scheduler

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/weirq/weir/internal/store"
)

// tellUndeclared logs the stored limits of tasks which this process runs
// without declaring them: it starts their jobs without asking.
func (s *Scheduler) tellUndeclared(ctx context.Context) error {
	rows, err := s.store.Limits(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		_, declared := slices.BinarySearchFunc(s.limits, rows[i].Name, func(l *limit, name string) int { return strings.Compare(l.Name, name) })
		var covers store.Covers
		if declared || json.Unmarshal([]byte(rows[i].Covers), &covers) != nil {
			continue
		}
		for _, name := range covers.Tasks {
			if _, ours := s.tasks[name]; ours {
				s.log.Info("limit_not_declared", "limit", rows[i].Name, "task", name)
			}
		}
	}
	return nil
}
