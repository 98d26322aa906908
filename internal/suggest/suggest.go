// Package suggest finds the word that was probably meant.
package suggest

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest is the known word that was probably meant; "" where none is near.
func Nearest(word string, known []string) string {
	best, nearest := "", len(word)
	for _, k := range known {
		if d := distance(word, k); d < nearest {
			best, nearest = k, d
		}
	}
	if nearest <= max(1, len(best)/3) {
		return best
	}
	return ""
}

// DidYouMean proposes the known key that was probably meant, or lists all.
func DidYouMean(key string, known []string) string {
	if near := Nearest(strings.ToLower(strings.ReplaceAll(key, "-", "_")), known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "remove it"
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	return "use one of " + strings.Join(known, ", ")
}

// distance counts the letters to change, add, leave out or swap with their
// neighbour to make b of a. Long texts are not near to any key.
func distance(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
