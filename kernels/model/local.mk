# kernels/model: the trainer's layers
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

# on a GPU
MODEL_CUDA_KERNELS = \
	%D%/cuda/attention.cu \
	%D%/cuda/attention_backward.cu \
	%D%/cuda/attention_f32.cu \
	%D%/cuda/attention_wgmma.cu \
	%D%/cuda/attention_wgmma_backward.cu \
	%D%/cuda/bias.cu \
	%D%/cuda/crossentropy.cu \
	%D%/cuda/embedding.cu \
	%D%/cuda/gelu.cu \
	%D%/cuda/layernorm.cu \
	%D%/cuda/layernorm_backward.cu
MODEL_CUDA_INCLUDED = \
	%D%/cuda/attention.h \
	%D%/cuda/attention_f32.h \
	%D%/cuda/attention_gradients.h \
	%D%/cuda/attention_path.h \
	%D%/cuda/attention_rows.h \
	%D%/cuda/attention_tile.h \
	%D%/cuda/attention_wgmma.h \
	%D%/cuda/bias.h \
	%D%/cuda/crossentropy.h \
	%D%/cuda/embedding.h \
	%D%/cuda/gelu.h \
	%D%/cuda/lanes.h \
	%D%/cuda/layernorm.h \
	%D%/cuda/partials.h
EMU_MODEL_KERNELS = \
	t/lib/cudaemu/kernels/attention.cc \
	t/lib/cudaemu/kernels/attention_backward.cc \
	t/lib/cudaemu/kernels/attention_f32.cc \
	t/lib/cudaemu/kernels/attention_wgmma.cc \
	t/lib/cudaemu/kernels/attention_wgmma_backward.cc \
	t/lib/cudaemu/kernels/bias.cc \
	t/lib/cudaemu/kernels/crossentropy.cc \
	t/lib/cudaemu/kernels/embedding.cc \
	t/lib/cudaemu/kernels/gelu.cc \
	t/lib/cudaemu/kernels/layernorm.cc \
	t/lib/cudaemu/kernels/layernorm_backward.cc
EXTRA_DIST += $(MODEL_CUDA_KERNELS) $(MODEL_CUDA_INCLUDED)
if HAVE_CUDART
noinst_LTLIBRARIES += libmodelcudakernels.la
libmodelcudakernels_la_SOURCES =
libmodelcudakernels_la_LIBADD = $(MODEL_CUDA_KERNELS:.cu=.lo)
# wgmma is compute capability 9.0's alone
%D%/cuda/attention_wgmma.lo %D%/cuda/attention_wgmma_backward.lo: \
	NVCC_ARCHS = -gencode arch=compute_90a,code=sm_90a
endif

# matrix products: cuBLASLt's, opened at run time
noinst_LTLIBRARIES += libcudablas.la
libcudablas_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUBLASLT_CPPFLAGS)
if HAVE_CUBLASLT
libcudablas_la_SOURCES = %D%/cuda/matmul.h %D%/cuda/matmul.c
else
libcudablas_la_SOURCES = %D%/cuda/matmul.h %D%/cuda/matmul_stub.c
endif

UNIT_TESTS += t/unit/kernels/model/golden.t
t_unit_kernels_model_golden_t_SOURCES = t/unit/kernels/model/golden.c
t_unit_kernels_model_golden_t_CFLAGS = $(KERNEL_CFLAGS)
UNIT_TESTS += t/unit/kernels/model/kernels.t
t_unit_kernels_model_kernels_t_SOURCES = t/unit/kernels/model/kernels.c
t_unit_kernels_model_kernels_t_CFLAGS = $(KERNEL_CFLAGS)
UNIT_TESTS += t/unit/kernels/model/matmul.t
t_unit_kernels_model_matmul_t_SOURCES = t/unit/kernels/model/matmul.c
t_unit_kernels_model_matmul_t_CFLAGS = $(KERNEL_CFLAGS)

# as those of kernels/cuda
if HAVE_CXX
UNIT_TESTS += \
	t/unit/kernels/model/cuda_attention.t t/unit/kernels/model/cuda_crossentropy.t \
	t/unit/kernels/model/cuda_embedding.t t/unit/kernels/model/cuda_gelu.t t/unit/kernels/model/cuda_layernorm.t \
	t/unit/kernels/model/cuda_large_attention.t t/unit/kernels/model/cuda_large_layers.t \
	t/unit/kernels/model/cuda_large_matmul.t t/unit/kernels/model/cuda_matmul.t
endif
if HAVE_CUDART
GPU_TESTS += \
	t/gpu/cuda_attention t/gpu/cuda_crossentropy t/gpu/cuda_embedding t/gpu/cuda_gelu t/gpu/cuda_large_attention \
	t/gpu/cuda_large_layers t/gpu/cuda_large_matmul t/gpu/cuda_layernorm t/gpu/cuda_matmul
endif

