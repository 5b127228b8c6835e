# runtime/cli: ddp
bin_PROGRAMS += ddp
ddp_SOURCES = \
	%D%/bench.c %D%/bench.h \
	%D%/bench_allreduce.c \
	%D%/bench_pattern.c %D%/bench_pattern.h \
	%D%/bench_reducer.c \
	%D%/bench_step.c \
	%D%/bench_train.c %D%/bench_train.h \
	%D%/bench_util.c \
	%D%/ckpt.c \
	%D%/cli.h \
	%D%/ddp.c \
	%D%/guard.c \
	%D%/job.c %D%/job.h \
	%D%/meeting.c %D%/meeting.h \
	%D%/requeue.c \
	%D%/run.c \
	%D%/spawn.c \
	%D%/topo.c
ddp_LDADD = libtrain.la libmodelkernels.la libddp.la librckpt.la libtopology.la libsched.la libbase.la
# Our own libraries go in as archives, so that ./ddp in the build folder is the program itself.
ddp_LDFLAGS = $(AM_LDFLAGS) $(PIE_LDFLAGS) -static
