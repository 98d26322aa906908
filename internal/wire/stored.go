package wire

import (
	"database/sql"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Time is a stored time: microseconds since 1970.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// NullTime is a stored time that may be missing: then it is the zero time.
func NullTime(micros sql.NullInt64) time.Time {
	if !micros.Valid {
		return time.Time{}
	}
	return Time(micros.Int64)
}

// NullDuration is a stored duration that may be missing: then it is 0.
func NullDuration(micros sql.NullInt64) time.Duration {
	return time.Duration(micros.Int64) * time.Microsecond
}

// NullInt is a stored number that may be missing: then it is nil.
func NullInt(n sql.NullInt64) *int {
	if !n.Valid {
		return nil
	}
	v := int(n.Int64)
	return &v
}

// JSON returns bytes that can stand in a JSON document as they are, and nil
// for all others: a document with them would not be one.
func JSON(b []byte) json.RawMessage {
	if len(b) == 0 || !utf8.Valid(b) || !json.Valid(b) {
		return nil
	}
	return b
}

// Args splits stored arguments into what a document can show, and the size of
// those it cannot, because they are not JSON or were left out.
func Args(args []byte, size int64) (shown json.RawMessage, hidden int64) {
	if shown = JSON(args); shown != nil {
		return shown, 0
	}
	return nil, size
}
