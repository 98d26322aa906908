package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// Scratch names a fresh database in the place of another one, for measurements
// and the like: a file in a new folder beside SQLite's, a new schema in
// PostgreSQL's. Opening it creates it. What the given one holds is not touched,
// and it need not be there. remove takes the fresh one away, with all that is
// in it.
func Scratch(dsn string) (fresh string, remove func(context.Context) error, err error) {
	t, err := parseDSN(dsn)
	if err != nil {
		return "", nil, err
	}
	if t.dialect == SQLite {
		return scratchFolder(t)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", nil, fmt.Errorf("database %s: %w", RedactDSN(dsn), err)
	}
	schema := "weir_scratch_" + strings.ToLower(rand.Text())
	q := u.Query()
	q.Set("schema", schema)
	u.RawQuery = q.Encode()
	return u.String(), func(ctx context.Context) error { return dropSchema(ctx, t.dsn, schema) }, nil
}

func scratchFolder(t target) (fresh string, remove func(context.Context) error, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(t.path), "weir-scratch-")
	if err != nil {
		return "", nil, fmt.Errorf("database sqlite:%s: no place for a fresh one beside it: %w", t.path, err)
	}
	t.path = filepath.Join(dir, "weir.db")
	fresh = "sqlite:file:" + (&url.URL{Path: filepath.ToSlash(t.path)}).EscapedPath()
	if t.query != "" {
		fresh += "?" + t.query
	}
	return fresh, func(context.Context) error {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove a scratch database: %w", err)
		}
		return nil
	}, nil
}

func dropSchema(ctx context.Context, dsn, schema string) error {
	db, err := sql.Open("postgres", dsn)
	if err == nil {
		_, err = db.ExecContext(ctx, `drop schema if exists `+schema+` cascade`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return fmt.Errorf("drop the scratch schema %s: %w", schema, err)
	}
	return nil
}
