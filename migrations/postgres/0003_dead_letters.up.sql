-- Dead letters are read in the order of their death, within a kind, a task or
-- a queue. An index has no place in a search path of its own, so it is named
-- with its table's.
do $$ begin
    execute (select format('drop index %I.weir_dead_kind', n.nspname)
             from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = 'weir_dead'::regclass);
end $$;
create index weir_dead_kind on weir_dead (kind, dead_at, id);
create index weir_dead_task on weir_dead (task, kind, dead_at, id);
create index weir_dead_queue on weir_dead (queue, kind, dead_at, id);
-- What failed and may be retried: what was shed is not in it, however much.
create index weir_dead_retry on weir_dead (task, replays, dead_at, id) where kind = 'failed';

-- How many dead letters there are. Each transaction that makes some or takes
-- some away keeps it true.
create table weir_dead_counts (
    kind   text   collate "C" not null,
    task   text   collate "C" not null,
    reason text   collate "C" not null, -- its first line, up to 80 bytes of it
    count  bigint not null,
    primary key (kind, task, reason)
) with (fillfactor = 50);

create table weir_dead_hours (
    hour   bigint not null,             -- of the death: hours since 1970, UTC
    kind   text   collate "C" not null,
    task   text   collate "C" not null,
    count  bigint not null,
    primary key (hour, kind, task)
) with (fillfactor = 50);

insert into weir_dead_counts (kind, task, reason, count)
select kind, task,
       case when kind = 'expired' then 'expired: not started' else (
           select case when octet_length(line) <= 80 then line
                  else left(line, (select max(n) from generate_series(20, 80) n where octet_length(left(line, n)) <= 80)) end
           from (select split_part(reason, E'\n', 1) as line) l) end,
       count(*)
from weir_dead group by 1, 2, 3;

insert into weir_dead_hours (hour, kind, task, count)
select dead_at / 3600000000, kind, task, count(*) from weir_dead group by 1, 2, 3;

-- What retention took away since the beginning.
create table weir_dead_removed (
    kind     text   collate "C" primary key,
    by_age   bigint not null,
    by_count bigint not null
);

-- What operators did.
create table weir_audit (
    id      bigint generated always as identity primary key,
    uid     uuid   not null,             -- of the action: one that goes on in steps is one row
    at      bigint not null,             -- when it began
    actor   text   collate "C" not null,
    action  text   collate "C" not null, -- as the command is called: dlq replay, limits set, ...
    subject text   not null,             -- what it was done to
    detail  text   not null,             -- how
    count   bigint not null              -- to how many
);

create unique index weir_audit_uid on weir_audit (uid);
