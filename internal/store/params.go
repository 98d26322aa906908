package store

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/lib/pq"

	"github.com/weirq/weir/internal/suggest"
)

// sqliteParams are those of SQLite's URIs and of the driver. Neither refuses
// others: a misspelt one would be lost in silence.
var sqliteParams = []string{
	"cache", "immutable", "mode", "modeof", "nolock", "psow", "vfs",
	"_auto_vacuum", "_busy_timeout", "_defensive", "_dqs", "_error_rc", "_fk", "_foreign_keys", "_inttotime", "_journal", "_journal_mode",
	"_pragma", "_query_only", "_sync", "_synchronous", "_texttotime", "_time_format", "_time_integer_format", "_timeout", "_timezone", "_txlock", "_vacuum",
}

// checkSQLiteParams says what is wrong with the parameters of a file.
func checkSQLiteParams(params url.Values) (problem, mend string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch value := params.Get(name); {
		case !slices.Contains(sqliteParams, name):
			mend = "use one of SQLite's, as in ?_pragma=cache_size(-8000)"
			if near := suggest.Nearest(name, sqliteParams); near != "" {
				mend = fmt.Sprintf("did you mean %q?", near)
			}
			return fmt.Sprintf("unknown parameter %q", name), mend
		case name == "mode" && value == "ro", name == "immutable" && value == "1":
			return fmt.Sprintf("%s=%s: it would be read only", name, value), "leave it out: Weir writes"
		}
	}
	return "", ""
}

// checkPostgresParams says what is wrong with the parameters of a server. Those
// that the driver does not know are the server's own.
func checkPostgresParams(dsn string) (problem, mend string) {
	if _, err := pq.NewConfig(dsn); err != nil {
		return "its parameters cannot be used: " + strings.TrimPrefix(err.Error(), "pq: "), "correct them, as in ?sslmode=require"
	}
	return "", ""
}
