-- The window of a limit under the fixed-window strategy, beside its bucket: one
-- row a limit, for ever.
alter table weir_limits add column window_id    integer not null default 0; -- the generation; 0: none was opened yet
alter table weir_limits add column window_from  integer not null default 0; -- when it opened
alter table weir_limits add column window_count integer not null default 0; -- starts counted in it

-- What holds for the database as a whole: its strategy.
create table weir_settings (
    name  text primary key,
    value text not null
) strict;

-- Who ran jobs before this version ran them under token buckets.
insert into weir_settings select 'strategy', 'token_bucket' where exists (select 1 from weir_tasks);

-- The processes that run jobs, while they say so.
create table weir_processes (
    id         text    primary key,
    host       text    not null,
    pid        integer not null,
    live_until integer not null
) strict;
