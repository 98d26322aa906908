package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/google/uuid"
)

var errNotUUID = errors.New(`not a UUID: write one as in "018f2f5e-0000-7000-8000-000000000000"`)

// UUID returns a job's id in its one canonical form: 36 characters, lower
// case. Other ways to write a UUID are refused, and so is the nil UUID.
func UUID(id string) (string, error) {
	if len(id) != 36 {
		return "", errNotUUID
	}
	parsed, err := uuid.Parse(id)
	if err != nil {
		return "", errNotUUID
	}
	if parsed == uuid.Nil {
		return "", errors.New("the nil UUID names nothing")
	}
	return strings.ToLower(id), nil
}

var errNotCursor = errors.New(`not a cursor of this list: pass "next" of the page before as it is`)

// A cursor is the row id that the next page comes before, behind the letter of
// the list it belongs to. It is encoded so that nobody computes with it.

// Cursor returns the cursor behind a row of a list.
func Cursor(list byte, id int64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint([]byte{list}, uint64(id))) //nolint:gosec // ids are positive
}

// ParseCursor reads a cursor of that list; the empty one is the beginning.
func ParseCursor(list byte, cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) < 2 || b[0] != list {
		return 0, errNotCursor
	}
	n, _ := binary.Uvarint(b[1:])
	id := int64(n) //nolint:gosec // what does not fit does not lead back to the cursor
	if id < 1 || Cursor(list, id) != cursor {
		return 0, errNotCursor
	}
	return id, nil
}

// Place returns the cursor behind a place in a list that is in the order of a
// time, and of ids within it.
func Place(list byte, at, id int64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendVarint(binary.AppendVarint([]byte{list}, at), id))
}

// ParsePlace reads such a cursor of that list; the empty one is the beginning.
func ParsePlace(list byte, cursor string) (at, id int64, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && len(b) > 1 && b[0] == list {
		var n int
		if at, n = binary.Varint(b[1:]); n > 0 {
			id, _ = binary.Varint(b[1+n:])
		}
	}
	if Place(list, at, id) != cursor || id == 0 && at == 0 {
		return 0, 0, errNotCursor
	}
	return at, id, nil
}
