package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

func (a *app) migrateUp() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Create the database, or bring its schema up to date", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrate(cmd.Context(), true, func(s *store.Store, ctx context.Context) error {
				before, err := appliedVersion(s, ctx)
				if err == nil {
					err = s.MigrateUp(ctx)
				}
				if err != nil {
					return err
				}
				after, err := appliedVersion(s, ctx)
				if err != nil || after == before {
					return err
				}
				return a.with(ctx, func(c *queue.Client) error {
					return c.Store().Record(ctx, store.Act{Action: "migrate up", Subject: s.String(), Detail: fmt.Sprintf("version %d to %d", before, after)})
				})
			})
		},
	}
}

// appliedVersion is the version of a database's schema; 0: it has none.
func appliedVersion(s *store.Store, ctx context.Context) (version int64, err error) { //nolint:revive // as the methods that it stands beside
	versions, err := s.MigrationStatus(ctx)
	for _, v := range versions {
		if v.Applied {
			version = v.Version
		}
	}
	return version, err
}

func (a *app) migrateDown() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "down", Short: "Take the newest version of the schema away, with all that is stored in it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes && !a.inTerminal {
				return wrong(cmd, "it deletes what is stored: add --yes if that is meant")
			}
			return a.migrate(cmd.Context(), false, func(s *store.Store, ctx context.Context) error {
				if err := a.confirm(yes, fmt.Sprintf("delete what is stored in %s?", s)); err != nil {
					return err
				}
				return s.MigrateDown(ctx)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) migrateStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "List the versions of the schema", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrate(cmd.Context(), false, func(*store.Store, context.Context) error { return nil })
		},
	}
}

// migration is one version of the schema in JSON.
type migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// migrate does something to the schema and prints what it is then.
func (a *app) migrate(ctx context.Context, create bool, do func(*store.Store, context.Context) error) (err error) {
	dsn, err := a.dsn()
	if err != nil {
		return err
	}
	s, err := store.OpenForMigration(ctx, dsn, create)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := do(s, ctx); err != nil {
		return err
	}
	versions, err := s.MigrationStatus(ctx)
	if err != nil {
		return err
	}
	if a.json {
		out := list[migration]{Items: make([]migration, 0, len(versions))}
		for _, v := range versions {
			out.Items = append(out.Items, migration(v))
		}
		return a.document(out)
	}
	fmt.Fprintf(a.out, "database %s\n", printable(s.String()))
	rows := make([][]string, 0, len(versions))
	for _, v := range versions {
		state := "applied"
		if !v.Applied {
			state = "pending"
		}
		rows = append(rows, []string{number(v.Version), v.Name, state})
	}
	a.table("versions", []string{"VERSION", "NAME", "STATE"}, rows)
	return nil
}
