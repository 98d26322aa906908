package store

import (
	"errors"
	"net"
	"syscall"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"
	"github.com/pressly/goose/v3"
)

// A MendError is an error of the database together with what to do about it.
type MendError struct {
	Mend string

	err error
}

// Error is the database's error and the mend.
func (e *MendError) Error() string { return e.err.Error() + ": " + e.Mend }

// Unwrap is the database's error.
func (e *MendError) Unwrap() error { return e.err }

// Mended says beside an error of the database what to do about it, where the
// database itself does not and something can be said.
func Mended(err error) error {
	if _, has := errors.AsType[*MendError](err); has {
		return err
	}
	if mend := mendOf(err); mend != "" {
		return &MendError{mend, err}
	}
	return err
}

func mendOf(err error) string {
	if code, ok := sqliteCode(err); ok {
		return sqliteMends[code&0xff]
	}
	if pe, ok := errors.AsType[*pq.Error](err); ok {
		return postgresMends[pe.Code]
	}
	var timeout net.Error
	var dns *net.DNSError
	switch {
	case errors.Is(err, pq.ErrSSLNotSupported):
		return "where the way to the server is safe without it, add ?sslmode=disable (&sslmode=disable behind another parameter)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start the server, or correct its host and port"
	case errors.As(err, &dns):
		return "correct the name of the host"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not answer: look at the server, the network in between, and the host and port"
	case errors.Is(err, goose.ErrNoNextVersion):
		return "no version of the schema is applied: `weir migrate up` applies them"
	}
	return ""
}

var sqliteMends = map[int]string{
	8:  "let this user write the file and its folder",                                                     // SQLITE_READONLY
	10: "look at the disk, and at the system's log",                                                       // SQLITE_IOERR
	11: "it was damaged: take a backup, or what `sqlite3 FILE .recover` can still read",                   // SQLITE_CORRUPT
	13: "make room on the disk",                                                                           // SQLITE_FULL
	14: "name a file, not a folder, that this user may read and write",                                    // SQLITE_CANTOPEN
	26: "it is a file of another kind: name one of SQLite's, or one that is not there yet, as in weir.db", // SQLITE_NOTADB
}

var postgresMends = map[pqerror.Code]string{
	"28P01": "correct the user or the password, as in postgres://USER:PASSWORD@HOST/NAME", // invalid_password
	"28000": "correct the user, or let it in (pg_hba.conf)",                               // invalid_authorization_specification
	"3D000": "create it, as with createdb, or correct its name",                           // invalid_catalog_name
	"42501": "grant it to the user, or name a schema of its own, as in ?schema=weir",      // insufficient_privilege
	"42704": "correct the parameters behind the ?",                                        // undefined_object
	"53300": "close other connections, or raise max_connections of the server",            // too_many_connections
	"25006": "name the primary, not a standby",                                            // read_only_sql_transaction
}
