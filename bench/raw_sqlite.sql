-- The columns and the indexes that a job of Weir's has while it is drained.
create table raw_jobs (
    id          integer primary key autoincrement,
    uid         text    not null unique,
    task        text    not null,
    queue       text    not null,
    state       integer not null,
    rank        integer not null,
    first_due   integer not null,
    run_at      integer not null,
    enqueued_at integer not null,
    started_at  integer,
    lease_until integer,
    claim       integer,
    attempt     integer not null default 0,
    args        blob    not null,
    finished_at integer
) strict;

create index raw_jobs_waiting on raw_jobs (id) where state = 0;
