# runtime/comm: the host communicator and the watch
noinst_LTLIBRARIES += libcomm.la
libcomm_la_SOURCES = \
	%D%/addr.c \
	%D%/alltoall.c %D%/alltoall.h \
	%D%/alltoall_between.c \
	%D%/alltoall_rows.c \
	%D%/bypass.c %D%/bypass.h \
	%D%/call.c \
	%D%/collectives.c \
	%D%/comm.h \
	%D%/engine.c %D%/engine.h \
	%D%/engine_share.c \
	%D%/forked.c %D%/forked.h \
	%D%/handshake.c %D%/handshake.h \
	%D%/idle.c %D%/idle.h \
	%D%/internode.c \
	%D%/pair.c %D%/pair.h \
	%D%/plan.c %D%/plan.h \
	%D%/progress.c \
	%D%/scatter.c \
	%D%/shm.c %D%/shm.h \
	%D%/shm_barrier.c \
	%D%/stage.c \
	%D%/tcp.c %D%/tcp.h \
	%D%/tcp_exchange.c \
	%D%/tcp_impl.h \
	%D%/tcp_rate.c \
	%D%/tcp_wire.c \
	%D%/watch.c %D%/watch.h \
	%D%/watch_board.c %D%/watch_board.h \
	%D%/watch_impl.h \
	%D%/watch_thread.c \
	%D%/wireup.c %D%/wireup.h \
	%D%/work.c

UNIT_TESTS += t/unit/comm/alltoall.t
t_unit_comm_alltoall_t_SOURCES = t/unit/comm/alltoall.c
t_unit_comm_alltoall_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=shm_barrier
UNIT_TESTS += t/unit/comm/board.t
t_unit_comm_board_t_SOURCES = t/unit/comm/board.c
UNIT_TESTS += t/unit/comm/bypass.t
t_unit_comm_bypass_t_SOURCES = t/unit/comm/bypass.c
UNIT_TESTS += t/unit/comm/comm.t
t_unit_comm_comm_t_SOURCES = t/unit/comm/comm.c
UNIT_TESTS += t/unit/comm/differ.t
t_unit_comm_differ_t_SOURCES = t/unit/comm/differ.c
UNIT_TESTS += t/unit/comm/exchange.t
t_unit_comm_exchange_t_SOURCES = t/unit/comm/exchange.c
t_unit_comm_exchange_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime,--wrap=deadline_left_ms
UNIT_TESTS += t/unit/comm/fail.t
t_unit_comm_fail_t_SOURCES = t/unit/comm/fail.c
t_unit_comm_fail_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=engine_suspect,--wrap=syscall
UNIT_TESTS += t/unit/comm/forked.t
t_unit_comm_forked_t_SOURCES = t/unit/comm/forked.c
UNIT_TESTS += t/unit/comm/full.t
t_unit_comm_full_t_SOURCES = t/unit/comm/full.c
UNIT_TESTS += t/unit/comm/given.t
t_unit_comm_given_t_SOURCES = t/unit/comm/given.c
UNIT_TESTS += t/unit/comm/handshake.t
t_unit_comm_handshake_t_SOURCES = t/unit/comm/handshake.c
t_unit_comm_handshake_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime,--wrap=io_connect
UNIT_TESTS += t/unit/comm/idle.t
t_unit_comm_idle_t_SOURCES = t/unit/comm/idle.c
UNIT_TESTS += t/unit/comm/late.t
t_unit_comm_late_t_SOURCES = t/unit/comm/late.c
t_unit_comm_late_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
UNIT_TESTS += t/unit/comm/leader.t
t_unit_comm_leader_t_SOURCES = t/unit/comm/leader.c
UNIT_TESTS += t/unit/comm/notice.t
t_unit_comm_notice_t_SOURCES = t/unit/comm/notice.c
UNIT_TESTS += t/unit/comm/pair.t
t_unit_comm_pair_t_SOURCES = t/unit/comm/pair.c
UNIT_TESTS += t/unit/comm/plan.t
t_unit_comm_plan_t_SOURCES = t/unit/comm/plan.c
UNIT_TESTS += t/unit/comm/ranges.t
t_unit_comm_ranges_t_SOURCES = t/unit/comm/ranges.c
UNIT_TESTS += t/unit/comm/scatter.t
t_unit_comm_scatter_t_SOURCES = t/unit/comm/scatter.c
t_unit_comm_scatter_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=comm_wait
UNIT_TESTS += t/unit/comm/sleeps.t
t_unit_comm_sleeps_t_SOURCES = t/unit/comm/sleeps.c
t_unit_comm_sleeps_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=engine_look
UNIT_TESTS += t/unit/comm/sums.t
t_unit_comm_sums_t_SOURCES = t/unit/comm/sums.c
t_unit_comm_sums_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=bypass_of
UNIT_TESTS += t/unit/comm/suspended.t
t_unit_comm_suspended_t_SOURCES = t/unit/comm/suspended.c
UNIT_TESTS += t/unit/comm/wire.t
t_unit_comm_wire_t_SOURCES = t/unit/comm/wire.c
t_unit_comm_wire_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=cgroup_memory_limit,--wrap=thread_start,--wrap=mmap
UNIT_TESTS += t/unit/comm/works.t
t_unit_comm_works_t_SOURCES = t/unit/comm/works.c
t_unit_comm_works_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=recvmsg

# The communicator once more, with threads for ranks, under ThreadSanitizer.
if HAVE_TSAN
UNIT_TESTS += t/unit/comm/threads.t
endif
THREADS_TEST_SOURCES = t/lib/threads.c t/lib/threads.h t/lib/memboot.c t/lib/ranks.c $(libcomm_la_SOURCES) \
	kernels/cpu/cast.c kernels/cpu/copy.c kernels/cpu/reduce.c pmix/world.c
THREADS_TEST_CPPFLAGS = $(AM_CPPFLAGS) -U_FORTIFY_SOURCE -DDDP_SANITIZED=1
THREADS_TEST_CFLAGS = $(AM_CFLAGS) -fsanitize=thread
THREADS_TEST_LINK = -fsanitize=thread -Wl,--wrap=mmap,--wrap=munmap
t_unit_comm_threads_t_SOURCES = t/unit/comm/threads.c t/lib/works.c $(THREADS_TEST_SOURCES)
t_unit_comm_threads_t_CPPFLAGS = $(THREADS_TEST_CPPFLAGS)
t_unit_comm_threads_t_CFLAGS = $(THREADS_TEST_CFLAGS)
t_unit_comm_threads_t_LDFLAGS = $(THREADS_TEST_LINK)
t_unit_comm_threads_t_LDADD = libboot.la libbase.la $(CMOCKA_LIBS)
