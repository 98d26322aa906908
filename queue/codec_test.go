package queue_test

import (
	"bytes"
	"encoding/json"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func payloads() map[string][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return map[string][]byte{
		"nil": nil, "empty": {}, "NUL": {0}, "all bytes": all, "not UTF-8": {0xff, 0xfe}, "escape": []byte(`{"a":"\u0000"}`),
		"backslash x": []byte(`\x00`), "quotes": []byte(`'"{}`),
		"7,999 bytes": bytes.Repeat([]byte{'x'}, 7_999), "8,000 bytes": bytes.Repeat([]byte{'x'}, 8_000), "8,001 bytes": bytes.Repeat([]byte{0xff}, 8_001),
		"1 MiB": bytes.Repeat([]byte{0, 1, 0xff, 'a'}, 1<<18),
	}
}

func TestRawArgumentsComeBackByteForByte(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		raw := queue.Task[[]byte]("raw")
		for name, payload := range payloads() {
			one, err := raw.Enqueue(t.Context(), b.Client, payload)
			require.NoError(t, err, name)
			tx, err := b.db.SQL(t).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			inTx, err := raw.EnqueueTx(t.Context(), b.Client, tx, payload)
			require.NoError(t, err, name)
			require.NoError(t, tx.Commit())
			for _, id := range []string{one.ID, inTx.ID} {
				info := b.get(t, id)
				require.True(t, bytes.Equal(payload, info.RawArgs), name)
				require.NotNil(t, info.RawArgs, "nil and empty are the same: no bytes")
			}
			for _, row := range b.start(t, "raw", "default") {
				job, err := queue.NewJobFor[[]byte](row)
				require.NoError(t, err)
				require.True(t, bytes.Equal(payload, job.Args), name)
				require.True(t, bytes.Equal(payload, job.RawArgs), name)
			}
		}
	})
}

func TestArgumentsOverTheLimitAreRefusedAndTheLimitCanBeRaised(t *testing.T) {
	size := 16 << 20
	if testing.Short() {
		size = 4 << 20
	}
	large := bytes.Repeat([]byte("\x00\x01\xfe'\\"), size/5+1)[:size]
	each(t, func(t *testing.T, b *bundle) {
		for _, args := range [][]byte{large, large[:1<<20+1]} {
			_, err := b.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: args})
			require.ErrorIs(t, err, queue.ErrArgsTooLarge)
			_, err = b.EnqueueMany(t.Context(), []queue.NewJob{{Task: "a"}, {Task: "a", Args: args}})
			require.ErrorIs(t, err, queue.ErrArgsTooLarge)
		}
		require.Empty(t, b.all(t, queue.Filter{}))

		roomy := open(t, b.db, queue.WithMaxArgs(queue.LargestMaxArgs), queue.WithClock(b.clock))
		_, err := roomy.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: make([]byte, queue.LargestMaxArgs+1)})
		require.ErrorIs(t, err, queue.ErrArgsTooLarge)
		require.Empty(t, b.all(t, queue.Filter{}))
		_, err = roomy.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: large})
		require.NoError(t, err)
		started := b.start(t, "a", "default")
		require.Len(t, started, 1)
		require.True(t, bytes.Equal(large, started[0].Args), "as the handler gets them")
	})
}

func TestAListDoesNotLoadLargeArguments(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const n = 8
		jobs := make([]queue.NewJob, n)
		for i := range jobs {
			jobs[i] = queue.NewJob{Task: "a", Args: make([]byte, 1<<20)}
		}
		_, err := b.EnqueueMany(t.Context(), jobs)
		require.NoError(t, err)
		_, err = b.Enqueue(t.Context(), queue.NewJob{Task: "a", Args: []byte(`"short"`)})
		require.NoError(t, err)

		items := b.all(t, queue.Filter{})
		require.Len(t, items, n+1)
		require.Equal(t, `"short"`, string(items[0].Args))
		require.Zero(t, items[0].ArgsSize)
		for _, item := range items[1:] {
			require.Nil(t, item.Args)
			require.Nil(t, item.RawArgs)
			require.EqualValues(t, 1<<20, item.ArgsSize)
		}
	})
}

// Not parallel: it counts what the process allocates.
func TestAListOfLargeJobsTakesLittleMemory(t *testing.T) {
	c, jobs := open(t, storetest.SQLite(t)), make([]queue.NewJob, 24)
	for i := range jobs {
		jobs[i] = queue.NewJob{Task: "a", Args: make([]byte, 1<<20)}
	}
	_, err := c.EnqueueMany(t.Context(), jobs)
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = c.List(t.Context(), queue.Filter{})
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "24 MiB are stored")
}

