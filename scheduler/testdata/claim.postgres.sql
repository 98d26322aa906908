begin isolation level read committed; set local idle_in_transaction_session_timeout = '10s'; set local enable_seqscan = off; set local enable_hashjoin = off; set local enable_mergejoin = off; set local enable_bitmapscan = off; set local jit = off; set local plan_cache_mode = force_generic_plan; set local lock_timeout = '3s';

select l.n, j.id, j.rank, j.first_due, j.started_at is not null, j.expires_at is not null, coalesce(j.max_retries, -1)
from unnest($1::text[], $2::text[], $3::int[], $4::bool[], $6::int[], $7::bigint[], $8::bigint[], $9::int[])
     as l(task, queue, k, fresh, rank, first_due, id, n),
lateral (
    select id, rank, first_due, started_at, expires_at, max_retries from weir_jobs
    where state = 0 and task = l.task and queue = l.queue and (not l.fresh or started_at is null)
      and (rank, first_due, id) > (l.rank, l.first_due, l.id)
      and (expires_at is null or expires_at > $5 or started_at is not null)
    order by rank, first_due, id limit l.k
    for update skip locked
) j;

update weir_jobs set state = 1, attempt = least(attempt, 2147483646) + 1, started_at = $2, claim = $3, lease_until = $4
where id = any($1::bigint[]) returning id, uid, task, queue, rank, first_due, enqueued_at, started_at, claim, attempt,
       given_back, max_retries, timeout, deferrals, unique_key, args, metadata, errors, replay_of;

commit;
