package queuetest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/weirq/weir/queue"
)

// Open opens an empty SQLite database in a folder of the test's own. Client and
// folder are gone when the test ends.
func Open(t testing.TB, opts ...queue.Option) *queue.Client {
	t.Helper()
	dsn := "sqlite:" + filepath.Join(t.TempDir(), "weir.db")
	c, err := queue.Open(context.Background(), dsn, opts...)
	if err != nil {
		t.Fatalf("queuetest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("queuetest: close: %v", err)
		}
	})
	return c
}
