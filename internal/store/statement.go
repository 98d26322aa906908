package store

import (
	"regexp"
	"strings"
)

// statement is one question in both dialects. Where they agree, sqlite is
// empty. Parameters are $1, $2, ... in both; JSON documents and arrays carry
// sets, so that a statement's text never depends on how many rows it is for.
type statement struct {
	postgres string
	sqlite   string
	lasting  bool // see lasting.go
}

// pgNow is the database's clock in microseconds, read when it is evaluated.
const pgNow = `(extract(epoch from clock_timestamp()) * 1000000)::bigint`

// tables are Weir's own, but for the one that goose keeps.
var tables = []string{
	"weir_jobs", "weir_history", "weir_dead", "weir_limits", "weir_tasks", "weir_queues", "weir_gates", "weir_schedules",
	"weir_dead_counts", "weir_dead_hours", "weir_dead_removed", "weir_audit",
	"weir_settings", "weir_processes",
}

var (
	tableName = regexp.MustCompile(`\b(` + strings.Join(tables, "|") + `)\b`)
	parameter = regexp.MustCompile(`\$(\d+)`)
)

// text is the statement for this store: PostgreSQL's tables are qualified, so
// that it means the same whatever the search path of the caller's own
// connection is.
func (s *Store) text(st *statement) string {
	if cached, ok := s.texts.Load(st); ok {
		return cached.(string) //nolint:forcetypeassert // only strings are stored
	}
	text := st.postgres
	if s.target.dialect == SQLite {
		if st.sqlite != "" {
			text = st.sqlite
		}
		text = parameter.ReplaceAllString(text, "?$1")
	} else {
		text = s.qualify(text)
	}
	text = strings.TrimSpace(text)
	if st.lasting {
		s.lasting.Store(text, nil)
		s.lasting.Store(strings.Replace(text, onConflict, "", 1), nil) // as moving has it
	}
	s.texts.Store(st, text)
	return text
}

// moving is the text of a statement that moves jobs to another table. To look out
// for rows that already stand there costs PostgreSQL a third of the move, so it
// is done only in a transaction that has met one, and is tried again.
func (s *Store) moving(t *tx, st *statement) string {
	text := s.text(st)
	if t.wary || s.target.dialect == SQLite {
		return text
	}
	return strings.Replace(text, onConflict, "", 1)
}

const onConflict = ` on conflict do nothing`

func (s *Store) qualify(text string) string {
	if s.target.schema == "" {
		return text
	}
	return tableName.ReplaceAllString(text, `"`+s.target.schema+`".$0`)
}
