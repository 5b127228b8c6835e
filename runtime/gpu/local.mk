# runtime/gpu: a step on a GPU
noinst_LTLIBRARIES += libgpu.la
libgpu_la_SOURCES = \
	%D%/arena.c \
	%D%/carry.c \
	%D%/gpu.c %D%/gpu.h \
	%D%/impl.h \
	%D%/step.c \
	%D%/times.c
