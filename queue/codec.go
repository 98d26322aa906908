package queue

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
)

// Encode turns a task's arguments into the bytes that are stored.
//
// Arguments are JSON, except where Args is [json.RawMessage], []byte, or a type
// made of []byte that has no JSON or text form of its own: those are stored
// byte for byte, whatever they hold, and nil is stored as no bytes. As always
// in JSON, a string that is not UTF-8 is changed: use bytes for such.
func Encode[Args any](args Args) ([]byte, error) {
	if isRaw[Args]() {
		return reflect.ValueOf(args).Bytes(), nil
	}
	b, err := json.Marshal(args)
	if err != nil {
		return nil, &InvalidError{Field: "args", Value: fmt.Sprintf("of type %T", args), Problem: "no JSON form: " + err.Error(), kind: err}
	}
	return b, nil
}

// Decode turns stored bytes back into a task's arguments. No bytes at all are
// the zero value: a job enqueued without arguments suits every type. Members
// that Args does not have are passed over, so that producers may be newer than
// handlers.
func Decode[Args any](b []byte) (Args, error) {
	var args Args
	if isRaw[Args]() {
		reflect.ValueOf(&args).Elem().SetBytes(append([]byte{}, b...))
		return args, nil
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(b, &args); err != nil {
		var zero Args
		return zero, fmt.Errorf("decode arguments into %T: %w", zero, err)
	}
	return args, nil
}

var (
	rawMessage = reflect.TypeFor[json.RawMessage]()
	ownForms   = []reflect.Type{
		reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
		reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
	}
)

// isRaw tells types that are bytes from those that have a JSON form.
func isRaw[Args any]() bool {
	t := reflect.TypeFor[Args]()
	if t.Kind() != reflect.Slice || t.Elem().Kind() != reflect.Uint8 {
		return false
	}
	if t == rawMessage {
		return true
	}
	for _, form := range ownForms {
		if reflect.PointerTo(t).Implements(form) {
			return false
		}
	}
	return true
}
