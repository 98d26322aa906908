-- One row for each schedule, whatever it fires: next_tick moves on in the
-- transaction that enqueues the job of a tick, under the row's lock.
create table weir_schedules (
    name            text    primary key,
    cron            text    not null default '', -- empty: just added
    timezone        text    not null default '',
    missed          text    not null default '', -- skip, once
    job             text    not null default '', -- JSON of what is enqueued
    anchor          integer not null default 0, -- an interval counts from here
    next_tick       integer not null default 0,
    last_tick       integer not null default 0, -- the last that was fired; 0: none
    seen_at         integer not null default 0, -- when a process that declares it last looked after it
    paused          integer not null default 0
) strict;