t_unit_kernels_model_cuda_attention_t_SOURCES = t/unit/kernels/model/cuda_attention.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_attention_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_attention_t_LDADD = $(EMULATED_LIBS)
t_gpu_cuda_attention_SOURCES = t/unit/kernels/model/cuda_attention.c $(TENSOR_SOURCES)
t_gpu_cuda_attention_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_attention_LDADD = $(GPU_LIBS)

t_unit_kernels_model_cuda_crossentropy_t_SOURCES = t/unit/kernels/model/cuda_crossentropy.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_crossentropy_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_crossentropy_t_LDADD = $(EMULATED_LIBS)
t_gpu_cuda_crossentropy_SOURCES = t/unit/kernels/model/cuda_crossentropy.c $(TENSOR_SOURCES)
t_gpu_cuda_crossentropy_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_crossentropy_LDADD = $(GPU_LIBS)

t_unit_kernels_model_cuda_embedding_t_SOURCES = t/unit/kernels/model/cuda_embedding.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_embedding_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_embedding_t_LDADD = $(EMULATED_LIBS)
t_gpu_cuda_embedding_SOURCES = t/unit/kernels/model/cuda_embedding.c $(TENSOR_SOURCES)
t_gpu_cuda_embedding_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_embedding_LDADD = $(GPU_LIBS)

t_unit_kernels_model_cuda_gelu_t_SOURCES = t/unit/kernels/model/cuda_gelu.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_gelu_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_gelu_t_LDADD = $(EMULATED_LIBS)
t_gpu_cuda_gelu_SOURCES = t/unit/kernels/model/cuda_gelu.c $(TENSOR_SOURCES)
t_gpu_cuda_gelu_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_gelu_LDADD = $(GPU_LIBS)

t_unit_kernels_model_cuda_layernorm_t_SOURCES = t/unit/kernels/model/cuda_layernorm.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_layernorm_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_layernorm_t_LDADD = $(EMULATED_LIBS)
t_gpu_cuda_layernorm_SOURCES = t/unit/kernels/model/cuda_layernorm.c $(TENSOR_SOURCES)
t_gpu_cuda_layernorm_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_layernorm_LDADD = $(GPU_LIBS)

t_unit_kernels_model_cuda_matmul_t_SOURCES = t/unit/kernels/model/cuda_matmul.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_matmul_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
EXTRA_t_unit_kernels_model_cuda_matmul_t_DEPENDENCIES = t/lib/blasltdouble/libcublasLt.la
t_unit_kernels_model_cuda_matmul_t_LDFLAGS = $(AM_LDFLAGS) $(EMU_EXPORTS)
t_unit_kernels_model_cuda_matmul_t_LDADD = $(EMULATED_LIBS)
t_gpu_cuda_matmul_SOURCES = t/unit/kernels/model/cuda_matmul.c $(TENSOR_SOURCES)
t_gpu_cuda_matmul_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_matmul_LDADD = libcudablas.la $(GPU_LIBS)

# the sizes of a training step, beside the processor's kernels
t_unit_kernels_model_cuda_large_attention_t_SOURCES = t/unit/kernels/model/cuda_large_attention.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_large_attention_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_large_attention_t_LDADD = $(EMU_LARGE_LIBS)
t_gpu_cuda_large_attention_SOURCES = t/unit/kernels/model/cuda_large_attention.c $(TENSOR_SOURCES)
t_gpu_cuda_large_attention_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_large_attention_LDADD = libmodelkernels.la $(GPU_LIBS)

t_unit_kernels_model_cuda_large_layers_t_SOURCES = t/unit/kernels/model/cuda_large_layers.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_large_layers_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_model_cuda_large_layers_t_LDADD = $(EMU_LARGE_LIBS)
t_gpu_cuda_large_layers_SOURCES = t/unit/kernels/model/cuda_large_layers.c $(TENSOR_SOURCES)
t_gpu_cuda_large_layers_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_large_layers_LDADD = libmodelkernels.la $(GPU_LIBS)

EMU_LARGE_LIBS = libmodelkernels.la $(EMULATED_LIBS)
t_unit_kernels_model_cuda_large_matmul_t_SOURCES = t/unit/kernels/model/cuda_large_matmul.c $(TENSOR_SOURCES)
t_unit_kernels_model_cuda_large_matmul_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
EXTRA_t_unit_kernels_model_cuda_large_matmul_t_DEPENDENCIES = t/lib/blasltdouble/libcublasLt.la
t_unit_kernels_model_cuda_large_matmul_t_LDFLAGS = $(AM_LDFLAGS) $(EMU_EXPORTS)
t_unit_kernels_model_cuda_large_matmul_t_LDADD = $(EMU_LARGE_LIBS)
t_gpu_cuda_large_matmul_SOURCES = t/unit/kernels/model/cuda_large_matmul.c $(TENSOR_SOURCES)
t_gpu_cuda_large_matmul_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_cuda_large_matmul_LDADD = libmodelkernels.la libcudablas.la $(GPU_LIBS)
