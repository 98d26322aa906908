-- Live jobs only: what has ended moves to weir_history or weir_dead, so that
-- nothing on the hot path grows with the past.
-- id is the order of arrival; uid is the name a job has outside. rank is the
-- negated priority, so that every index column ascends.
create table weir_jobs (
    id          bigint generated always as identity primary key,
    uid         uuid     not null,
    task        text     collate "C" not null,
    queue       text     collate "C" not null,
    state       smallint not null,           -- 0 waiting, 1 running, 2 scheduled
    rank        smallint not null,
    first_due   bigint   not null,           -- times are microseconds since 1970, UTC
    run_at      bigint   not null,
    enqueued_at bigint   not null,
    started_at  bigint,                      -- the last grant; null: never granted
    expires_at  bigint,
    lease_until bigint,
    claim       bigint,                      -- the claim turn that granted it, and its fencing token
    attempt     integer  not null default 0,
    given_back  integer  not null default 0, -- attempts that do not count against max_retries
    max_retries integer,
    timeout     bigint,                      -- microseconds
    deferrals   bigint   not null default 0,
    unique_key  text     collate "C",
    args        bytea    not null,
    metadata    text,
    errors      text,                        -- JSON list of {attempt, at, error}
    replay_of   uuid,
    replays     integer  not null default 0
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05);

create unique index weir_jobs_uid on weir_jobs (uid);
create index weir_jobs_line on weir_jobs (task, queue, rank, first_due, id) where state = 0;
-- A scheduled job is due when it was first due. run_at, which a deferral changes,
-- is in no index: PostgreSQL changes the row in place then.
create index weir_jobs_scheduled on weir_jobs (first_due) where state = 2;
-- The predicate is never "state = 1": statistics taken while nothing runs
-- would make the planner believe the index is empty and use it for claims.
create index weir_jobs_lease on weir_jobs (lease_until) where lease_until is not null;
create index weir_jobs_expiry on weir_jobs (expires_at) where expires_at is not null and started_at is null;
create unique index weir_jobs_unique on weir_jobs (task, unique_key) where unique_key is not null;

-- Completed (3) and cancelled (4) jobs, until retention takes them.
create table weir_history (
    id          bigint   primary key,
    uid         uuid     not null,
    task        text     collate "C" not null,
    queue       text     collate "C" not null,
    state       smallint not null,
    rank        smallint not null,
    first_due   bigint   not null,
    run_at      bigint   not null,
    enqueued_at bigint   not null,
    started_at  bigint,
    expires_at  bigint,
    claim       bigint,
    attempt     integer  not null,
    given_back  integer  not null,
    max_retries integer,
    timeout     bigint,
    deferrals   bigint   not null,
    unique_key  text     collate "C",
    args        bytea    not null,
    metadata    text,
    errors      text,
    replay_of   uuid,
    replays     integer  not null,
    finished_at bigint   not null
);

create unique index weir_history_uid on weir_history (uid);
create index weir_history_finished on weir_history (finished_at);

-- Dead letters: jobs that will not run again by themselves.
create table weir_dead (
    id           bigint   generated always as identity primary key,
    job_id       uuid     not null,
    kind         text     collate "C" not null, -- shed, failed, expired
    task         text     collate "C" not null,
    queue        text     collate "C" not null,
    reason       text     not null,
    metadata     text,
    job_metadata text,
    args         bytea    not null,
    rank         smallint not null,
    attempt      integer  not null,
    claim        bigint,
    errors       text,
    unique_key   text     collate "C",
    max_retries  integer,
    timeout      bigint,
    deferrals    bigint   not null,
    enqueued_at  bigint   not null,
    first_due    bigint   not null,
    started_at   bigint,
    expires_at   bigint,
    dead_at      bigint   not null,
    replay_of    uuid,
    replays      integer  not null
);

create unique index weir_dead_job on weir_dead (job_id);
create index weir_dead_kind on weir_dead (kind, id);

-- One row a limit: its bucket, its hold, and what operators said of it. key
-- is empty today: it leaves room for one budget per tenant under one name.
create table weir_limits (
    name            text    collate "C" not null,
    key             text    collate "C" not null default '',
    rate_count      bigint  not null, -- the rate it was last run with: millionths of a start ...
    rate_period     bigint  not null, -- ... per so many microseconds
    burst           bigint  not null, -- 0: the count is the capacity
    level           bigint  not null, -- millionths of a token
    remainder       bigint  not null, -- in 1/rate_period of a millionth
    stamp           bigint  not null, -- up to when time was credited
    held_from       bigint  not null default 0,
    held_until      bigint  not null default 0,
    deferred_at     bigint  not null default 0,
    paused          boolean not null default false,
    override_rate   text,             -- an operator's rate; beats every declaration
    override_burst  bigint,
    override_until  bigint,
    override_reason text,
    covers          text    not null default '', -- JSON {"tasks": [...], "queues": [...]}
    started         bigint  not null default 0,
    deferred        bigint  not null default 0,
    shed            bigint  not null default 0,
    primary key (name, key)
) with (fillfactor = 50);

-- What was last registered: producers find a task's queue here.
create table weir_tasks (
    name          text    collate "C" primary key,
    queue         text    collate "C" not null,
    max_retries   integer not null,
    definition    text    not null, -- JSON, for people
    registered_at bigint  not null
);

create table weir_queues (
    name   text    collate "C" primary key,
    paused boolean not null default false
);

-- One row for each task or queue with a cap or a breaker: what is locked while
-- its running jobs are counted, and what the breaker remembers.
create table weir_gates (
    name        text    collate "C" primary key, -- task:NAME or queue:NAME
    failures    bigint  not null default 0,
    window_from bigint  not null default 0,
    opened_at   bigint  not null default 0,
    open_until  bigint  not null default 0       -- 0: closed
) with (fillfactor = 50);
