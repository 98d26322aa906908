-- Dead letters are read in the order of their death, within a kind, a task or
-- a queue.
drop index weir_dead_kind;
create index weir_dead_kind on weir_dead (kind, dead_at, id);
create index weir_dead_task on weir_dead (task, kind, dead_at, id);
create index weir_dead_queue on weir_dead (queue, kind, dead_at, id);
-- What failed and may be retried: what was shed is not in it, however much.
create index weir_dead_retry on weir_dead (task, replays, dead_at, id) where kind = 'failed';

-- How many dead letters there are. Each transaction that makes some or takes
-- some away keeps it true.
create table weir_dead_counts (
    kind    text    not null,
    task    text    not null,
    reason  text    not null, -- its first line, up to 80 bytes of it
    count   integer not null,
    primary key (kind, task, reason)
) strict, without rowid;

create table weir_dead_hours (
    hour    integer not null, -- of the death: hours since 1970, UTC
    kind    text    not null,
    task    text    not null,
    count   integer not null,
    primary key (hour, kind, task)
) strict, without rowid;

insert into weir_dead_counts (kind, task, reason, count)
select kind, task,
       case when kind = 'expired' then 'expired: not started' else (
           select case when length(cast(line as blob)) <= 80 then line
                  else substr(line, 1, (
                      with recursive cut(n) as (select 20 union all select n + 1 from cut where n < 80)
                      select max(n) from cut where length(cast(substr(line, 1, n) as blob)) <= 80)) end
           from (select case when instr(reason, char(10)) > 0 then substr(reason, 1, instr(reason, char(10)) - 1) else reason end as line)) end,
       count(*)
from weir_dead group by 1, 2, 3;

insert into weir_dead_hours (hour, kind, task, count)
select dead_at / 3600000000, kind, task, count(*) from weir_dead group by 1, 2, 3;

-- What retention took away since the beginning.
create table weir_dead_removed (
    kind        text    primary key,
    by_age      integer not null,
    by_count    integer not null
) strict;

-- What operators did.
create table weir_audit (
    id          integer primary key autoincrement,
    uid         text    not null, -- of the action: one that goes on in steps is one row
    at          integer not null, -- when it began
    actor       text    not null,
    action      text    not null, -- as the command is called: dlq replay, limits set, ...
    subject     text    not null, -- what it was done to
    detail      text    not null, -- how
    count       integer not null  -- to how many
) strict;

create unique index weir_audit_uid on weir_audit (uid);
