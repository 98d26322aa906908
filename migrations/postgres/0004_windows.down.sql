drop table weir_processes;
drop table weir_settings;
alter table weir_limits drop column window_id;
alter table weir_limits drop column window_from;
alter table weir_limits drop column window_count;
