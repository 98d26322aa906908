package config

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// sameBut folds case: names that are equal then differ only by it.
func sameBut(name string) string { return strings.ToLower(strings.ToUpper(name)) }

// plain folds case, and drops the accents of Latin and Greek letters.
func plain(name string) string {
	var b strings.Builder
	letter := false // the last base was one whose accents are dropped
	for _, c := range norm.NFD.String(name) {
		if unicode.Is(unicode.Mn, c) {
			if !letter {
				b.WriteRune(c)
			}
			continue
		}
		letter = unicode.In(c, unicode.Latin, unicode.Greek)
		b.WriteRune(c)
	}
	return sameBut(b.String())
}

// tellApart refuses limits of a file whose names differ only by case: people, and
// databases elsewhere, would take one for the other.
func (r *reader) tellApart(f *File) {
	if !r.windows {
		return
	}
	seen := map[string]Budget{}
	for _, b := range f.Budgets() {
		if other, there := seen[sameBut(b.Name)]; there && other.Name != b.Name {
			r.fault(SameButCase, position{b.Place.Line, b.Place.Column}, b.Place.Key,
				fmt.Sprintf("limits %s and %s differ only by case", quote(other.Name), quote(b.Name)), "name them apart")
			continue
		}
		seen[sameBut(b.Name)] = b
	}
}

// alikeNames warns of limits of a file whose names differ only by accents, or by
// case and accents.
func (f *File) alikeNames() []Finding {
	var out []Finding
	seen := map[string]Budget{}
	for _, b := range f.Budgets() {
		if !b.Windowed() {
			continue
		}
		if other, there := seen[plain(b.Name)]; there {
			out = append(out, alike(other, b))
			continue
		}
		seen[plain(b.Name)] = b
	}
	return out
}

func alike(first, b Budget) Finding {
	return Finding{
		Code: AlikeNames, Place: b.Place,
		Message: fmt.Sprintf("limits %s and %s (%s) differ only by case or accents: each is counted by itself", quote(b.Name), quote(first.Name), first.Place),
		Mend:    "spell the name the same way everywhere if one is meant, else name them apart",
	}
}
