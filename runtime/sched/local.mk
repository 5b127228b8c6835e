# runtime/sched
noinst_LTLIBRARIES += libsched.la
libsched_la_SOURCES = \
	%D%/command.c %D%/command.h \
	%D%/deadline.c %D%/deadline.h \
	%D%/due.c %D%/due.h \
	%D%/interval.c %D%/interval.h \
	%D%/requeue.c %D%/requeue.h \
	%D%/slurm.c %D%/slurm.h \
	%D%/stop.c %D%/stop.h

UNIT_TESTS += t/unit/deadline.t
t_unit_deadline_t_SOURCES = t/unit/deadline.c
UNIT_TESTS += t/unit/due.t
t_unit_due_t_SOURCES = t/unit/due.c
UNIT_TESTS += t/unit/interval.t
t_unit_interval_t_SOURCES = t/unit/interval.c
UNIT_TESTS += t/unit/requeue.t
t_unit_requeue_t_SOURCES = t/unit/requeue.c
UNIT_TESTS += t/unit/stop.t
t_unit_stop_t_SOURCES = t/unit/stop.c
