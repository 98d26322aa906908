package store

import (
	"fmt"
	"net/url"
	"os"
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
	query   string // SQLite: its parameters, as they were written
	params  url.Values
	dsn     string // PostgreSQL: what lib/pq gets
	shown   string // PostgreSQL: what was given, for messages
	schema  string // PostgreSQL: "" is the server's search path
}

// A DSNError says what is wrong with a DSN, and how to mend it.
type DSNError struct {
	DSN     string // as RedactDSN shows it
	Problem string
	Mend    string
}

// Error is such as:
//
//	database "mysql://root:xxxxx@h/d": unknown kind "mysql": use sqlite:PATH or postgres://USER@HOST/NAME
func (e *DSNError) Error() string {
	return fmt.Sprintf("database %q: %s: %s", e.DSN, e.Problem, e.Mend)
}

const (
	useForms  = `use sqlite:PATH or postgres://USER@HOST/NAME`
	useEscape = `separate them by &, and write % as %25`
)

var (
	kindName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

// ResolveDSN checks the form of a DSN and makes a relative path of SQLite
// absolute, counted from dir. What is behind it is seen when it is opened. An
// error is a [*DSNError].
func ResolveDSN(dsn, dir string) (string, error) {
	t, err := readDSN(dsn)
	if err != nil || t.dialect != SQLite {
		return dsn, err
	}
	path := filepath.FromSlash(t.path)
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	query := ""
	if t.query != "" {
		query = "?" + t.query
	}
	resolved := "sqlite:" + path + query
	if again, err := readDSN(resolved); err != nil || again.path != path {
		// Part of the name would be taken for parameters.
		resolved = "sqlite:file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + query
	}
	return resolved, nil
}

// MissingFolder is the folder of a SQLite database that is not there; "" where
// it is, or for another database.
func MissingFolder(dsn string) string {
	t, err := parseDSN(dsn)
	if err != nil || t.dialect != SQLite {
		return ""
	}
	return t.missingFolder()
}

func (t target) missingFolder() string {
	folder := filepath.Dir(t.path)
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		return ""
	}
	return folder
}

// parseDSN reads a DSN. A relative path counts from where the process is.
func parseDSN(dsn string) (target, error) {
	t, err := readDSN(dsn)
	if err != nil || t.dialect != SQLite {
		return t, err
	}
	if t.path, err = filepath.Abs(t.path); err != nil {
		return target{}, fmt.Errorf("database %q: %w", RedactDSN(dsn), err)
	}
	return t, nil
}

// readDSN reads `sqlite:PATH[?PARAMETERS]` and `postgres://...[?schema=NAME]`,
// where several hosts may be named: `postgres://USER@a:5432,b:5432/NAME`.
func readDSN(dsn string) (target, error) {
	var t target
	var problem, mend string
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case !ok || rest == "" || !kindName.MatchString(scheme):
		problem, mend = "no such form", useForms
	case scheme == "sqlite":
		t, problem, mend = readSQLite(rest)
	case scheme == "postgres" || scheme == "postgresql":
		t, problem, mend = readPostgres(dsn)
	default:
		problem, mend = fmt.Sprintf("unknown kind %q", scheme), useForms
	}
	if problem != "" {
		return target{}, &DSNError{RedactDSN(dsn), problem, mend}
	}
	return t, nil
}

func readSQLite(rest string) (t target, problem, mend string) {
	path, query := rest, ""
	// A parameter list is what follows the last '?', if it reads as one: a
	// file may have a question mark in its name.
	if i := strings.LastIndexByte(rest, '?'); i >= 0 && strings.Contains(rest[i:], "=") {
		path, query = rest[:i], rest[i+1:]
	}
	if uri, ok := strings.CutPrefix(path, "file:"); ok {
		var err error
		if path, err = url.PathUnescape(uri); err != nil {
			return target{}, "not a URI", "write % as %25"
		}
	}
	path = strings.TrimPrefix(path, "//")
	params, err := url.ParseQuery(query)
	switch {
	case err != nil:
		return target{}, "its parameters cannot be read", useEscape
	case path == "":
		return target{}, "no file", "name one, as in sqlite:weir.db"
	case strings.Contains(path, ":memory:") || params.Get("mode") == "memory":
		return target{}, "in memory its readers and its writer would not see each other", "name a file, as in sqlite:weir.db"
	}
	if problem, mend = checkSQLiteParams(params); problem != "" {
		return target{}, problem, mend
	}
	return target{dialect: SQLite, path: path, query: query, params: params}, "", ""
}

