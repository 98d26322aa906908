package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirq/weir/internal/config"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/queue"
)

// defaultDatabase is used where nothing names one.
const defaultDatabase = "sqlite:weir.db"

// config reads the file that -c names, once; nil where it names none.
func (a *app) config() (*config.File, error) {
	switch {
	case a.file != nil || len(a.files) == 0:
		return a.file, nil
	case len(a.files) > 1:
		return nil, usage("-c: only check takes several files: name one")
	}
	f, err := config.Load(a.files[0])
	if err != nil {
		return nil, err
	}
	a.file = f
	return f, nil
}

// dsn is where the database is: the flag says, then the file, then the
// environment.
func (a *app) dsn() (string, error) {
	f, err := a.config()
	if err != nil {
		return "", err
	}
	env := a.env("WEIR_DATABASE")
	switch {
	case a.database != "":
		return given("--database", a.database)
	case f != nil && f.Database != "":
		return f.Database, nil
	case env != "":
		return given("$WEIR_DATABASE", env)
	}
	return defaultDatabase, nil
}

// given checks a DSN that came with the call.
func given(by, dsn string) (string, error) {
	if _, err := store.ResolveDSN(dsn, ""); err != nil {
		return "", usage("%s: %w", by, err)
	}
	return dsn, nil
}

// open opens the database. Only some commands may create it.
func (a *app) open(ctx context.Context, migrate queue.Migrate) (*queue.Client, error) {
	dsn, err := a.dsn()
	if err != nil {
		return nil, err
	}
	return queue.Open(ctx, dsn, queue.WithMigrate(migrate))
}

// with runs do on a database that must be there.
func (a *app) with(ctx context.Context, do func(*queue.Client) error) (err error) {
	client, err := a.open(ctx, queue.MustExist)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing(client)) }()
	return do(client)
}

func closing(client *queue.Client) error {
	if err := client.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}
