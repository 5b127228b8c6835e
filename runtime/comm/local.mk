# runtime/comm
noinst_LTLIBRARIES += libcomm.la
libcomm_la_SOURCES = \
	%D%/addr.c \
	%D%/call.c \
	%D%/comm.h \
	%D%/engine.c %D%/engine.h \
	%D%/engine_share.c \
	%D%/host.c %D%/host.h \
	%D%/meet.c %D%/meet.h \
	%D%/move.c \
	%D%/net.c \
	%D%/plan.c %D%/plan.h \
	%D%/progress.c \
	%D%/shm.c %D%/shm.h \
	%D%/shm_barrier.c \
	%D%/tcp.c %D%/tcp.h \
	%D%/tcp_exchange.c \
	%D%/tcp_impl.h \
	%D%/tcp_wire.c \
	%D%/watch.c %D%/watch.h \
	%D%/watch_board.c %D%/watch_board.h \
	%D%/watch_impl.h \
	%D%/watch_thread.c \
	%D%/work.c

# beside it, for device memory: opens libnccl at run time
noinst_LTLIBRARIES += libcommnccl.la
libcommnccl_la_CPPFLAGS = $(AM_CPPFLAGS) $(nccl_CPPFLAGS)
libcommnccl_la_SOURCES = \
	%D%/nccl.c %D%/nccl.h \
	%D%/nccl_create.c \
	%D%/nccl_env.c \
	%D%/nccl_error.c \
	%D%/nccl_fixed.c \
	%D%/nccl_impl.h \
	%D%/nccl_lib.h \
	%D%/nccl_ops.c \
	%D%/nccl_plan.c %D%/nccl_plan.h \
	%D%/nccl_scatter.c \
	%D%/nccl_wait.c
if HAVE_NCCL
libcommnccl_la_SOURCES += %D%/nccl_lib.c
else
libcommnccl_la_SOURCES += %D%/nccl_nolib.c
endif

UNIT_TESTS += t/unit/comm.t
t_unit_comm_t_SOURCES = t/unit/comm.c
UNIT_TESTS += t/unit/comm_differ.t
t_unit_comm_differ_t_SOURCES = t/unit/comm_differ.c
UNIT_TESTS += t/unit/comm_fail.t
t_unit_comm_fail_t_SOURCES = t/unit/comm_fail.c
UNIT_TESTS += t/unit/comm_meet.t
t_unit_comm_meet_t_SOURCES = t/unit/comm_meet.c
UNIT_TESTS += t/unit/comm_plan.t
t_unit_comm_plan_t_SOURCES = t/unit/comm_plan.c
UNIT_TESTS += t/unit/comm_sums.t
t_unit_comm_sums_t_SOURCES = t/unit/comm_sums.c
UNIT_TESTS += t/unit/comm_wire.t
t_unit_comm_wire_t_SOURCES = t/unit/comm_wire.c
UNIT_TESTS += t/unit/comm_works.t
t_unit_comm_works_t_SOURCES = t/unit/comm_works.c
UNIT_TESTS += t/unit/nccl_life.t
t_unit_nccl_life_t_SOURCES = t/unit/nccl_life.c
UNIT_TESTS += t/unit/nccl_plan.t
t_unit_nccl_plan_t_SOURCES = t/unit/nccl_plan.c

# The communicator once more, with threads for ranks, under ThreadSanitizer.
if HAVE_TSAN
UNIT_TESTS += t/unit/comm_threads.t
endif
THREADS_TEST_SOURCES = t/lib/threads.c t/lib/threads.h t/lib/memboot.c t/lib/ranks.c $(libcomm_la_SOURCES) \
	kernels/cpu/cast.c kernels/cpu/reduce.c pmix/world.c
THREADS_TEST_CPPFLAGS = $(AM_CPPFLAGS) -U_FORTIFY_SOURCE -DDDP_SANITIZED=1
THREADS_TEST_CFLAGS = $(AM_CFLAGS) -fsanitize=thread
THREADS_TEST_LINK = -fsanitize=thread -Wl,--wrap=mmap,--wrap=munmap
t_unit_comm_threads_t_SOURCES = t/unit/comm_threads.c t/lib/works.c $(THREADS_TEST_SOURCES)
t_unit_comm_threads_t_CPPFLAGS = $(THREADS_TEST_CPPFLAGS)
t_unit_comm_threads_t_CFLAGS = $(THREADS_TEST_CFLAGS)
t_unit_comm_threads_t_LDFLAGS = $(THREADS_TEST_LINK)
t_unit_comm_threads_t_LDADD = libboot.la libbase.la $(CMOCKA_LIBS)

# over the double of NCCL
if HAVE_NCCL
UNIT_TESTS += t/unit/nccl_lib.t
t_unit_nccl_lib_t_SOURCES = t/unit/nccl_lib.c
if HAVE_CXX
UNIT_TESTS += t/unit/nccl_fixed.t
t_unit_nccl_fixed_t_SOURCES = t/unit/nccl_fixed.c t/lib/memboot.c t/lib/ranks.c t/lib/cudaemu/kernels/reduce.cc
t_unit_nccl_fixed_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_nccl_fixed_t_CXXFLAGS = $(EMULATED_CXXFLAGS)
t_unit_nccl_fixed_t_LDADD = libcommnccl.la libcomm.la libboot.la $(EMULATED_LIBS)
endif
endif
