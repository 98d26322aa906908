package queue_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestADatabaseIsCreatedUnlessForbidden(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		_, err := queue.Open(t.Context(), db.DSN, queue.WithMigrate(queue.MustExist))
		require.ErrorIs(t, err, queue.ErrNoDatabase)
		require.ErrorContains(t, err, "`weir migrate up` creates it")
		_, err = queue.Open(t.Context(), db.DSN, queue.WithMigrate(queue.MigrateCheck))
		require.Error(t, err)
		if db.Dialect == "sqlite" {
			files, err := filepath.Glob(filepath.Join(filepath.Dir(db.DSN[len("sqlite:"):]), "*"))
			require.NoError(t, err)
			require.Empty(t, files, "nothing is left behind")
		}

		open(t, db)
		open(t, db, queue.WithMigrate(queue.MustExist))
		open(t, db, queue.WithMigrate(queue.MigrateCheck))
		open(t, db, queue.WithMigrate(queue.MigrateAuto))
	})
}

func TestAClosedClientSaysSoAndMayBeClosedAgain(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		c, err := queue.Open(t.Context(), db.DSN)
		require.NoError(t, err)
		receipt, err := c.Enqueue(t.Context(), queue.NewJob{Task: "a"})
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, c.Close())
		}
		for name, call := range map[string]func() error{
			"Enqueue":     func() error { _, err := c.Enqueue(t.Context(), queue.NewJob{Task: "a"}); return err },
			"with a key":  func() error { _, err := c.Enqueue(t.Context(), queue.NewJob{Task: "a", UniqueKey: "k"}); return err },
			"EnqueueMany": func() error { _, err := c.EnqueueMany(t.Context(), []queue.NewJob{{Task: "a"}}); return err },
			"Get":         func() error { _, err := c.Get(t.Context(), receipt.ID); return err },
			"List":        func() error { _, err := c.List(t.Context(), queue.Filter{}); return err },
			"Cancel":      func() error { return c.Cancel(t.Context(), receipt.ID) },
			"RunNow":      func() error { return c.RunNow(t.Context(), receipt.ID) },
			"Queues":      func() error { _, err := c.Queues(t.Context()); return err },
			"Tasks":       func() error { _, err := c.Tasks(t.Context()); return err },
			"Limits":      func() error { _, err := c.Limits(t.Context()); return err },
			"SetLimit":    func() error { return c.SetLimit(t.Context(), "l", queue.Override{Rate: "1/s"}) },
			"PauseQueue":  func() error { return c.PauseQueue(t.Context(), "q") },
		} {
			require.ErrorIs(t, call(), queue.ErrClosed, name)
		}
	})
}

func TestASchemaThatIsNotThisProgramsIsRefused(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		open(t, db)
		_, err := db.SQL(t).ExecContext(t.Context(), `insert into weir_migrations (version_id, is_applied) values (1000, true)`)
		require.NoError(t, err)
		for _, m := range []queue.Migrate{queue.MigrateAuto, queue.MigrateCheck, queue.MustExist} {
			_, err = queue.Open(t.Context(), db.DSN, queue.WithMigrate(m))
			require.ErrorIs(t, err, queue.ErrSchema)
			require.ErrorContains(t, err, "its schema is version 1000")
		}
	})
}

func TestAnOptionOutOfRangeIsRefused(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	for want, opt := range map[string]queue.Option{
		"open: max args 0: use 1 to 67108864 bytes":              queue.WithMaxArgs(0),
		"open: max args 67108865: use 1 to 67108864 bytes":       queue.WithMaxArgs(64<<20 + 1),
		"open: max conns -1: use at least 1":                     queue.WithMaxConns(-1),
		"open: clock nil: leave the option out for the real one": queue.WithClock(nil),
		"open: option 1: it is nil: leave it out":                nil,
	} {
		_, err := queue.Open(t.Context(), db.DSN, opt)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, queue.ErrInvalid)
	}
	_, err := queue.Open(t.Context(), "")
	require.EqualError(t, err, `open: database "": no such form: use sqlite:PATH or postgres://USER@HOST/NAME`)
	_, err = queue.Open(t.Context(), "mysql://root:secret@localhost/app")
	require.ErrorContains(t, err, "use sqlite:PATH or postgres://")
	require.NotContains(t, err.Error(), "secret")
}