func TestArgumentsOfEveryTypeComeBack(t *testing.T) {
	t.Parallel()
	roundTrips(t, emailArgs{To: "ada"}, `{"to":"ada"}`)
	roundTrips(t, struct{}{}, `{}`)
	roundTrips(t, "text", `"text"`)
	roundTrips(t, 12, `12`)
	roundTrips(t, []string{"a"}, `["a"]`)
	roundTrips(t, map[string]int{"a": 1}, `{"a":1}`)
	roundTrips(t, new(3), `3`)
	roundTrips(t, time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), `"2030-01-02T03:04:05.000000006Z"`)
	roundTrips(t, uuid.MustParse("018f2f5e-0000-7000-8000-000000000000"), `"018f2f5e-0000-7000-8000-000000000000"`)
	roundTrips(t, named("\x00\xff"), "\x00\xff")
	roundTrips(t, []byte("\x00\xff"), "\x00\xff")
	roundTrips(t, json.RawMessage(`{"a": 1} not JSON`), `{"a": 1} not JSON`)
	roundTrips(t, jsonBytes("ab"), `"ab, as JSON"`)
	roundTrips(t, textBytes("ab"), `"ab, as text"`)
	roundTrips(t, [2]byte{1, 2}, `[1,2]`)
}

func roundTrips[Args any](t *testing.T, args Args, stored string) {
	t.Helper()
	b, err := queue.Encode(args)
	require.NoError(t, err)
	require.Equal(t, stored, string(b))
	back, err := queue.Decode[Args](b)
	require.NoError(t, err)
	require.Equal(t, args, back)
}

type named []byte

type jsonBytes []byte

func (b jsonBytes) MarshalJSON() ([]byte, error) { return json.Marshal(string(b) + ", as JSON") }

func (b *jsonBytes) UnmarshalJSON(data []byte) error {
	var s string
	err := json.Unmarshal(data, &s)
	*b = jsonBytes(s[:len(s)-len(", as JSON")])
	return err
}

type textBytes []byte

func (b textBytes) MarshalText() ([]byte, error) {
	return append(slices.Clip(b), ", as text"...), nil
}

func (b *textBytes) UnmarshalText(data []byte) error {
	*b = data[:len(data)-len(", as text")]
	return nil
}

func TestNoBytesAreTheZeroValueOfEveryType(t *testing.T) {
	t.Parallel()
	args, err := queue.Decode[emailArgs](nil)
	require.NoError(t, err)
	require.Zero(t, args)
	raw, err := queue.Decode[[]byte](nil)
	require.NoError(t, err)
	require.Empty(t, raw)
	_, err = queue.Decode[*emailArgs]([]byte(" \n"))
	require.NoError(t, err)
}

func TestArgumentsThatDoNotFitAreAnErrorNotHalfARead(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{`{`, `{"to":1}`, `{"to":"ada"} {}`, `[]`, "\x00", `{"to":"ada"`} {
		args, err := queue.Decode[emailArgs]([]byte(stored))
		require.ErrorContains(t, err, "decode arguments into queue_test.emailArgs: ", stored)
		require.Zero(t, args, stored)
	}
	args, err := queue.Decode[emailArgs]([]byte(`{"to":"ada","cc":"bob"}`))
	require.NoError(t, err, "a newer producer's member is passed over")
	require.Equal(t, emailArgs{To: "ada"}, args)
}

func TestWhatHasNoJSONFormIsRefused(t *testing.T) {
	t.Parallel()
	_, err := queue.Encode(math.NaN())
	require.EqualError(t, err, "args of type float64: no JSON form: json: unsupported value: NaN")
	require.ErrorIs(t, err, queue.ErrInvalid)
	_, err = queue.Task[chan int]("a").Enqueue(t.Context(), nil, nil)
	require.EqualError(t, err, `enqueue: task "a": args of type chan int: no JSON form: json: unsupported type: chan int`)
}

func TestAHandlerMayChangeItsArgumentsWithoutChangingTheRawOnes(t *testing.T) {
	t.Parallel()
	stored := []byte("abc")
	args, err := queue.Decode[[]byte](stored)
	require.NoError(t, err)
	args[0] = 'x'
	require.Equal(t, "abc", string(stored))
}

func TestAnyArgumentsComeBack(t *testing.T) {
	t.Parallel()
	type nested struct {
		Text   string
		Number int64
		List   []float64
		Map    map[string]string
	}
	rapid.Check(t, func(rt *rapid.T) {
		args := rapid.Make[nested]().Draw(rt, "args")
		b, err := queue.Encode(args)
		if err != nil {
			rt.Skip("not a JSON number") // NaN, infinity
		}
		back, err := queue.Decode[nested](b)
		require.NoError(rt, err)
		require.Equal(rt, args, back)

		raw := rapid.SliceOf(rapid.Byte()).Draw(rt, "raw")
		b, err = queue.Encode(raw)
		require.NoError(rt, err)
		require.True(rt, bytes.Equal(raw, b))
	})
}
