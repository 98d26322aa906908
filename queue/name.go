package queue

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// MaxName is how many bytes a name may have: of a task, a queue, a limit, and
// a unique key.
const MaxName = 255

// CheckName refuses a name that not every database, page and message could
// carry unchanged, with an [InvalidError]: it must be UTF-8, 1 to 255 bytes,
// without control characters. kind says whose name it is: "task", "queue".
//
// Names are compared byte by byte: case, blanks and composed characters all
// make a difference.
func CheckName(kind, name string) error {
	if problem := nameProblem(name); problem != "" {
		return &InvalidError{Field: kind, Value: quote(name), Problem: problem}
	}
	return nil
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("it is empty: use 1 to %d bytes", MaxName)
	case len(name) > MaxName:
		return fmt.Sprintf("it has %d bytes: use 1 to %d", len(name), MaxName)
	}
	return textProblem(name)
}

// textProblem is what keeps a line of text from being stored and shown as it is.
func textProblem(text string) string {
	if !utf8.ValidString(text) {
		return "it is not UTF-8: encode it so"
	}
	for i, r := range text {
		if unicode.IsControl(r) {
			return fmt.Sprintf("it has the control character %U at byte %d: leave it out", r, i)
		}
	}
	return ""
}

// quote shows a text that may hold anything in a message.
func quote(s string) string {
	const shown = 80
	if len(s) <= shown {
		return strconv.Quote(s)
	}
	cut := shown
	for cut > shown-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}
