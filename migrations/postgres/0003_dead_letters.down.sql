drop table weir_audit;
drop table weir_dead_removed;
drop table weir_dead_hours;
drop table weir_dead_counts;
do $$
declare
    home name := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = 'weir_dead'::regclass);
begin
    execute format('drop index %1$I.weir_dead_retry, %1$I.weir_dead_queue, %1$I.weir_dead_task, %1$I.weir_dead_kind', home);
end $$;
create index weir_dead_kind on weir_dead (kind, id);
