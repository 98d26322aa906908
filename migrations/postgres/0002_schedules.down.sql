drop table weir_schedules;
