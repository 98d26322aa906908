-- One row for each schedule, whatever it fires: next_tick moves on in the
-- transaction that enqueues the job of a tick, under the row's lock.
create table weir_schedules (
    name      text    collate "C" primary key,
    cron      text    not null default '',   -- empty: just added
    timezone  text    not null default '',
    missed    text    not null default '',   -- skip, once
    job       text    not null default '',   -- JSON of what is enqueued
    anchor    bigint  not null default 0,    -- an interval counts from here
    next_tick bigint  not null default 0,
    last_tick bigint  not null default 0,    -- the last that was fired; 0: none
    seen_at   bigint  not null default 0,    -- when a process that declares it last looked after it
    paused    boolean not null default false
) with (fillfactor = 50);
