package target

import (
	"strings"
	"unicode/utf8"
)

// kept is how much of a command's output is kept: the end of it, in bytes.
const kept = 2 << 10

// tail is a writer that keeps the end of what is written to it.
type tail struct {
	buf []byte
	cut bool // there was more before
}

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > kept {
		p, t.cut = p[len(p)-kept:], true
		t.buf = t.buf[:0]
	}
	if over := len(t.buf) + len(p) - kept; over > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[over:]...), true
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// text is the end as valid UTF-8 without NUL, of at most kept bytes.
func (t *tail) text() string {
	buf := t.buf
	if t.cut { // perhaps in the middle of a character
		for n := 0; n < utf8.UTFMax-1 && len(buf) > 0 && !utf8.RuneStart(buf[0]); n++ {
			buf = buf[1:]
		}
	}
	s := strings.ToValidUTF8(strings.ReplaceAll(string(buf), "\x00", "\uFFFD"), "\uFFFD")
	for len(s) > kept { // what was invalid got longer
		_, size := utf8.DecodeRuneInString(s)
		s = s[max(size, len(s)-kept-utf8.UTFMax):]
		for s != "" && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	return s
}
