package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// The server that scripts/postgres has started, and the pooler of
// scripts/pgbouncer before it.
const (
	serverEnv = "WEIR_TEST_POSTGRES"
	poolerEnv = "WEIR_TEST_POOLER"
)

// dsn names a fresh database: a file, or a schema on the server.
func dsn(database, folder string, n int) (string, error) {
	if database == "sqlite" {
		return "sqlite:" + filepath.Join(folder, "weir.db"), nil
	}
	server := os.Getenv(serverEnv)
	if server == "" {
		return "", errors.New(serverEnv + " is not set: scripts/soak starts a server")
	}
	return schemaOf(server, n)
}

// schemaOf names a schema on a server that does not exist yet.
func schemaOf(server string, n int) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("the server's address: %w", err)
	}
	q := u.Query()
	q.Set("schema", schemaName(n))
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func schemaName(n int) string { return fmt.Sprintf("soak_%d_%d", os.Getpid(), n) }
