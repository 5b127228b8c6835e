# runtime/cli: ddp, with runtime/bench
bin_PROGRAMS += ddp
ddp_SOURCES = \
	%D%/ckpt.c \
	%D%/cli.h \
	%D%/ddp.c \
	%D%/guard.c \
	%D%/job.c %D%/job.h \
	%D%/meeting.c %D%/meeting.h \
	%D%/ps.c %D%/ps.h \
	%D%/ps_here.c \
	%D%/ps_show.c \
	%D%/report.c \
	%D%/requeue.c \
	%D%/run.c \
	%D%/spawn.c \
	%D%/topo.c
# what `ddp report` shows of a run; t/fuzz/runs, too
REPORT_FILES = \
	runtime/cli/report.h \
	runtime/cli/report_axes.c \
	runtime/cli/report_chart.c runtime/cli/report_chart.h \
	runtime/cli/report_events.c \
	runtime/cli/report_facts.c \
	runtime/cli/report_heat.c \
	runtime/cli/report_page.c \
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
ddp_LDADD = libtrain.la libmodelkernels.la libddp.la librckpt.la librecordread.la libtopology.la libsched.la libbase.la
# Our own libraries go in as archives, so that ./ddp in the build folder is the program itself.
ddp_LDFLAGS = $(AM_LDFLAGS) $(PIE_LDFLAGS) -static

UNIT_TESTS += t/unit/cli/ps.t
t_unit_cli_ps_t_SOURCES = t/unit/cli/ps.c runtime/cli/ps_show.c
