drop table weir_gates;
drop table weir_queues;
drop table weir_tasks;
drop table weir_limits;
drop table weir_dead;
drop table weir_history;
drop table weir_jobs;
