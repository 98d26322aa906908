package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirq/weir/queue"
)

// json reads a value of any kind as JSON: keys in the order of the file, numbers
// as they are written.
func (s *section) json(key, want string) []byte {
	n, ok := s.value(key, want)
	if !ok {
		return nil
	}
	w := jsonWriter{reader: s.reader}
	w.write(n, join(s.path, key))
	if w.full() {
		s.fault(TooBig, n.position, join(s.path, key), fmt.Sprintf("more than %d bytes of JSON", queue.DefaultMaxArgs), "store it elsewhere, and give its name")
		return nil
	}
	return w.out.Bytes()
}

// jsonWriter writes nodes as JSON. An alias can stand for a great many of them,
// so it stops where no job could hold more.
type jsonWriter struct {
	*reader

	out bytes.Buffer
}

func (w *jsonWriter) full() bool { return w.out.Len() > queue.DefaultMaxArgs }

func (w *jsonWriter) write(n *node, path string) {
	switch {
	case w.full():
	case n.kind == absent:
		w.out.WriteString("null")
	case n.kind == boolean:
		w.out.WriteString(strings.ToLower(n.value))
	case n.kind == number && json.Valid([]byte(n.value)):
		w.out.WriteString(n.value)
	case n.kind == number:
		w.fault(BadNumber, n.position, path, quote(n.value)+" is no number in JSON", "write it in plain digits, or in quotes if it is a text")
	case n.kind == list:
		w.out.WriteByte('[')
		for i, item := range n.items {
			w.comma(i)
			w.write(item, fmt.Sprintf("%s[%d]", path, i))
		}
		w.out.WriteByte(']')
	case n.kind == mapping:
		w.out.WriteByte('{')
		for i, e := range n.entries {
			w.comma(i)
			w.text(e.key)
			w.out.WriteByte(':')
			w.write(e.of, join(path, e.key))
		}
		w.out.WriteByte('}')
	default:
		w.text(n.value)
	}
}

func (w *jsonWriter) comma(i int) {
	if i > 0 {
		w.out.WriteByte(',')
	}
}

func (w *jsonWriter) text(s string) {
	enc := json.NewEncoder(&w.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)               //nolint:errchkjson // a text always encodes
	w.out.Truncate(w.out.Len() - 1) // the newline
}
