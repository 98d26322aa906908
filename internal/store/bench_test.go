package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weirq/weir/internal/store"
	"github.com/weirq/weir/internal/storetest"
)

func eachBenchmark(b *testing.B, do func(b *testing.B, s *store.Store)) {
	b.Helper()
	b.Run("sqlite", func(b *testing.B) { do(b, storetest.SQLite(b).Open(b, store.Options{})) })
	b.Run("postgres", func(b *testing.B) { do(b, storetest.Postgres(b).Open(b, store.Options{})) })
}

func benchJobs(n int) []store.NewJob {
	jobs := newJobs("a", n)
	for i := range jobs {
		jobs[i].Args = fmt.Appendf(nil, "%0100d", i)
	}
	return jobs
}

func perSecond(b *testing.B, jobs int) {
	b.Helper()
	b.ReportMetric(float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(0, "ns/op")
}

// An operation is one job, or a thousand in bulk.
func BenchmarkInsert(b *testing.B) {
	b.Run("one at a time from 16 callers", func(b *testing.B) {
		eachBenchmark(b, func(b *testing.B, s *store.Store) {
			jobs := benchJobs(b.N)
			var next atomic.Int64
			b.ResetTimer()
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
						if _, err := s.InsertOne(b.Context(), jobs[i]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			perSecond(b, b.N)
		})
	})
	b.Run("bulk", func(b *testing.B) {
		const each = 1000
		eachBenchmark(b, func(b *testing.B, s *store.Store) {
			jobs := benchJobs(each * b.N)
			b.ResetTimer()
			for i := range b.N {
				_, err := s.Insert(b.Context(), jobs[i*each:(i+1)*each])
				require.NoError(b, err)
			}
			perSecond(b, each*b.N)
		})
	})
}

// An operation is a turn: the results of the last one, and 500 starts.
func BenchmarkTurn(b *testing.B) {
	const each = 500
	eachBenchmark(b, func(b *testing.B, s *store.Store) {
		d := []store.Declared{declared(b, "task:a", "1000000000/s")}
		require.NoError(b, s.Register(b.Context(), nil, d))
		_, err := s.Insert(b.Context(), benchJobs(each*b.N))
		require.NoError(b, err)
		var results []store.Result
		b.ResetTimer()
		for i := range b.N + 1 {
			out, err := s.Turn(b.Context(), store.TurnRequest{
				Results: results, Sweep: i%20 == 0, Limits: d, Claim: int64(i) + 1, Lease: lease,
				Admit: &admission{asks: []store.Ask{ask("a", each)}, decide: startAll},
			})
			require.NoError(b, err)
			require.Empty(b, out.Refused)
			results = results[:0]
			for _, j := range out.Started {
				results = append(results, end(j, store.Done))
			}
		}
		require.Empty(b, results)
		perSecond(b, each*b.N)
	})
}

// An operation is a turn that sheds so many jobs.
func BenchmarkShed(b *testing.B) {
	for _, each := range []int{100, 250, 500, 2000} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			eachBenchmark(b, func(b *testing.B, s *store.Store) {
				d := []store.Declared{declared(b, "task:a", "10/s")}
				require.NoError(b, s.Register(b.Context(), nil, d))
				_, err := s.Insert(b.Context(), benchJobs(each*b.N))
				require.NoError(b, err)
				shed := func(read [][]store.Candidate) store.Plan {
					p := store.Plan{Save: []store.Limit{{Name: "task:a", RateCount: 1, RatePeriod: 1}}}
					for _, c := range read[0] {
						p.Shed = append(p.Shed, store.Shed{ID: c.ID, Reason: "rate_limit: task:a 10/s"})
					}
					return p
				}
				b.ResetTimer()
				for range b.N {
					_, err := s.Turn(b.Context(), store.TurnRequest{Limits: d, Admit: &admission{asks: []store.Ask{ask("a", each)}, decide: shed}})
					require.NoError(b, err)
				}
				perSecond(b, each*b.N)
			})
		})
	}
}