func readPostgres(dsn string) (t target, problem, mend string) {
	u, err := parseURL(dsn)
	if err != nil || u.Opaque != "" || !strings.Contains(dsn, "://") {
		return target{}, "not a URL", useForms
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return target{}, "its parameters cannot be read", useEscape
	}
	schema := q.Get("schema")
	switch {
	case schema == "" && q.Has("schema"):
		return target{}, "schema is empty", "name one, as in ?schema=weir, or leave it out"
	case schema != "" && !schemaName.MatchString(schema):
		return target{}, fmt.Sprintf("schema %q", schema), "use lower-case letters, digits and _, as in ?schema=weir"
	case strings.HasPrefix(schema, "pg_") || schema == "information_schema":
		return target{}, fmt.Sprintf("schema %q is the server's own", schema), "use another name, as in ?schema=weir"
	}
	q.Del("schema")
	// Without it a statement with arguments takes two round trips, which a
	// pooler may send to two servers.
	q.Set("binary_parameters", "yes")
	nameHosts(u, q)
	if q.Get("connect_timeout") == "" {
		q.Set("connect_timeout", "10")
	}
	u.RawQuery = q.Encode()
	if problem, mend = checkPostgresParams(u.String()); problem != "" {
		return target{}, problem, mend
	}
	return target{dialect: Postgres, dsn: u.String(), shown: RedactDSN(dsn), schema: schema}, "", ""
}

// nameHosts puts a list of hosts where lib/pq takes one: among the parameters.
// Of several, only the primary can be written to, and one that is gone without a
// word must not keep the next one waiting.
func nameHosts(u *url.URL, q url.Values) {
	if hosts := hostList(u.Host); len(hosts) > 1 {
		names, ports := make([]string, len(hosts)), make([]string, len(hosts))
		for i, h := range hosts {
			names[i], ports[i] = h.Hostname(), h.Port()
		}
		q.Set("host", strings.Join(names, ","))
		if p := strings.Join(ports, ","); strings.Trim(p, ",") != "" {
			q.Set("port", p)
		}
		u.Host = ""
	}
	if !strings.Contains(q.Get("host")+q.Get("hostaddr"), ",") {
		return
	}
	for name, value := range map[string]string{"target_session_attrs": "read-write", "connect_timeout": "3"} {
		if q.Get(name) == "" {
			q.Set(name, value)
		}
	}
}

// parseURL is url.Parse, which takes no list of hosts: h:1,h:2.
func parseURL(dsn string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	end := strings.IndexAny(rest+"/", "/?#")
	begin := strings.LastIndexByte(rest[:end], '@') + 1
	hosts := rest[begin:end]
	if !ok || !strings.Contains(hosts, ",") {
		return url.Parse(dsn)
	}
	if hostList(hosts) == nil {
		return nil, fmt.Errorf("hosts %q cannot be read", hosts)
	}
	u, err := url.Parse(scheme + "://" + rest[:begin] + rest[end:])
	if err == nil {
		u.Host = hosts
	}
	return u, err
}

// hostList reads HOST[:PORT],HOST[:PORT]; nil where it is none.
func hostList(text string) (hosts []*url.URL) {
	for item := range strings.SplitSeq(text, ",") {
		u, err := url.Parse("//" + item)
		if err != nil || u.Host != item {
			return nil
		}
		hosts = append(hosts, u)
	}
	return hosts
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

// RedactDSN hides the passwords of a DSN in a message. Of one that is neither a
// URL nor a file it shows nothing that may be one.
func RedactDSN(dsn string) string {
	u, err := parseURL(dsn)
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
	if strings.HasPrefix(dsn, "sqlite:") {
		return dsn // files have none
	}
	if scheme, _, ok := strings.Cut(dsn, "://"); ok {
		return scheme + "://..."
	}
	if strings.ContainsAny(dsn, "@=") {
		return "..."
	}
	return dsn
}
