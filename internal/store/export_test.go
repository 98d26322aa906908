package store

import (
	"context"
	"strconv"
)

// SetSchemaVersionForTest pretends that a newer program migrated.
func (s *Store) SetSchemaVersionForTest(ctx context.Context, version int64) error {
	return s.write(ctx, func(t *tx) error {
		_, err := t.conn.ExecContext(ctx, `insert into `+s.migrationTable()+` (version_id, is_applied) values (`+strconv.FormatInt(version, 10)+`, true)`)
		return err
	})
}

// PendingForTest is how many single inserts wait for the next group.
func (s *Store) PendingForTest() int {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	return len(s.group.pending)
}
