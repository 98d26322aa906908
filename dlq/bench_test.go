package dlq_test

import (
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/dlq"
	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

// BenchmarkAMillion looks at a million dead letters: 700,000 sheds of 20 tasks,
// 290,000 failures, of which a third have reasons of their own, and 10,000 that
// expired, over ten days. An operation is one answer:
// go test -run '^$' -bench AMillion ./dlq.
func BenchmarkAMillion(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { aMillion(b, storetest.SQLite(b)) })
	b.Run("postgres", func(b *testing.B) { aMillion(b, storetest.Postgres(b)) })
}

func aMillion(b *testing.B, db storetest.Database) {
	client, err := queue.Open(b.Context(), db.DSN)
	require.NoError(b, err)
	defer client.Close()
	letters := dlq.From(client)
	bury(b, db, 1_000_000)
	require.NoError(b, letters.Recount(b.Context()))

	middle := dlq.Filter{Limit: dlq.LargestLimit}
	for range 10 {
		page, err := letters.List(b.Context(), middle)
		require.NoError(b, err)
		middle.Cursor = page.Next
	}
	for _, c := range []struct {
		name   string
		filter dlq.Filter
	}{
		{"the latest", dlq.Filter{}},
		{"the oldest", dlq.Filter{OldestFirst: true}},
		{"behind 100,000", dlq.Filter{Cursor: middle.Cursor}},
		{"a kind", dlq.Filter{Kind: dlq.Failed}},
		{"a task", dlq.Filter{Task: "t7"}},
		{"a queue", dlq.Filter{Queue: "q3"}},
		{"a task in a queue", dlq.Filter{Task: "t7", Queue: "q3"}},
		{"a reason", dlq.Filter{Kind: dlq.Failed, Reason: "no such host 3"}},
		{"a rare text", dlq.Filter{Text: "nowhere"}},
		{"an age", dlq.Filter{Kind: dlq.Shed, OlderThan: 100 * time.Hour, NewerThan: 101 * time.Hour}},
	} {
		b.Run("page/"+c.name, func(b *testing.B) {
			for b.Loop() {
				_, err := letters.List(b.Context(), c.filter)
				require.NoError(b, err)
			}
		})
		if c.filter.Cursor != "" || c.filter.OldestFirst {
			continue
		}
		b.Run("count/"+c.name, func(b *testing.B) {
			for b.Loop() {
				_, err := letters.Count(b.Context(), c.filter)
				require.NoError(b, err)
			}
		})
	}
	b.Run("stats", func(b *testing.B) {
		for b.Loop() {
			_, err := letters.Stats(b.Context())
			require.NoError(b, err)
		}
	})
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			heap := &heapWatcher{}
			n, err := letters.Export(b.Context(), heap, dlq.Filter{OldestFirst: true})
			require.NoError(b, err)
			require.EqualValues(b, 1_000_000, n)
			b.ReportMetric(float64(heap.most)/(1<<20), "heap-MB")
		}
		b.ReportMetric(1_000_000*float64(b.N)/b.Elapsed().Seconds(), "letters/s")
	})
}

// heapWatcher is a writer that looks now and then at what the process holds.
type heapWatcher struct {
	lines int
	most  uint64
}

func (w *heapWatcher) Write(p []byte) (int, error) {
	if w.lines++; w.lines%50_000 == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.most = max(w.most, m.HeapAlloc)
	}
	return io.Discard.Write(p)
}

// bury makes n dead letters behind Weir's back.
func bury(b *testing.B, db storetest.Database, n int) {
	b.Helper()
	series, uid, args := `generate_series(1, $1) i`, `gen_random_uuid()`, `convert_to(lpad(i::text, 100, '0'), 'UTF8')`
	if db.Dialect == store.SQLite {
		series = `(with recursive s(i) as (select 1 union all select i + 1 from s where i < $1) select i from s)`
		uid, args = `lower(hex(randomblob(16)))`, `cast(printf('%0100d', i) as blob)`
	}
	_, err := db.SQL(b).ExecContext(context.Background(), `
insert into weir_dead (job_id, kind, task, queue, reason, args, rank, attempt, deferrals, enqueued_at, first_due, dead_at, replays)
select `+uid+`, case when i % 100 < 70 then 'shed' when i % 100 < 99 then 'failed' else 'expired' end,
       't' || (i / 100 % 20), 'q' || (i / 100 % 5),
       case when i % 100 < 70 then 'rate_limit: task:t' || (i / 100 % 20) || ' 10/s'
            when i % 100 < 80 then 'request ' || i || ' timed out'
            when i % 100 < 99 then 'no such host ' || (i % 10) || '
at line 7' else 'expired: not started by 2030' end,
       `+args+`, 0, 1, 0, 1, 1, cast($2 as bigint) + i * cast($3 as bigint), 0 from `+series,
		n, time.Now().Add(-240*time.Hour).UnixMicro(), (240*time.Hour).Microseconds()/int64(n))
	require.NoError(b, err)
	if db.Dialect == store.Postgres {
		_, err = db.SQL(b).ExecContext(context.Background(), `analyze`)
		require.NoError(b, err)
	}
}
