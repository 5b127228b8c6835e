# runtime/cli: ddp, with runtime/bench
bin_PROGRAMS += ddp
ddp_SOURCES = \
	%D%/check.c %D%/check.h \
	%D%/check_facts.c \
	%D%/check_folder.c \
	%D%/check_judge.c %D%/check_judge.h \
	%D%/check_judge_io.c \
	%D%/check_judge_node.c \
	%D%/check_links.c \
	%D%/check_name.c \
	%D%/check_slow.c \
	%D%/check_speed.c \
	%D%/ckpt.c \
	%D%/cli.h \
	%D%/ddp.c \
	%D%/doctor.c %D%/doctor.h \
	%D%/doctor_find.c \
	%D%/doctor_judge.c \
	%D%/doctor_parse.c \
	%D%/doctor_read.c \
	%D%/guard.c \
	%D%/job.c %D%/job.h \
	%D%/meeting.c %D%/meeting.h \
	%D%/ps.c %D%/ps.h \
	%D%/ps_ask.c \
	%D%/ps_here.c \
	%D%/ps_show.c \
	%D%/report.c \
	%D%/requeue.c \
	%D%/run.c \
	%D%/spawn.c \
	%D%/topo.c \
	%D%/verdict.c %D%/verdict.h
# what `ddp report` shows of a run; t/fuzz/runs, too
REPORT_FILES = \
	runtime/cli/report.h \
	runtime/cli/report_axes.c \
	runtime/cli/report_chart.c runtime/cli/report_chart.h \
	runtime/cli/report_events.c \
	runtime/cli/report_facts.c \
	runtime/cli/report_heat.c \
	runtime/cli/report_page.c \
	runtime/cli/report_places.c \
	runtime/cli/report_run.c \
	runtime/cli/report_stack.c \
	runtime/cli/report_strip.c \
	runtime/cli/report_style.c \
	runtime/cli/report_text.c \
	runtime/cli/report_units.c
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
libpswaits_la_SOURCES = %D%/ps_waits.c
libpswaits_la_CPPFLAGS = $(AM_CPPFLAGS) -DPLUGINDIR='"$(plugindir)"'
ddp_LDADD = libpswaits.la libtrain.la libmodelkernels.la libddp.la librckpt.la librecordread.la libtopology.la \
	libsched.la libkeys.la libbase.la
# Our own libraries go in as archives, so that ./ddp in the build folder is the program itself.
ddp_LDFLAGS = $(AM_LDFLAGS) $(PIE_LDFLAGS) -static

UNIT_TESTS += t/unit/cli/ps.t
t_unit_cli_ps_t_SOURCES = t/unit/cli/ps.c runtime/cli/ps_show.c
UNIT_TESTS += t/unit/cli/check.t
t_unit_cli_check_t_SOURCES = t/unit/cli/check.c runtime/cli/check_facts.c runtime/cli/check_judge.c \
	runtime/cli/check_judge_io.c runtime/cli/check_judge_node.c runtime/cli/check_name.c runtime/cli/check_slow.c \
	runtime/cli/verdict.c
UNIT_TESTS += t/unit/cli/report.t
t_unit_cli_report_t_SOURCES = t/unit/cli/report.c $(REPORT_FILES)
UNIT_TESTS += t/unit/cli/doctor.t
t_unit_cli_doctor_t_SOURCES = t/unit/cli/doctor.c runtime/cli/doctor_find.c runtime/cli/doctor_judge.c \
	runtime/cli/doctor_parse.c runtime/cli/verdict.c
