# runtime: libddp
include_HEADERS = %D%/ddp.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = libddp.pc

# the pure parts
noinst_LTLIBRARIES += libplan.la
libplan_la_SOURCES = \
	%D%/bucket.c %D%/bucket.h \
	%D%/layout.c %D%/layout.h \
	%D%/norm.c %D%/norm.h \
	%D%/optimizer.c %D%/optimizer.h \
	%D%/partials.c %D%/partials.h \
	%D%/planner.c %D%/planner.h \
	%D%/scaler.c %D%/scaler.h \
	%D%/spread.c %D%/spread.h

# what tests drive over a communicator, without a handle
noinst_LTLIBRARIES += libreducer.la
libreducer_la_SOURCES = \
	%D%/budget.c %D%/budget.h \
	%D%/hook.c %D%/hook.h \
	%D%/reducer.c %D%/reducer.h \
	%D%/reducer_end.c \
	%D%/reducer_impl.h \
	%D%/reducer_pass.c \
	%D%/reducer_tune.c \
	%D%/trace.c %D%/trace.h

lib_LTLIBRARIES += libddp.la
libddp_la_SOURCES = \
	%D%/checkpoint.c %D%/checkpoint.h \
	%D%/checkpoint_agree.c \
	%D%/checkpoint_open.c \
	%D%/checkpoint_plan.c \
	%D%/checkpoint_state.c \
	%D%/collective.c \
	%D%/config.c %D%/config.h \
	%D%/device_of_rank.c \
	%D%/gpu.c %D%/gpu.h \
	%D%/gpu_carry.c \
	%D%/gpu_impl.h \
	%D%/gpu_step.c \
	%D%/gpu_times.c \
	%D%/handle.c %D%/handle.h \
	%D%/init.c \
	%D%/join.c \
	%D%/load.c \
	%D%/order.c \
	%D%/params.c \
	%D%/place.c \
	%D%/readback.c %D%/readback.h \
	%D%/resume.c %D%/resume.h \
	%D%/resume_read.c \
	%D%/share.c %D%/share.h \
	%D%/step.c \
	%D%/window.c %D%/window.h \
	%D%/window_ckpt.c \
	%D%/wish.c %D%/wish.h \
	%D%/zero.c %D%/zero.h
libddp_la_LIBADD = librckpt.la libreducer.la libplan.la libsched.la libdata.la libcomm.la libcommnccl.la libboot.la \
	libdevice.la libcudakernels.la libkernels.la libbase.la $(CUDART_LIBS)
# as a static library, too
libddp_la_LIBTOOLFLAGS =
libddp_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined \
	-Wl,--version-script=$(top_srcdir)/%D%/libddp.map
EXTRA_libddp_la_DEPENDENCIES = %D%/libddp.map
EXTRA_DIST += %D%/libddp.map

UNIT_TESTS += t/unit/bucket.t
t_unit_bucket_t_SOURCES = t/unit/bucket.c
UNIT_TESTS += t/unit/budget.t
t_unit_budget_t_SOURCES = t/unit/budget.c
UNIT_TESTS += t/unit/config.t
t_unit_config_t_SOURCES = t/unit/config.c %D%/config.c
t_unit_config_t_CPPFLAGS = $(AM_CPPFLAGS)
UNIT_TESTS += t/unit/partials.t
t_unit_partials_t_SOURCES = t/unit/partials.c
UNIT_TESTS += t/unit/planner.t
t_unit_planner_t_SOURCES = t/unit/planner.c
UNIT_TESTS += t/unit/reducer.t
t_unit_reducer_t_SOURCES = t/unit/reducer.c
UNIT_TESTS += t/unit/reducer_start.t
t_unit_reducer_start_t_SOURCES = t/unit/reducer_start.c
UNIT_TESTS += t/unit/scaler.t
t_unit_scaler_t_SOURCES = t/unit/scaler.c
UNIT_TESTS += t/unit/spread.t
t_unit_spread_t_SOURCES = t/unit/spread.c
UNIT_TESTS += t/unit/share.t
t_unit_share_t_SOURCES = t/unit/share.c %D%/share.c
t_unit_share_t_CPPFLAGS = $(AM_CPPFLAGS)
UNIT_TESTS += t/unit/readback.t
t_unit_readback_t_SOURCES = t/unit/readback.c %D%/readback.c t/lib/devicerig.c
t_unit_readback_t_CPPFLAGS = $(AM_CPPFLAGS) -DDDP_CUDA_EMULATED=1
t_unit_readback_t_LDADD = librckpt.la $(DEVICE_TEST_LIBS)

# The reducer once more, with threads for ranks, under ThreadSanitizer.
if HAVE_TSAN
UNIT_TESTS += t/unit/reducer_threads.t
endif
t_unit_reducer_threads_t_SOURCES = t/unit/reducer_threads.c t/lib/reduction.c $(THREADS_TEST_SOURCES) \
	$(libreducer_la_SOURCES) $(libplan_la_SOURCES) kernels/cpu/optim.c
t_unit_reducer_threads_t_CPPFLAGS = $(THREADS_TEST_CPPFLAGS)
t_unit_reducer_threads_t_CFLAGS = $(THREADS_TEST_CFLAGS)
t_unit_reducer_threads_t_LDFLAGS = $(THREADS_TEST_LINK)
t_unit_reducer_threads_t_LDADD = libboot.la libkernels.la libbase.la $(CMOCKA_LIBS) -lm
