package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// document prints one JSON document.
func (a *app) document(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// list is what a list without pages looks like in JSON.
type list[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next"`
}

// table prints rows under a header, aligned. Without rows it says so.
func (a *app) table(what string, header []string, rows [][]string) {
	if len(rows) == 0 {
		fmt.Fprintf(a.out, "no %s\n", what)
		return
	}
	rows = append([][]string{header}, rows...)
	widths := make([]int, len(header))
	for _, row := range rows {
		for i := range row {
			row[i] = cell(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			line.WriteString(text)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
		}
		fmt.Fprintln(a.out, strings.TrimRight(line.String(), " "))
	}
}

// again is a command as it is typed for the same database.
func (a *app) again(command string) string {
	text := "weir " + command
	if len(a.files) == 1 {
		text += " -c " + shellWord(a.files[0])
	}
	if a.database != "" {
		text += " --database " + shellWord(withoutPassword(a.database))
	}
	return text
}

// withoutPassword leaves out what a screen should not show.
func withoutPassword(dsn string) string {
	if u, err := url.Parse(dsn); err == nil && u.User != nil {
		return u.Redacted()
	}
	return dsn
}

// shellWord quotes what a shell would take apart.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/.:_-@%+=,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// more tells how to see what follows a page.
func (a *app) more(next string) {
	if next != "" {
		fmt.Fprintf(a.out, "\nmore: add --cursor %s\n", next)
	}
}

// fields prints names and values, a line each.
func (a *app) fields(pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	for _, p := range pairs {
		if p[1] != "" {
			// What has several lines stands below its first one.
			text := strings.ReplaceAll(printable(p[1]), "\n", "\n"+strings.Repeat(" ", width+2))
			fmt.Fprintf(a.out, "%-*s  %s\n", width, p[0], text)
		}
	}
}

// widest is how much of a text a table shows.
const widest = 60

// cell makes a text fit for a table: one line of it, not too long.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	head, rest, _ := strings.Cut(s, "\n")
	head = printable(head)
	if utf8.RuneCountInString(head) > widest {
		head = string([]rune(head)[:widest-3]) + "..."
	} else if rest != "" {
		head += " ..."
	}
	return head
}

// printable shows control characters instead of sending them to a terminal:
// names, arguments and errors come from anywhere.
func printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			fmt.Fprintf(&b, "\\x%02x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}

// ago says how far a time is from now; "-" for none.
func (a *app) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := a.clock.Now().Sub(t)
	switch {
	case d >= 0 && d < time.Second:
		return "now"
	case d > 0:
		return span(d) + " ago"
	}
	return "in " + span(-d)
}

// at says when something was or will be, in full.
func (a *app) at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC") + " (" + a.ago(t) + ")"
}

// span writes a duration in its two greatest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/day)
}

// count writes a number of things: "1 job", "20 jobs".
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// number writes a whole number.
func number[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// capped writes a count that may be a lower bound.
func capped(n int64, more bool) string {
	if more {
		return fmt.Sprintf("%d+", n)
	}
	return number(n)
}

// yes says so where something is; otherwise nothing.
func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}
