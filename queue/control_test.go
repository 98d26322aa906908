package queue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/bucket"
	"github.com/weirq/weir/queue"
)

func TestAnOverrideThatCannotBeIsInvalidOnBothDatabases(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		b.declare(t, "task:a", "1/s", 0, "a")
		for want, o := range map[string]queue.Override{
			`rate "100/mo": unknown period "mo": use s, m, h or d, as in "100/m"`:          {Rate: "100/mo"},
			`burst -1: use a whole number from 1 to 1000000000, as in burst 20`:            {Rate: "1/s", Burst: -1},
			`for -1ns: use up to a hundred years; 0 is until it is unset`:                  {Rate: "1/s", For: -1},
			`reason of 1001 bytes: use up to 1000 bytes`:                                   {Rate: "1/s", Reason: strings.Repeat("a", 1001)},
			`reason "a\x00b": it has the control character U+0000 at byte 1: leave it out`: {Rate: "1/s", Reason: "a\x00b"},
			`reason "a\nb": it has the control character U+000A at byte 1: leave it out`:   {Rate: "1/s", Reason: "a\nb"},
			`reason "\xff": it is not UTF-8: encode it so`:                                 {Rate: "1/s", Reason: "\xff"},
		} {
			err := b.SetLimit(t.Context(), "task:a", o)
			require.ErrorIs(t, err, queue.ErrInvalid)
			require.EqualError(t, err, `limit "task:a": `+want)
		}
		var syntax *bucket.SyntaxError
		require.ErrorAs(t, b.SetLimit(t.Context(), "task:a", queue.Override{Rate: "1"}), &syntax)
		info, err := b.Limit(t.Context(), "task:a")
		require.NoError(t, err)
		require.Equal(t, queue.SourceDeclared, info.Source, "nothing was stored")
		require.NoError(t, b.SetLimit(t.Context(), "task:a", queue.Override{Rate: "1/s", Reason: strings.Repeat("é", 500), For: time.Hour}))
	})
}

func TestTheNameOfALimitThatCannotBeIsInvalidOnBothDatabases(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		for what, do := range map[string]func(context.Context, string) error{
			"set": func(ctx context.Context, name string) error {
				return b.SetLimit(ctx, name, queue.Override{Rate: "1/s"})
			},
			"unset":  b.UnsetLimit,
			"pause":  b.PauseLimit,
			"resume": b.ResumeLimit,
		} {
			for _, name := range []string{"", "a\x00", "\xff", "task:", "task:\x00", "task@s:", "queue:\x7f", strings.Repeat("a", 256), "task:" + strings.Repeat("a", 256)} {
				require.ErrorIs(t, do(t.Context(), name), queue.ErrInvalid, "%s %q", what, name)
			}
			for _, name := range []string{"a", "task:" + strings.Repeat("a", 255), "queue:" + strings.Repeat("a", 255), "task@s:" + strings.Repeat("a", 255)} {
				require.ErrorIs(t, do(t.Context(), name), queue.ErrNotFound, "%s %q", what, name)
			}
		}
	})
}
