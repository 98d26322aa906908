package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/weirq/weir/queue"
)

func TestProbeQueues(t *testing.T) {
	each(t, func(t *testing.T, b *bundle) {
		if b.db.Dialect == "sqlite" { t.Skip() }
		for i := 0; i < 2; i++ {
			jobs := make([]queue.NewJob, 100000)
			for j := range jobs {
				jobs[j] = queue.NewJob{Task: fmt.Sprint("a", j%(1+i*50)), Args: []byte("x"), Queue: fmt.Sprint("q", i)}
			}
			_, err := b.EnqueueMany(t.Context(), jobs)
			require.NoError(t, err)
			sq := b.db.SQL(t)
			if i == 1 { sq.Exec("analyze weir_jobs") }
			at := time.Now()
			_, err = b.Queues(t.Context())
			require.NoError(t, err)
			fmt.Println("queues", time.Since(at))
			rows, err := sq.Query(`explain (analyze, buffers) with recursive tasks(task) as (
    select min(j.task) from weir_jobs j where j.state = 0
    union all
    select (select min(j.task) from weir_jobs j where j.state = 0 and j.task > t.task) from tasks t where t.task is not null
), pairs(task, queue) as (
    select t.task, (select min(j.queue) from weir_jobs j where j.state = 0 and j.task = t.task) from tasks t where t.task is not null
    union all
    select p.task, (select min(j.queue) from weir_jobs j where j.state = 0 and j.task = p.task and j.queue > p.queue)
    from pairs p where p.queue is not null
), lines as (
    select p.task, p.queue,
           (select count(*) from (
               select 1 from weir_jobs j where j.state = 0 and j.task = p.task and j.queue = p.queue limit 10001) w) as waiting,
           (select min(w.first_due) from (
               select j.first_due from weir_jobs j where j.state = 0 and j.task = p.task and j.queue = p.queue
               order by j.rank, j.first_due, j.id limit 10001) w) as oldest
    from pairs p where p.queue is not null
) select * from lines`)
			require.NoError(t, err)
			for rows.Next() { var s string; rows.Scan(&s); fmt.Println(s) }
			rows.Close()
		}
	})
}
