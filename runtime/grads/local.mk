# runtime/grads: from gradients to their sum
noinst_LTLIBRARIES += libgrads.la
libgrads_la_SOURCES = \
	%D%/bucket.c %D%/bucket.h \
	%D%/hook.c %D%/hook.h \
	%D%/layout.c %D%/layout.h \
	%D%/norm.c %D%/norm.h \
	%D%/planner.c %D%/planner.h \
	%D%/reducer.c %D%/reducer.h \
	%D%/reducer_end.c \
	%D%/reducer_impl.h \
	%D%/reducer_pass.c \
	%D%/reducer_tune.c \
	%D%/trace.c %D%/trace.h

UNIT_TESTS += t/unit/grads/bucket.t
t_unit_grads_bucket_t_SOURCES = t/unit/grads/bucket.c
UNIT_TESTS += t/unit/grads/layout.t
t_unit_grads_layout_t_SOURCES = t/unit/grads/layout.c
UNIT_TESTS += t/unit/grads/norm.t
t_unit_grads_norm_t_SOURCES = t/unit/grads/norm.c
UNIT_TESTS += t/unit/grads/planner.t
t_unit_grads_planner_t_SOURCES = t/unit/grads/planner.c
UNIT_TESTS += t/unit/grads/reducer.t
t_unit_grads_reducer_t_SOURCES = t/unit/grads/reducer.c
UNIT_TESTS += t/unit/grads/reducer_start.t
t_unit_grads_reducer_start_t_SOURCES = t/unit/grads/reducer_start.c
UNIT_TESTS += t/unit/grads/reducer_wrong.t
t_unit_grads_reducer_wrong_t_SOURCES = t/unit/grads/reducer_wrong.c
UNIT_TESTS += t/unit/grads/trace.t
t_unit_grads_trace_t_SOURCES = t/unit/grads/trace.c
UNIT_TESTS += t/unit/grads/tune.t
t_unit_grads_tune_t_SOURCES = t/unit/grads/tune.c
t_unit_grads_tune_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=planner_fit,--wrap=planner_cut,--wrap=malloc

# The reducer once more, with threads for ranks, under ThreadSanitizer.
if HAVE_TSAN
UNIT_TESTS += t/unit/grads/reducer_threads.t
endif
t_unit_grads_reducer_threads_t_SOURCES = t/unit/grads/reducer_threads.c t/lib/reduction.c $(THREADS_TEST_SOURCES) \
	$(libgrads_la_SOURCES)
t_unit_grads_reducer_threads_t_CPPFLAGS = $(THREADS_TEST_CPPFLAGS)
t_unit_grads_reducer_threads_t_CFLAGS = $(THREADS_TEST_CFLAGS)
t_unit_grads_reducer_threads_t_LDFLAGS = $(THREADS_TEST_LINK)
t_unit_grads_reducer_threads_t_LDADD = libboot.la libkernels.la libbase.la $(CMOCKA_LIBS) -lm
