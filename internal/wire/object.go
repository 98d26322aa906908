package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// timeFormat is RFC 3339 with all six digits of the microsecond, so that times
// sort as text.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// Object writes a struct as a JSON object, by its json tags, as encoding/json
// does but for three things: a zero time.Time is null and any other, also in a
// list, has six digits and is in UTC; a time.Duration is a text such as "30s", and null when
// zero; a zero field tagged `wire:"null"` is null.
func Object(v any) ([]byte, error) {
	val := reflect.ValueOf(v)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // whoever asked for this object decides that
	out.WriteByte('{')
	for i := range val.NumField() {
		name, options, _ := strings.Cut(val.Type().Field(i).Tag.Get("json"), ",")
		field := val.Field(i)
		if name == "-" || name == "" || options == "omitzero" && field.IsZero() {
			continue
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:", name)
		if err := enc.Encode(value(field, val.Type().Field(i).Tag.Get("wire"))); err != nil {
			return nil, fmt.Errorf("encode %q: %w", name, err)
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func value(field reflect.Value, option string) any {
	if option == "null" && field.IsZero() {
		return nil
	}
	switch v := field.Interface().(type) {
	case time.Time:
		if v.IsZero() {
			return nil
		}
		return v.UTC().Format(timeFormat)
	case []time.Time:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = v[i].UTC().Format(timeFormat)
		}
		return texts
	case time.Duration:
		if v == 0 {
			return nil
		}
		return v.String()
	default:
		return v
	}
}

// Page writes a list and the cursor to what follows it: null at the end.
func Page[T any](items []T, next string) ([]byte, error) {
	if items == nil {
		items = []T{}
	}
	return Object(struct {
		Items []T    `json:"items"`
		Next  string `json:"next" wire:"null"`
	}{items, next})
}
