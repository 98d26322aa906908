package config

import (
	"errors"

	"github.com/weirq/weir/internal/store"
)

// database reads where the database is. A relative path counts from the
// file's folder.
func (s *section) database(dir string) (string, Place) {
	dsn, n, ok := s.text("database", "sqlite:PATH or postgres://USER@HOST/NAME")
	if !ok {
		return "", Place{}
	}
	resolved, err := store.ResolveDSN(dsn, dir)
	if fault, ok := errors.AsType[*store.DSNError](err); ok {
		s.add(BadDatabase, n.position, join(s.path, "database"), "database "+quote(fault.DSN)+": "+fault.Problem, fault.Mend, err)
		return "", Place{}
	}
	return resolved, s.place(n.position, "database")
}
