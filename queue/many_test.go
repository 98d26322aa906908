package queue_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/weirq/weir/internal/storetest"
	"github.com/weirq/weir/queue"
)

func TestManyJobsAreStoredInOneCallInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3_000, 60_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, func(t *testing.T, b *bundle) {
				jobs := make([]queue.NewJob, n)
				for i := range jobs {
					jobs[i] = queue.NewJob{Task: "a", Args: fmt.Append(nil, i)}
				}
				// The first and two more want one key.
				keyed := []int{0, n / 2, n - 1}
				if n > 2 {
					for _, i := range keyed {
						jobs[i].UniqueKey = "k"
					}
				}
				receipts, err := b.EnqueueMany(t.Context(), jobs)
				require.NoError(t, err)
				require.NotNil(t, receipts)
				require.Len(t, receipts, n)

				stored := b.all(t, queue.Filter{Limit: queue.LargestLimit}) // the latest first
				if n > 2 {
					for _, i := range keyed[1:] {
						require.Equal(t, queue.Receipt{ID: receipts[0].ID, Duplicate: true}, receipts[i])
					}
					require.Len(t, stored, n-2)
				} else {
					require.Len(t, stored, n)
				}
				at := len(stored) - 1
				for i, r := range receipts {
					if r.Duplicate {
						continue
					}
					if stored[at].ID != r.ID || string(stored[at].Args) != fmt.Sprint(i) {
						t.Fatalf("receipt %d is %s; in its place is job %s with %s", i, r.ID, stored[at].ID, stored[at].Args)
					}
					at--
				}
			})
		})
	}
}

func TestManyTypedJobsShareTheirOptions(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		receipts, err := sendEmail.EnqueueMany(t.Context(), b.Client, []emailArgs{{"ada"}, {"bob"}}, queue.Queue("emails"), queue.Priority(-3))
		require.NoError(t, err)
		require.Len(t, receipts, 2)
		for i, to := range []string{"ada", "bob"} {
			info := b.get(t, receipts[i].ID)
			require.JSONEq(t, fmt.Sprintf(`{"to":%q}`, to), string(info.Args))
			require.Equal(t, "emails", info.Queue)
			require.Equal(t, -3, info.Priority)
		}
	})
}

func TestOneInvalidJobAmongManyStoresNone(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		_, err := b.EnqueueMany(t.Context(), []queue.NewJob{{Task: "a"}, {Task: "b", Priority: 101}, {Task: "c"}})
		require.EqualError(t, err, `enqueue: job 2 of 3: task "b": priority 101: use -100 (last) to 100 (first)`)
		require.Empty(t, b.all(t, queue.Filter{}))
	})
}

func TestTheSameIDTwiceInOneCallIsOneJob(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		const id = "0190a5a0-0000-7000-8000-00000000abcd"
		receipts, err := b.EnqueueMany(t.Context(), []queue.NewJob{{Task: "a", ID: id}, {Task: "b", ID: id}})
		require.NoError(t, err)
		require.Equal(t, []queue.Receipt{{ID: id}, {ID: id, Existed: true}}, receipts)
		require.Equal(t, "a", b.get(t, id).Task)
	})
}

// Whatever the jobs, one call for all leaves the database as one call for each
// does, and answers the same.
func TestManyAreStoredAsOneByOne(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		round := 0
		rapid.Check(t, func(rt *rapid.T) {
			round++
			jobs := rapid.SliceOfN(rapid.Custom(drawJob), 0, 12).Draw(rt, "jobs")
			together, apart := renamed(jobs, fmt.Sprint(round, " together ")), renamed(jobs, fmt.Sprint(round, " apart "))

			many, err := b.EnqueueMany(t.Context(), together)
			require.NoError(rt, err)
			one := make([]queue.Receipt, len(apart))
			for i := range apart {
				one[i], err = b.Enqueue(t.Context(), apart[i])
				require.NoError(rt, err)
			}
			require.Equal(rt, anonymous(one), anonymous(many))
			for _, task := range []string{"a", "b"} {
				require.Equal(rt,
					contents(b.all(t, queue.Filter{Task: fmt.Sprint(round, " apart ", task)})),
					contents(b.all(t, queue.Filter{Task: fmt.Sprint(round, " together ", task)})))
			}
		})
	})
}

// drawJob makes jobs that collide: the id is a digit until renamed makes a UUID
// of it.
func drawJob(t *rapid.T) queue.NewJob {
	return queue.NewJob{
		Task:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, "task"),
		ID:        rapid.SampledFrom([]string{"", "", "", "1", "2", "3"}).Draw(t, "id"),
		UniqueKey: rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"),
		Queue:     rapid.SampledFrom([]string{"", "q"}).Draw(t, "queue"),
		Priority:  rapid.IntRange(-100, 100).Draw(t, "priority"),
		Args:      rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "args"),
	}
}

// renamed gives jobs a namespace of their own.
func renamed(jobs []queue.NewJob, prefix string) []queue.NewJob {
	out := slices.Clone(jobs)
	for i := range out {
		out[i].Task = prefix + out[i].Task
		if out[i].ID != "" {
			out[i].ID = uuid.NewSHA1(uuid.NameSpaceOID, []byte(prefix+out[i].ID)).String()
		}
	}
	return out
}

// anonymous replaces each id by the place at which it comes first.
func anonymous(receipts []queue.Receipt) []queue.Receipt {
	out, place := slices.Clone(receipts), map[string]string{}
	for i, r := range out {
		if _, known := place[r.ID]; !known {
			place[r.ID] = fmt.Sprint(i)
		}
		out[i].ID = place[r.ID]
	}
	return out
}

// contents is what jobs hold but for their names.
func contents(jobs []queue.JobInfo) []queue.JobInfo {
	for i := range jobs {
		jobs[i].ID, jobs[i].Task = "", ""
	}
	return jobs
}

// BenchmarkEnqueueMany200000 shows the cost of a very large call.
func BenchmarkEnqueueMany200000(b *testing.B) {
	c := open(b, storetest.SQLite(b))
	jobs := make([]queue.NewJob, 200_000)
	for i := range jobs {
		jobs[i] = queue.NewJob{Task: "a", Args: []byte(`{"n":1}`)}
	}
	for b.Loop() {
		receipts, err := c.EnqueueMany(b.Context(), jobs)
		if err != nil || len(receipts) != len(jobs) {
			b.Fatal(len(receipts), err)
		}
	}
}
