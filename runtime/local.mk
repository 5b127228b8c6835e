# runtime: libddp
include_HEADERS = %D%/ddp.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = libddp.pc

lib_LTLIBRARIES += libddp.la
libddp_la_SOURCES = \
	%D%/checkpoint.c \
	%D%/collectives.c \
	%D%/commit.c \
	%D%/data_open.c \
	%D%/device_choose.c \
	%D%/distrust.c %D%/distrust.h \
	%D%/events.c %D%/events.h \
	%D%/foreign.c %D%/foreign.h \
	%D%/goodput.c \
	%D%/handle.c %D%/handle.h \
	%D%/init.c \
	%D%/join.c \
	%D%/pace.c %D%/pace.h \
	%D%/params.c \
	%D%/parts.c %D%/parts.h \
	%D%/parts_gpu.c %D%/parts_gpu.h \
	%D%/sized.c %D%/sized.h \
	%D%/step.c \
	%D%/textfile.c %D%/textfile.h \
	%D%/verify.c %D%/verify.h
libddp_la_LIBADD = libsave.la libcore.la libgpu.la liboptimizer.la libgrads.la libcommnccl.la libcomm.la libboot.la \
	libdevice.la libcudakernels.la libkernels.la librckpt.la librecord.la librecordread.la libsched.la \
	libdata.la libbase.la $(CUDART_LIBS)
# as a static library, too
libddp_la_LIBTOOLFLAGS =
# nodelete: its threads go on where a program closes it without ddp_finalize
libddp_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined \
	-Wl,--version-script=$(top_srcdir)/%D%/libddp.map -Wl,-z,nodelete
EXTRA_libddp_la_DEPENDENCIES = %D%/libddp.map
EXTRA_DIST += %D%/libddp.map

UNIT_TESTS += t/unit/runtime/pace.t
t_unit_runtime_pace_t_SOURCES = t/unit/runtime/pace.c runtime/pace.c runtime/parts.c
t_unit_runtime_pace_t_CFLAGS = $(AM_CFLAGS)
