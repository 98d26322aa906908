package storetest

import "strings"

// Names are all valid and all different, and hard on keys, links, patterns and
// indexes.
func Names() []string {
	return []string{
		"a", "A", "a ", " a", "a:b", "b:c", "a/b", "a#b", "a%b", "a%20b", "a+b", "a?b", "a&b", "a'b", `a"b`, `a\b`, "{a,b}", "NULL", "null", "0", "$1",
		"é" /* composed */, "e\u0301" /* decomposed */, "Stripe", "stripe", "🚲", "שלום", "a\u200bb", "queue:a", "task:a", "_", "%", "*", "..", strings.Repeat("n", 255),
	}
}
