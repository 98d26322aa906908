begin immediate;

pragma data_version;

select ?9, id, rank, first_due, started_at is not null, expires_at is not null, coalesce(max_retries, -1) from weir_jobs
where state = 0 and task = ?1 and queue = ?2 and (not ?4 or started_at is null) and (rank, first_due, id) > (?6, ?7, ?8)
  and (expires_at is null or expires_at > ?5 or started_at is not null)
order by rank, first_due, id limit ?3;

update weir_jobs set state = 1, attempt = min(attempt, 2147483646) + 1, started_at = ?2, claim = ?3, lease_until = ?4
where id in (select value from json_each(?1)) returning id, uid, task, queue, rank, first_due, enqueued_at, started_at, claim, attempt,
       given_back, max_retries, timeout, deferrals, unique_key, args, metadata, errors, replay_of;

commit;
