-- Live jobs only: what has ended moves to weir_history or weir_dead, so that
-- nothing on the hot path grows with the past.
-- id is the order of arrival; uid is the name a job has outside. rank is the
-- negated priority, so that every index column ascends.
create table weir_jobs (
    id              integer primary key autoincrement,
    uid             text    not null,
    task            text    not null,
    queue           text    not null,
    state           integer not null, -- 0 waiting, 1 running, 2 scheduled
    rank            integer not null,
    first_due       integer not null, -- times are microseconds since 1970, UTC
    run_at          integer not null,
    enqueued_at     integer not null,
    started_at      integer, -- the last grant; null: never granted
    expires_at      integer,
    lease_until     integer,
    claim           integer, -- the claim turn that granted it, and its fencing token
    attempt         integer not null default 0,
    given_back      integer not null default 0, -- attempts that do not count against max_retries
    max_retries     integer,
    timeout         integer, -- microseconds
    deferrals       integer not null default 0,
    unique_key      text,
    args            blob    not null,
    metadata        text,
    errors          text, -- JSON list of {attempt, at, error}
    replay_of       text,
    replays         integer not null default 0
) strict;

create unique index weir_jobs_uid on weir_jobs (uid);
create index weir_jobs_line on weir_jobs (task, queue, rank, first_due, id) where state = 0;
create index weir_jobs_scheduled on weir_jobs (first_due) where state = 2;
create index weir_jobs_lease on weir_jobs (lease_until) where lease_until is not null;
create index weir_jobs_expiry on weir_jobs (expires_at) where expires_at is not null and started_at is null;
create unique index weir_jobs_unique on weir_jobs (task, unique_key) where unique_key is not null;

-- Completed (3) and cancelled (4) jobs, until retention takes them.
create table weir_history (
    id              integer primary key,
    uid             text    not null,
    task            text    not null,
    queue           text    not null,
    state           integer not null,
    rank            integer not null,
    first_due       integer not null,
    run_at          integer not null,
    enqueued_at     integer not null,
    started_at      integer,
    expires_at      integer,
    claim           integer,
    attempt         integer not null,
    given_back      integer not null,
    max_retries     integer,
    timeout         integer,
    deferrals       integer not null,
    unique_key      text,
    args            blob    not null,
    metadata        text,
    errors          text,
    replay_of       text,
    replays         integer not null,
    finished_at     integer not null
) strict;

create unique index weir_history_uid on weir_history (uid);
create index weir_history_finished on weir_history (finished_at);

-- Dead letters: jobs that will not run again by themselves.
create table weir_dead (
    id              integer primary key autoincrement,
    job_id          text    not null,
    kind            text    not null, -- shed, failed, expired
    task            text    not null,
    queue           text    not null,
    reason          text    not null,
    metadata        text,
    job_metadata    text,
    args            blob    not null,
    rank            integer not null,
    attempt         integer not null,
    claim           integer,
    errors          text,
    unique_key      text,
    max_retries     integer,
    timeout         integer,
    deferrals       integer not null,
    enqueued_at     integer not null,
    first_due       integer not null,
    started_at      integer,
    expires_at      integer,
    dead_at         integer not null,
    replay_of       text,
    replays         integer not null
) strict;

create unique index weir_dead_job on weir_dead (job_id);
create index weir_dead_kind on weir_dead (kind, id);

-- One row a limit: its bucket, its hold, and what operators said of it. key
-- is empty today: it leaves room for one budget per tenant under one name.
create table weir_limits (
    name            text    not null,
    key             text    not null default '',
    rate_count      integer not null, -- the rate it was last run with: millionths of a start ...
    rate_period     integer not null, -- ... per so many microseconds
    burst           integer not null, -- 0: the count is the capacity
    level           integer not null, -- millionths of a token
    remainder       integer not null, -- in 1/rate_period of a millionth
    stamp           integer not null, -- up to when time was credited
    held_from       integer not null default 0,
    held_until      integer not null default 0,
    deferred_at     integer not null default 0,
    paused          integer not null default 0 check (paused in (0, 1)),
    override_rate   text, -- an operator's rate; beats every declaration
    override_burst  integer,
    override_until  integer,
    override_reason text,
    covers          text    not null default '', -- JSON {"tasks": [...], "queues": [...]}
    started         integer not null default 0,
    deferred        integer not null default 0,
    shed            integer not null default 0,
    primary key (name, key)
) strict;

-- What was last registered: producers find a task's queue here.
create table weir_tasks (
    name            text    primary key,
    queue           text    not null,
    max_retries     integer not null,
    definition      text    not null, -- JSON, for people
    registered_at   integer not null
) strict;

create table weir_queues (
    name            text    primary key,
    paused          integer not null default 0 check (paused in (0, 1))
) strict;

-- One row for each task or queue with a cap or a breaker: what is locked while
-- its running jobs are counted, and what the breaker remembers.
create table weir_gates (
    name            text    primary key, -- task:NAME or queue:NAME
    failures        integer not null default 0,
    window_from     integer not null default 0,
    opened_at       integer not null default 0,
    open_until      integer not null default 0 -- 0: closed
) strict;
