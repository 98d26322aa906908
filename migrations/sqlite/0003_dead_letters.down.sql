drop table weir_audit;
drop table weir_dead_removed;
drop table weir_dead_hours;
drop table weir_dead_counts;
drop index weir_dead_retry;
drop index weir_dead_queue;
drop index weir_dead_task;
drop index weir_dead_kind;
create index weir_dead_kind on weir_dead (kind, id);
