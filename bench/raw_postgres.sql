-- The columns and the indexes that a job of Weir's has while it is drained.
create table raw_jobs (
    id          bigint generated always as identity primary key,
    uid         uuid     not null unique,
    task        text     collate "C" not null,
    queue       text     collate "C" not null,
    state       smallint not null,
    rank        smallint not null,
    first_due   bigint   not null,
    run_at      bigint   not null,
    enqueued_at bigint   not null,
    started_at  bigint,
    lease_until bigint,
    claim       bigint,
    attempt     integer  not null default 0,
    args        bytea    not null,
    finished_at bigint
) with (fillfactor = 85);

create index raw_jobs_waiting on raw_jobs (id) where state = 0;
