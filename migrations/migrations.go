// Package migrations holds the schema: numbered up/down pairs, one folder per
// database. Version N is the pair N_NAME.up.sql and N_NAME.down.sql; both
// databases have the same versions.
package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

//go:embed sqlite/*.sql postgres/*.sql
var files embed.FS

// Pair is one version of the schema: how to get there and back.
type Pair struct {
	Version  int64
	Name     string
	Up, Down string
}

// For lists the pairs of a database, "sqlite" or "postgres", by version.
func For(database string) ([]Pair, error) {
	names, err := fs.Glob(files, database+"/*.up.sql")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("migrations of %q: none found: %w", database, err)
	}
	pairs := make([]Pair, 0, len(names))
	for _, up := range names {
		stem := strings.TrimSuffix(up, ".up.sql")
		number, name, _ := strings.Cut(strings.TrimPrefix(stem, database+"/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s: the name begins with no number: %w", up, err)
		}
		upSQL, err := files.ReadFile(up)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", up, err)
		}
		downSQL, err := files.ReadFile(stem + ".down.sql")
		if err != nil {
			return nil, fmt.Errorf("migration %s has no way back: %w", up, err)
		}
		pairs = append(pairs, Pair{Version: version, Name: name, Up: string(upSQL), Down: string(downSQL)})
	}
	return pairs, nil
}
