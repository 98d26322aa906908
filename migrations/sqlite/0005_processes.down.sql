alter table weir_processes drop column started_at;
alter table weir_processes drop column seen_at;
alter table weir_processes drop column slots;
alter table weir_processes drop column running;
alter table weir_processes drop column error;
alter table weir_processes drop column error_from;
alter table weir_processes drop column error_until;
