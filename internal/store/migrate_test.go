package store_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/migrations"
)

const openEnv = "WEIR_STORE_TEST_OPEN"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(openEnv); dsn != "" {
		os.Exit(openOnce(dsn))
	}
	code := m.Run()
	closeShared()
	os.Exit(storetest.Announce(code))
}

// openOnce is a process that starts: it migrates, writes and reads.
func openOnce(dsn string) int {
	ctx := context.Background()
	s, err := store.Open(ctx, dsn, store.Options{Migrate: true})
	if err == nil {
		err = s.Register(ctx, []store.Task{{Name: "a", Queue: "q", Definition: "{}"}}, nil)
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestEightProcessesThatStartAtOnceOnAnEmptyDatabaseAllComeUp(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		outputs, errs := make([][]byte, 8), make([]error, 8)
		var wg sync.WaitGroup
		for i := range outputs {
			wg.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
				cmd.Env = append(os.Environ(), openEnv+"="+db.DSN)
				outputs[i], errs[i] = cmd.CombinedOutput()
			})
		}
		wg.Wait()
		for i := range errs {
			require.NoError(t, errs[i], "process %d: %s", i, outputs[i])
		}
		s := db.Open(t, store.Options{})
		tasks, err := s.Tasks(t.Context())
		require.NoError(t, err)
		require.Len(t, tasks, 1)
	})
}

func TestMigrationsGoUpAndDownAndUpAgain(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := t.Context()
		pairs, err := migrations.For(string(db.Dialect))
		require.NoError(t, err)
		s, err := store.OpenForMigration(ctx, db.DSN, true)
		require.NoError(t, err)
		defer s.Close()
		status := func() (applied int) {
			list, err := s.MigrationStatus(ctx)
			require.NoError(t, err)
			require.Len(t, list, len(pairs))
			for _, m := range list {
				if m.Applied {
					applied++
				}
			}
			return applied
		}
		require.Zero(t, status())
		for range 2 {
			require.NoError(t, s.MigrateUp(ctx))
			require.Equal(t, len(pairs), status())
			for range pairs {
				require.NoError(t, s.MigrateDown(ctx))
			}
			require.Zero(t, status())
		}
	})
}

func TestBothDatabasesHaveTheSameVersions(t *testing.T) {
	lite, err := migrations.For("sqlite")
	require.NoError(t, err)
	pg, err := migrations.For("postgres")
	require.NoError(t, err)
	require.Equal(t, len(lite), len(pg))
	for i := range lite {
		require.Equal(t, lite[i].Version, pg[i].Version)
		require.Equal(t, lite[i].Name, pg[i].Name)
	}
}

func TestASchemaThatIsNotThisProgramsIsRefusedWithTheMend(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db storetest.Database) {
		ctx := t.Context()
		_, err := store.Open(ctx, db.DSN, store.Options{MustExist: true})
		require.ErrorIs(t, err, store.ErrNoDatabase)
		require.ErrorContains(t, err, "weir migrate up")

		s := db.Open(t, store.Options{})
		require.NoError(t, s.SetSchemaVersionForTest(ctx, 9999))
		for _, opts := range []store.Options{{}, {Migrate: true}} {
			_, err = store.Open(ctx, db.DSN, opts)
			require.ErrorIs(t, err, store.ErrSchema)
			require.ErrorContains(t, err, "use a newer weir")
		}
	})
}
