package store

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/lib/pq"
)

// errEncode is returned for what has no binary form.
var errEncode = errors.New("encode an array")

// array is a set as one parameter of PostgreSQL's. Weir's own connections send it
// in the server's binary form, which costs both sides a fraction of the text; those
// of callers, which may be set up otherwise or be another driver's, in text.
type array[T any] struct {
	elements []T
	of       uint32 // the object id of the elements' type, as in pg_type
	put      func(b []byte, element T) ([]byte, error)
}

func arrayOf[T any](elements []T, of uint32, put func([]byte, T) []byte) array[T] {
	return array[T]{elements, of, func(b []byte, e T) ([]byte, error) { return put(b, e), nil }}
}

func bools(elements []bool) array[bool] {
	return arrayOf(elements, 16, func(b []byte, e bool) []byte {
		if e {
			return append(b, 1)
		}
		return append(b, 0)
	})
}

func byteas(elements [][]byte) array[[]byte] {
	return arrayOf(elements, 17, func(b, e []byte) []byte { return append(b, e...) })
}

func bigints(elements []int64) array[int64] {
	return arrayOf(elements, 20, func(b []byte, e int64) []byte {
		return binary.BigEndian.AppendUint64(b, uint64(e)) //nolint:gosec // the same bits
	})
}

func integers(elements []int32) array[int32] {
	return arrayOf(elements, 23, func(b []byte, e int32) []byte {
		return binary.BigEndian.AppendUint32(b, uint32(e)) //nolint:gosec // the same bits
	})
}

func texts(elements []string) array[string] {
	return arrayOf(elements, 25, func(b []byte, e string) []byte { return append(b, e...) })
}

// uuids takes what uuid.Parse does.
func uuids(elements []string) array[string] {
	return array[string]{elements, 2950, func(b []byte, e string) ([]byte, error) {
		id, err := uuid.Parse(e)
		return append(b, id[:]...), err
	}}
}

// Value is the text, which every driver asks for, and lib/pq where it sends none but texts.
func (a array[T]) Value() (driver.Value, error) {
	return pq.Array(a.elements).Value() //nolint:wrapcheck // it does not fail
}

// BinaryValue is what lib/pq asks for on connections with binary_parameters: the
// form of the server's array_recv.
func (a array[T]) BinaryValue() ([]byte, error) {
	b := make([]byte, 0, 20+len(a.elements)*24)
	put := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) } //nolint:gosec // a thousand elements, four MiB or one job
	if len(a.elements) == 0 {
		put(0) // dimensions
	} else {
		put(1)
	}
	put(0) // no null among them
	b = binary.BigEndian.AppendUint32(b, a.of)
	if len(a.elements) == 0 {
		return b, nil
	}
	put(len(a.elements))
	put(1) // the first one's index
	for _, e := range a.elements {
		at := len(b)
		put(0)
		var err error
		if b, err = a.put(b, e); err != nil {
			return nil, fmt.Errorf("%w: %w", errEncode, err)
		}
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4)) //nolint:gosec // four MiB at most
	}
	return b, nil
}
