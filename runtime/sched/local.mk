# runtime/sched
noinst_LTLIBRARIES += libsched.la
libsched_la_SOURCES = \
	%D%/command.c %D%/command.h \
	%D%/comment.c %D%/comment.h \
	%D%/deadline.c %D%/deadline.h \
	%D%/due.c %D%/due.h \
	%D%/interval.c %D%/interval.h \
	%D%/requeue.c %D%/requeue.h \
	%D%/slurm.c %D%/slurm.h \
	%D%/stop.c %D%/stop.h

UNIT_TESTS += t/unit/sched/comment.t
t_unit_sched_comment_t_SOURCES = t/unit/sched/comment.c
UNIT_TESTS += t/unit/sched/deadline.t
t_unit_sched_deadline_t_SOURCES = t/unit/sched/deadline.c
UNIT_TESTS += t/unit/sched/due.t
t_unit_sched_due_t_SOURCES = t/unit/sched/due.c
UNIT_TESTS += t/unit/sched/interval.t
t_unit_sched_interval_t_SOURCES = t/unit/sched/interval.c
UNIT_TESTS += t/unit/sched/requeue.t
t_unit_sched_requeue_t_SOURCES = t/unit/sched/requeue.c
UNIT_TESTS += t/unit/sched/stop.t
t_unit_sched_stop_t_SOURCES = t/unit/sched/stop.c
