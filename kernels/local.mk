# kernels: libddp's arithmetic
noinst_LTLIBRARIES += libkernels.la
libkernels_la_CFLAGS = $(KERNEL_CFLAGS)
libkernels_la_SOURCES = \
	%D%/bits.h %D%/cpu/dispatch.h \
	%D%/cast.h %D%/cpu/cast.c \
	%D%/fold.h %D%/cpu/fold.c \
	%D%/optim.h %D%/cpu/optim.c \
	%D%/reduce.h %D%/cpu/reduce.c

# the trainer's model
noinst_LTLIBRARIES += libmodelkernels.la
libmodelkernels_la_CFLAGS = $(KERNEL_CFLAGS)
libmodelkernels_la_SOURCES = \
	%D%/attention.h \
	%D%/crossentropy.h \
	%D%/embedding.h \
	%D%/layernorm.h \
	%D%/matmul.h \
	%D%/vector.h \
	%D%/cpu/attention.c \
	%D%/cpu/attention_blas.c \
	%D%/cpu/attention_impl.h \
	%D%/cpu/attention_own.c \
	%D%/cpu/attention_softmax.c \
	%D%/cpu/blas.c %D%/cpu/blas.h \
	%D%/cpu/crossentropy.c \
	%D%/cpu/embedding.c \
	%D%/cpu/gemm.c %D%/cpu/gemm.h \
	%D%/cpu/gemm_avx.c \
	%D%/cpu/gemm_impl.h \
	%D%/cpu/inline.h \
	%D%/cpu/lanes.h \
	%D%/cpu/layernorm.c \
	%D%/cpu/mathfun.h \
	%D%/cpu/matmul.c \
	%D%/cpu/pool.c %D%/cpu/pool.h \
	%D%/cpu/vector.c

UNIT_TESTS += t/unit/optim.t
t_unit_optim_t_SOURCES = t/unit/optim.c
UNIT_TESTS += t/unit/reduce.t
t_unit_reduce_t_SOURCES = t/unit/reduce.c
UNIT_TESTS += t/unit/kernels.t
t_unit_kernels_t_SOURCES = t/unit/kernels.c
t_unit_kernels_t_CFLAGS = $(KERNEL_CFLAGS)
UNIT_TESTS += t/unit/matmul.t
t_unit_matmul_t_SOURCES = t/unit/matmul.c
t_unit_matmul_t_CFLAGS = $(KERNEL_CFLAGS)
