# runtime/base
noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
	%D%/address.c %D%/address.h \
	%D%/begins.h \
	%D%/budget.c %D%/budget.h \
	%D%/bytes.h \
	%D%/call.c %D%/call.h \
	%D%/cgroup.c %D%/cgroup.h \
	%D%/clock.c %D%/clock.h \
	%D%/descriptors.c %D%/descriptors.h \
	%D%/door.c %D%/door.h \
	%D%/dtype.c %D%/dtype.h \
	%D%/duration.c %D%/duration.h \
	%D%/error.c %D%/error.h \
	%D%/flight.c %D%/flight.h \
	%D%/frame.c %D%/frame.h \
	%D%/handover.c %D%/handover.h \
	%D%/hash.h \
	%D%/io.c %D%/io.h \
	%D%/json_limit.c %D%/json_limit.h \
	%D%/json_read.c %D%/json_read.h \
	%D%/knob.c %D%/knob.h \
	%D%/knob_argv.c \
	%D%/lobby.c %D%/lobby.h \
	%D%/meminfo.c %D%/meminfo.h \
	%D%/namespace.h \
	%D%/nearest.c %D%/nearest.h \
	%D%/notice.c %D%/notice.h \
	%D%/num.c %D%/num.h \
	%D%/plain.c %D%/plain.h \
	%D%/resolve.c %D%/resolve.h \
	%D%/retry.c %D%/retry.h \
	%D%/settings.h \
	%D%/secret.c %D%/secret.h \
	%D%/siphash.c %D%/siphash.h \
	%D%/stats.c %D%/stats.h \
	%D%/thread.c %D%/thread.h
libbase_la_LIBADD = $(JANSSON_LIBS)

UNIT_TESTS += t/unit/base/address.t
t_unit_base_address_t_SOURCES = t/unit/base/address.c
t_unit_base_address_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=resolve_host
UNIT_TESTS += t/unit/base/base.t
t_unit_base_base_t_SOURCES = t/unit/base/base.c
UNIT_TESTS += t/unit/base/budget.t
t_unit_base_budget_t_SOURCES = t/unit/base/budget.c
UNIT_TESTS += t/unit/base/call.t
t_unit_base_call_t_SOURCES = t/unit/base/call.c
t_unit_base_call_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=thread_start
UNIT_TESTS += t/unit/base/cgroup.t
t_unit_base_cgroup_t_SOURCES = t/unit/base/cgroup.c
UNIT_TESTS += t/unit/base/flight.t
t_unit_base_flight_t_SOURCES = t/unit/base/flight.c
UNIT_TESTS += t/unit/base/frame.t
t_unit_base_frame_t_SOURCES = t/unit/base/frame.c
UNIT_TESTS += t/unit/base/handover.t
t_unit_base_handover_t_SOURCES = t/unit/base/handover.c
UNIT_TESTS += t/unit/base/knob.t
t_unit_base_knob_t_SOURCES = t/unit/base/knob.c
UNIT_TESTS += t/unit/base/lobby.t
t_unit_base_lobby_t_SOURCES = t/unit/base/lobby.c
UNIT_TESTS += t/unit/base/notice.t
t_unit_base_notice_t_SOURCES = t/unit/base/notice.c
