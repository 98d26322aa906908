package wire_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/wire"
)

type sample struct {
	Text   string          `json:"text"`
	Null   string          `json:"null" wire:"null"`
	At     time.Time       `json:"at"`
	For    time.Duration   `json:"for"`
	Raw    json.RawMessage `json:"raw"`
	Size   int64           `json:"size,omitzero"`
	Hidden string          `json:"-"`
}

func TestAnObjectHasItsFieldsInOrderAndNullForWhatIsNotThere(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 2*3600)
	for want, v := range map[string]sample{
		`{"text":"","null":null,"at":null,"for":null,"raw":null}`: {Hidden: "x"},
		`{"text":"<a>","null":"n","at":"2030-01-02T01:04:05.000007Z","for":"1m30s","raw":{"a":1},"size":3}`: {
			Text: "<a>", Null: "n", At: time.Date(2030, 1, 2, 3, 4, 5, 7_999, east), For: 90 * time.Second, Raw: json.RawMessage(`{"a":1}`), Size: 3,
		},
	} {
		b, err := wire.Object(v)
		require.NoError(t, err)
		require.JSONEq(t, want, string(b))
		require.Equal(t, len(want), len(b)-newlines(b), "in this order and form")
	}
	_, err := wire.Object(sample{Raw: json.RawMessage(`{`)})
	require.ErrorContains(t, err, `encode "raw": `)
}

// newlines counts what the encoder leaves behind each value.
func newlines(b []byte) (n int) {
	for _, c := range b {
		if c == '\n' {
			n++
		}
	}
	return n
}

func TestOnlyWhatADocumentCanHoldIsShown(t *testing.T) {
	t.Parallel()
	for _, args := range []string{`{"a":1}`, `null`, ` 1 `, `"é"`} {
		shown, hidden := wire.Args([]byte(args), int64(len(args)))
		require.Equal(t, args, string(shown))
		require.Zero(t, hidden)
	}
	for _, args := range []string{``, `{`, "\"\xff\"", "\x00", `1 2`} {
		shown, hidden := wire.Args([]byte(args), int64(len(args)))
		require.Nil(t, shown)
		require.EqualValues(t, len(args), hidden)
	}
}

func TestACursorLeadsBackToItsRowInItsOwnListAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Int64Min(1).Draw(t, "id")
		cursor := wire.Cursor('j', id)
		back, err := wire.ParseCursor('j', cursor)
		require.NoError(t, err)
		require.Equal(t, id, back)
		_, err = wire.ParseCursor('d', cursor)
		require.Error(t, err)
	})
	rapid.Check(t, func(t *rapid.T) {
		cursor := rapid.StringMatching(`[A-Za-z0-9_-]{0,16}\n?`).Draw(t, "cursor")
		if id, err := wire.ParseCursor('j', cursor); err == nil && cursor != "" {
			require.Equal(t, cursor, wire.Cursor('j', id), "one row has one cursor")
		}
	})
}

func TestAPlaceLeadsBackToItselfInItsOwnListAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at, id := rapid.Int64().Draw(t, "at"), rapid.Int64Min(1).Draw(t, "id")
		cursor := wire.Place('d', at, id)
		backAt, backID, err := wire.ParsePlace('d', cursor)
		require.NoError(t, err)
		require.Equal(t, []int64{at, id}, []int64{backAt, backID})
		_, _, err = wire.ParsePlace('o', cursor)
		require.Error(t, err)
	})
	rapid.Check(t, func(t *rapid.T) {
		cursor := rapid.StringMatching(`[A-Za-z0-9_-]{0,24}\n?`).Draw(t, "cursor")
		if at, id, err := wire.ParsePlace('Z', cursor); err == nil && cursor != "" {
			require.Equal(t, cursor, wire.Place('Z', at, id), "one place has one cursor")
		}
	})
}

func TestAUUIDHasOneForm(t *testing.T) {
	t.Parallel()
	id, err := wire.UUID("018F2F5E-0000-7000-8000-00000000ABCD")
	require.NoError(t, err)
	require.Equal(t, "018f2f5e-0000-7000-8000-00000000abcd", id)
	for _, bad := range []string{
		"", "018f2f5e000070008000000000000000", "{018f2f5e-0000-7000-8000-000000000000}", "urn:uuid:018f2f5e-0000-7000-8000-000000000000",
		"018f2f5e-0000-7000-8000-00000000000g", "018f2f5e-0000-7000-8000_000000000000", "00000000-0000-0000-0000-000000000000",
		"éééééééééééééééééé",
	} {
		_, err := wire.UUID(bad)
		require.Error(t, err, bad)
	}
}
