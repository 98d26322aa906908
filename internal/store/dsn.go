package store

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// Dialect is the kind of a database.
type Dialect string

// The databases Weir runs on.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// target is where a DSN points.
type target struct {
	dialect Dialect
	path    string // SQLite: the file
	params  url.Values
	dsn     string // PostgreSQL: what lib/pq gets
	shown   string // PostgreSQL: what was given, for messages
	schema  string // PostgreSQL: "" is the server's search path
}

const dsnForms = `use sqlite:PATH or postgres://USER@HOST/NAME`

var (
	kindName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

// parseDSN reads `sqlite:PATH[?PARAMETERS]` and `postgres://...[?schema=NAME]`.
func parseDSN(dsn string) (target, error) {
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case !ok || rest == "" || !kindName.MatchString(scheme):
		return target{}, fmt.Errorf("database %q: no such form: %s", redact(dsn), dsnForms)
	case scheme == "sqlite":
		return parseSQLite(rest)
	case scheme == "postgres" || scheme == "postgresql":
		return parsePostgres(dsn)
	}
	return target{}, fmt.Errorf("database %q: unknown kind %q: %s", redact(dsn), scheme, dsnForms)
}

func parseSQLite(rest string) (target, error) {
	path, query := rest, ""
	// A parameter list is what follows the last '?', if it reads as one: a
	// file may have a question mark in its name.
	if i := strings.LastIndexByte(rest, '?'); i >= 0 && strings.Contains(rest[i:], "=") {
		path, query = rest[:i], rest[i+1:]
	}
	if uri, ok := strings.CutPrefix(path, "file:"); ok {
		var err error
		if path, err = url.PathUnescape(uri); err != nil {
			return target{}, fmt.Errorf("database sqlite:%s: not a URI: %w", rest, err)
		}
	}
	path = strings.TrimPrefix(path, "//")
	params, err := url.ParseQuery(query)
	if err != nil {
		return target{}, fmt.Errorf("database sqlite:%s: parameters %q: %w", path, query, err)
	}
	if path == "" || strings.Contains(path, ":memory:") || params.Get("mode") == "memory" {
		return target{}, errors.New(`database in memory: its readers and its writer would not see each other; name a file, as in sqlite:weir.db`)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return target{}, fmt.Errorf("database sqlite:%s: %w", path, err)
	}
	return target{dialect: SQLite, path: abs, params: params}, nil
}

func parsePostgres(dsn string) (target, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Opaque != "" || !strings.Contains(dsn, "://") {
		return target{}, fmt.Errorf("database %q: not a URL: %s", redact(dsn), dsnForms)
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, fmt.Errorf("database %q: its parameters cannot be read: separate them by &, and write %% as %%25", redact(dsn))
	}
	schema := q.Get("schema")
	if schema != "" && !schemaName.MatchString(schema) {
		return target{}, fmt.Errorf("database: schema %q: use lower-case letters, digits and _, as in ?schema=weir", schema)
	}
	q.Del("schema")
	// Without it a statement with arguments takes two round trips, which a
	// pooler may send to two servers.
	q.Set("binary_parameters", "yes")
	if q.Get("connect_timeout") == "" {
		q.Set("connect_timeout", "10")
	}
	u.RawQuery = q.Encode()
	return target{dialect: Postgres, dsn: u.String(), shown: redact(dsn), schema: schema}, nil
}

// sqliteURI is the driver's name for the file: settings are in the URI and so
// hold on every connection of a pool, also on those made later.
func (t target) sqliteURI(write bool) string {
	q := url.Values{}
	for k, v := range t.params {
		q[k] = append([]string(nil), v...)
	}
	pragma := func(name, value string) {
		if q.Has("_" + name) { // the driver's other way to say it
			return
		}
		for _, p := range q["_pragma"] {
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(p)), name) {
				return
			}
		}
		q.Add("_pragma", name+"("+value+")")
	}
	pragma("busy_timeout", "10000")
	pragma("journal_mode", "wal")
	pragma("synchronous", "full")
	pragma("foreign_keys", "1")
	pragma("cache_size", "-32000")
	if write {
		pragma("wal_autocheckpoint", "1000")
		pragma("journal_size_limit", "8388608")
	} else {
		pragma("query_only", "1")
	}
	q.Set("_txlock", "immediate")
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(t.path), RawQuery: q.Encode()}
	return u.String()
}

// redact hides the passwords of a DSN in a message. Of one that is no URL it
// shows nothing that may be one.
func redact(dsn string) string {
	u, err := url.Parse(dsn)
	if err == nil && u.Scheme != "" && u.Opaque == "" {
		// Parameters that cannot be read are not shown either.
		q, err := url.ParseQuery(u.RawQuery)
		if err != nil {
			q = nil
		}
		for name := range q {
			if strings.Contains(strings.ToLower(name), "password") {
				q.Set(name, "xxxxx")
			}
		}
		u.RawQuery = q.Encode()
		return u.Redacted()
	}
	if scheme, _, ok := strings.Cut(dsn, "://"); ok {
		return scheme + "://..."
	}
	if strings.ContainsAny(dsn, "@=") {
		return "..."
	}
	return dsn
}
