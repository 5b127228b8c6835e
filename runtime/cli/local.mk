# runtime/cli: ddp, with runtime/bench
bin_PROGRAMS += ddp
ddp_SOURCES = \
	%D%/check.c \
	%D%/ckpt.c \
	%D%/cli.h \
	%D%/ddp.c \
	%D%/doctor.c \
	%D%/ps.c \
	%D%/report.c \
	%D%/requeue.c \
	%D%/run.c \
	%D%/topo.c \
	%D%/check/check.h \
	%D%/check/facts.c \
	%D%/check/folder.c \
	%D%/check/judge.c %D%/check/judge.h \
	%D%/check/judge_io.c \
	%D%/check/judge_node.c \
	%D%/check/links.c \
	%D%/check/name.c \
	%D%/check/slow.c \
	%D%/check/speed.c \
	%D%/doctor/doctor.h \
	%D%/doctor/find.c \
	%D%/doctor/judge.c \
	%D%/doctor/parse.c \
	%D%/doctor/read.c \
	%D%/ps/ask.c \
	%D%/ps/here.c \
	%D%/ps/ps.h \
	%D%/ps/show.c \
	%D%/run/guard.c \
	%D%/run/job.c %D%/run/job.h \
	%D%/run/meeting.c %D%/run/meeting.h \
	%D%/run/spawn.c \
	%D%/verdict/verdict.c %D%/verdict/verdict.h
# what `ddp report` shows of a run; t/fuzz/runs, too
REPORT_FILES = \
	runtime/cli/report/axes.c \
	runtime/cli/report/chart.c runtime/cli/report/chart.h \
	runtime/cli/report/events.c \
	runtime/cli/report/facts.c \
	runtime/cli/report/heat.c \
	runtime/cli/report/page.c \
	runtime/cli/report/places.c \
	runtime/cli/report/report.h \
	runtime/cli/report/run.c \
	runtime/cli/report/stack.c \
	runtime/cli/report/strip.c \
	runtime/cli/report/style.c \
	runtime/cli/report/text.c \
	runtime/cli/report/units.c
ddp_SOURCES += $(REPORT_FILES)
ddp_SOURCES += \
	runtime/bench/allreduce.c \
	runtime/bench/bench.c runtime/bench/bench.h \
	runtime/bench/pattern.c runtime/bench/pattern.h \
	runtime/bench/reducer.c \
	runtime/bench/step.c \
	runtime/bench/train.c runtime/bench/train.h \
	runtime/bench/util.c
# apart, as the prefix would be part of every other command line, too
noinst_LTLIBRARIES += libpswaits.la
libpswaits_la_SOURCES = %D%/ps/waits.c
libpswaits_la_CPPFLAGS = $(AM_CPPFLAGS) -DPLUGINDIR='"$(plugindir)"'
ddp_LDADD = libpswaits.la libtrain.la libmodelkernels.la libddp.la librckpt.la librecordread.la libtopology.la \
	libsched.la libkeys.la libbase.la
# Our own libraries go in as archives, so that ./ddp in the build folder is the program itself.
ddp_LDFLAGS = $(AM_LDFLAGS) $(PIE_LDFLAGS) -static

UNIT_TESTS += t/unit/cli/ps.t
t_unit_cli_ps_t_SOURCES = t/unit/cli/ps.c runtime/cli/ps/show.c
UNIT_TESTS += t/unit/cli/check.t
t_unit_cli_check_t_SOURCES = t/unit/cli/check.c runtime/cli/check/facts.c runtime/cli/check/judge.c \
	runtime/cli/check/judge_io.c runtime/cli/check/judge_node.c runtime/cli/check/name.c runtime/cli/check/slow.c \
	runtime/cli/verdict/verdict.c
UNIT_TESTS += t/unit/cli/report.t
t_unit_cli_report_t_SOURCES = t/unit/cli/report.c $(REPORT_FILES)
UNIT_TESTS += t/unit/cli/doctor.t
t_unit_cli_doctor_t_SOURCES = t/unit/cli/doctor.c runtime/cli/doctor/find.c runtime/cli/doctor/judge.c \
	runtime/cli/doctor/parse.c runtime/cli/verdict/verdict.c
