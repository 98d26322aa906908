package suggest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheNearestWordIsProposedWhereOneIsNear(t *testing.T) {
	t.Parallel()
	known := []string{"rate_limit", "queue", "queues", "cap"}
	for word, want := range map[string]string{
		"queue":                   "queue",
		"quueue":                  "queue", // a letter too many
		"queus":                   "queue", // the first of two that are as near
		"qeue":                    "queue", // one left out
		"ueque":                   "",
		"rate_limti":              "rate_limit", // two swapped
		"cp":                      "cap",
		"x":                       "",
		"":                        "",
		strings.Repeat("cap", 40): "",
	} {
		assert.Equal(t, want, Nearest(word, known), "%q", word)
	}
}

func TestAKeyIsReadInAnyCaseAndAllAreListedWhereNoneIsNear(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `did you mean "rate_limit"?`, DidYouMean("Rate-Limit", []string{"queue", "rate_limit"}))
	assert.Equal(t, "use one of queue, rate_limit", DidYouMean("nonsense", []string{"rate_limit", "queue", "queue"}))
	assert.Equal(t, "remove it", DidYouMean("nonsense", nil))
}
