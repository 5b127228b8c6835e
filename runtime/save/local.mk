# runtime/save: checkpoints over the ranks
noinst_LTLIBRARIES += libsave.la
libsave_la_SOURCES = \
	%D%/checkpoint.c %D%/checkpoint.h \
	%D%/checkpoint_agree.c \
	%D%/checkpoint_open.c \
	%D%/checkpoint_plan.c \
	%D%/checkpoint_retry.c \
	%D%/checkpoint_state.c \
	%D%/cut.c %D%/cut.h \
	%D%/cut_ckpt.c \
	%D%/foreign.c %D%/foreign.h \
	%D%/foreign_read.c \
	%D%/load.c %D%/load.h \
	%D%/readback.c %D%/readback.h \
	%D%/recall.c %D%/recall.h \
	%D%/recall_mirror.c \
	%D%/recall_restore.c \
	%D%/resume.c %D%/resume.h \
	%D%/resume_read.c \
	%D%/save.h \
	%D%/scheduler.c %D%/scheduler.h \
	%D%/sources.c %D%/sources.h \
	%D%/split.c %D%/split.h

UNIT_TESTS += t/unit/save/split.t
t_unit_save_split_t_SOURCES = t/unit/save/split.c
UNIT_TESTS += t/unit/save/readback.t
t_unit_save_readback_t_SOURCES = t/unit/save/readback.c t/lib/devicerig.c
t_unit_save_readback_t_CPPFLAGS = $(AM_CPPFLAGS) -DDDP_CUDA_EMULATED=1
t_unit_save_readback_t_LDADD = libsave.la librckpt.la $(DEVICE_TEST_LIBS)
UNIT_TESTS += t/unit/save/save.t
t_unit_save_save_t_SOURCES = t/unit/save/save.c
UNIT_TESTS += t/unit/save/slow.t
t_unit_save_slow_t_SOURCES = t/unit/save/slow.c
t_unit_save_slow_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fsync,--wrap=unlinkat,--wrap=mkdirat
UNIT_TESTS += t/unit/save/aside.t
t_unit_save_aside_t_SOURCES = t/unit/save/aside.c
t_unit_save_aside_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pread,--wrap=mkdirat,--wrap=openat,--wrap=geteuid,--wrap=statfs
UNIT_TESTS += t/unit/save/end.t
t_unit_save_end_t_SOURCES = t/unit/save/end.c
UNIT_TESTS += t/unit/save/recall.t
t_unit_save_recall_t_SOURCES = t/unit/save/recall.c
t_unit_save_recall_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=readback_after,--wrap=savedir_probe
UNIT_TESTS += t/unit/save/recall_which.t
t_unit_save_recall_which_t_SOURCES = t/unit/save/recall_which.c
t_unit_save_recall_which_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite,--wrap=mirror_is_done
UNIT_TESTS += t/unit/save/foreign.t
t_unit_save_foreign_t_SOURCES = t/unit/save/foreign.c
UNIT_TESTS += t/unit/save/reason.t
t_unit_save_reason_t_SOURCES = t/unit/save/reason.c
