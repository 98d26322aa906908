package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
)

// dsn names a fresh database: a file, or a schema on the server that
// WEIR_TEST_POSTGRES names.
func dsn(database, folder string, n int) (string, error) {
	if database == "sqlite" {
		return "sqlite:" + filepath.Join(folder, "weir.db"), nil
	}
	server := os.Getenv("WEIR_TEST_POSTGRES")
	if server == "" {
		return "", errors.New("WEIR_TEST_POSTGRES is not set: scripts/soak starts a server")
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("WEIR_TEST_POSTGRES: %w", err)
	}
	q := u.Query()
	q.Set("schema", fmt.Sprintf("soak_%d_%d", os.Getpid(), n))
	u.RawQuery = q.Encode()
	return u.String(), nil
}
