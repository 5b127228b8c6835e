# runtime/nccl: the host communicator's counterpart for device memory; opens libnccl at run time
noinst_LTLIBRARIES += libcommnccl.la
libcommnccl_la_CPPFLAGS = $(AM_CPPFLAGS) $(nccl_CPPFLAGS)
libcommnccl_la_SOURCES = \
	%D%/create.c \
	%D%/end.c \
	%D%/env.c \
	%D%/error.c \
	%D%/fixed.c \
	%D%/impl.h \
	%D%/lib.h \
	%D%/memory.c \
	%D%/nccl.c %D%/nccl.h \
	%D%/ops.c \
	%D%/plan.c %D%/plan.h \
	%D%/scatter.c \
	%D%/wait.c
if HAVE_NCCL
libcommnccl_la_SOURCES += %D%/lib.c
else
libcommnccl_la_SOURCES += %D%/lib_stub.c
endif

UNIT_TESTS += t/unit/nccl/life.t
t_unit_nccl_life_t_SOURCES = t/unit/nccl/life.c
UNIT_TESTS += t/unit/nccl/plan.t
t_unit_nccl_plan_t_SOURCES = t/unit/nccl/plan.c

# over the double of NCCL
if HAVE_NCCL
UNIT_TESTS += t/unit/nccl/lib.t
t_unit_nccl_lib_t_SOURCES = t/unit/nccl/lib.c
if HAVE_CXX
UNIT_TESTS += t/unit/nccl/fixed.t
t_unit_nccl_fixed_t_SOURCES = t/unit/nccl/fixed.c t/lib/memboot.c t/lib/ranks.c
t_unit_nccl_fixed_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_nccl_fixed_t_LDADD = libcommnccl.la libcomm.la libboot.la $(EMULATED_LIBS)
endif
endif
