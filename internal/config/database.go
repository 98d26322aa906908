package config

import (
	"net/url"
	"path/filepath"
	"strings"
)

const databaseForms = "sqlite:PATH or postgres://USER@HOST/NAME"

// database reads where the database is. A relative path counts from the
// file's folder.
func (s *section) database(dir string) string {
	dsn, n, ok := s.text("database", databaseForms)
	if !ok {
		return ""
	}
	resolved, problem, mend := resolveDSN(dsn, dir)
	if problem != "" {
		s.fault(BadDatabase, n.position, join(s.path, "database"), "database "+quote(withoutPassword(dsn))+": "+problem, mend)
		return ""
	}
	return resolved
}

// resolveDSN checks the form of a DSN. What is behind it is seen when it is
// opened.
func resolveDSN(dsn, dir string) (resolved, problem, mend string) {
	const use = "use " + databaseForms
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case !ok || rest == "":
		return "", "no such form", use
	case scheme == "postgres" || scheme == "postgresql":
		if u, err := url.Parse(dsn); err != nil || !strings.HasPrefix(rest, "//") || u.Opaque != "" {
			return "", "not a URL", use
		}
		return dsn, "", ""
	case scheme != "sqlite":
		return "", "unknown kind " + quote(scheme), use
	}
	path, params := rest, ""
	// Parameters are what follows the last question mark, if it reads as such:
	// a file may have one in its name.
	if i := strings.LastIndexByte(rest, '?'); i >= 0 && strings.Contains(rest[i:], "=") {
		path, params = rest[:i], rest[i:]
	}
	if uri, ok := strings.CutPrefix(path, "file:"); ok {
		var err error
		if path, err = url.PathUnescape(uri); err != nil {
			return "", "not a URI", use
		}
	}
	path = strings.TrimPrefix(path, "//")
	values, err := url.ParseQuery(strings.TrimPrefix(params, "?"))
	if err != nil {
		return "", "its parameters cannot be read", "separate them by &, and write % as %25"
	}
	if path == "" || strings.Contains(path, ":memory:") || values.Get("mode") == "memory" {
		return "", "a database in memory would be gone with its first connection", "name a file, as in sqlite:weir.db"
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, filepath.FromSlash(path))
	}
	return "sqlite:" + path + params, "", ""
}

// withoutPassword makes a DSN fit for a message: of one that is no plain URL
// it shows nothing that may be a password.
func withoutPassword(dsn string) string {
	scheme, _, isURL := strings.Cut(dsn, "://")
	u, err := url.Parse(dsn)
	switch {
	case !strings.ContainsAny(dsn, "@=") || strings.HasPrefix(dsn, "sqlite:"):
		return dsn
	case err == nil && isURL && u.RawQuery == "":
		return u.Redacted()
	case isURL:
		return scheme + "://..."
	}
	return "..."
}
