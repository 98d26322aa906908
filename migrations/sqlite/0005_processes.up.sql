-- What a process says of itself, as often as it says that it is live.
alter table weir_processes add column started_at  integer not null default 0;
alter table weir_processes add column seen_at     integer not null default 0; -- when it last said so
alter table weir_processes add column slots       integer not null default 0; -- how many handlers run at once
alter table weir_processes add column running     integer not null default 0;
alter table weir_processes add column error       text   not null default ''; -- the database's, the last time it failed it
alter table weir_processes add column error_from  integer not null default 0; -- by the process's clock
alter table weir_processes add column error_until integer not null default 0; -- 0: it still does
