# contrib
noinst_PROGRAMS += %D%/examples/linear
contrib_examples_linear_SOURCES = %D%/examples/linear.c
contrib_examples_linear_CPPFLAGS = -I$(top_srcdir)/runtime
contrib_examples_linear_LDADD = libddp.la
contrib_examples_linear_LDFLAGS = $(AM_LDFLAGS) -static

EXTRA_DIST += \
	%D%/arm64 %D%/bundle %D%/check %D%/cluster %D%/demo %D%/demo-bigram.py %D%/deps %D%/gpu-check %D%/matrix \
	%D%/bench/checkpoint %D%/bench/backends.py %D%/bench/ckpttorch.py %D%/bench/failtorch.py %D%/bench/failure \
	%D%/bench/faults %D%/bench/faultlib/cluster.py %D%/bench/faultlib/door.py \
	%D%/bench/faultlib/inject.c %D%/bench/faultlib/kinds.py \
	%D%/bench/faultlib/loop.py %D%/bench/faultlib/net.py \
	%D%/bench/faultlib/python/sitecustomize.py %D%/bench/faultlib/wire.py \
	%D%/bench/gloobench.py \
	%D%/bench/gpt.py %D%/bench/gptmodel.py %D%/bench/gpugpt.py \
	%D%/bench/gpupeer %D%/bench/launch %D%/bench/mpibench.c %D%/bench/peers %D%/bench/pmixbare.c \
	%D%/bench/peerlib/allreduce.py \
	%D%/bench/peerlib/backends.py \
	%D%/bench/peerlib/figures.py \
	%D%/bench/peerlib/llmc.py \
	%D%/bench/peerlib/machine.py \
	%D%/bench/peerlib/net.py \
	%D%/bench/peerlib/nodes.py \
	%D%/bench/peerlib/overlap.py \
	%D%/bench/peerlib/planner.py \
	%D%/bench/peerlib/step.py \
	%D%/lib/archive.sh \
	%D%/lib/build.sh \
	%D%/lib/cluster-conf.sh \
	%D%/lib/cluster-net.sh \
	%D%/lib/cluster-proc.sh \
	%D%/lib/count.sh \
	%D%/lib/gpu-again.sh \
	%D%/lib/gpu-bench.sh \
	%D%/lib/gpu-build.sh \
	%D%/lib/gpu-need.sh \
	%D%/lib/gpu-record.sh \
	%D%/lib/gpu-run.sh \
	%D%/lib/gpu-state.sh \
	%D%/lib/gpu-time.sh \
	%D%/lib/matrix-root.sh \
	%D%/lib/python.sh \
	%D%/lib/python.txt \
	%D%/lib/say.sh \
	%D%/packages/package.py %D%/packages/slurm-ddp-0.1.0.eb %D%/packages/slurm-ddp.spec \
	debian/changelog debian/control debian/copyright debian/rules debian/source/format \
	debian/libddp0.install debian/libddp-dev.install debian/slurm-ddp.install \
	debian/slurm-ddp-plugin.docs debian/slurm-ddp-plugin.examples \
	debian/slurm-ddp-plugin.install debian/slurm-ddp-plugin.postinst

# benchmarks on a GPU, of contrib/gpu-check: `make gpu-bench`; over the emulator they only show that they run
GPU_REPORT_SOURCES = %D%/bench/gpureport.c %D%/bench/gpureport.h
if HAVE_CXX
EMULATED_BENCHES = t/lib/gpufirst-emu t/lib/gpukernels-emu t/lib/gpumodel-emu t/lib/gpureduce-emu t/lib/train-emu
check_PROGRAMS += t/lib/gpufirst-emu t/lib/gpukernels-emu t/lib/gpumodel-emu t/lib/gpureduce-emu
if HAVE_NCCL
EMULATED_BENCHES += t/lib/nccldouble/libnccl.la
endif
endif
t_lib_gpufirst_emu_SOURCES = %D%/bench/gpufirst.c
t_lib_gpufirst_emu_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_gpufirst_emu_LDFLAGS = $(AM_LDFLAGS) $(EMU_EXPORTS)
t_lib_gpufirst_emu_LDADD = t/lib/libdeviceemu.la $(EMULATED_LIBS)
EXTRA_t_lib_gpufirst_emu_DEPENDENCIES = t/lib/blasltdouble/libcublasLt.la
t_lib_gpukernels_emu_SOURCES = %D%/bench/gpukernels.c $(GPU_REPORT_SOURCES)
t_lib_gpukernels_emu_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_gpukernels_emu_LDADD = t/lib/libdeviceemu.la $(EMULATED_LIBS)
# the trainer's model and libddp's step, whose calls of these are described and timed (t8405 has none missing)
GPU_MODEL_WRAPS = cuda_attention_backward cuda_attention_forward cuda_bias_backward cuda_cast \
	cuda_crossentropy_backward cuda_crossentropy_forward cuda_embedding_backward cuda_embedding_forward \
	cuda_embedding_sort cuda_gelu_backward cuda_gelu_forward cuda_layernorm_backward cuda_layernorm_forward \
	cuda_matmul cuda_norm_blocks cuda_optim_find device_fill
GPU_MODEL_SOURCES = %D%/bench/gpumodel.c %D%/bench/gpumodel.h %D%/bench/gpumodel_calls.c %D%/bench/gpumodel_wrap.c \
	$(GPU_REPORT_SOURCES)
GPU_MODEL_LINK = $(AM_LDFLAGS) -static $(addprefix -Wl$(comma)--wrap=,$(GPU_MODEL_WRAPS))
comma = ,
t_lib_gpumodel_emu_SOURCES = $(GPU_MODEL_SOURCES) $(DEVICE_CUDA_SOURCES) $(EMU_RUNTIME_SOURCES)
t_lib_gpumodel_emu_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_gpumodel_emu_LDFLAGS = $(GPU_MODEL_LINK) $(EMU_WHOLE_KERNELS) $(EMU_EXPORTS)
t_lib_gpumodel_emu_LDADD = $(t_lib_train_emu_LDADD)
EXTRA_t_lib_gpumodel_emu_DEPENDENCIES = $(EXTRA_t_lib_train_emu_DEPENDENCIES)
GPU_REDUCE_SOURCES = %D%/bench/gpureduce.c %D%/bench/barenccl.c %D%/bench/barenccl.h $(GPU_REPORT_SOURCES)
GPU_REDUCE_LIBS = libcommnccl.la libcomm.la libboot.la
t_lib_gpureduce_emu_SOURCES = $(GPU_REDUCE_SOURCES)
t_lib_gpureduce_emu_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_gpureduce_emu_LDADD = $(GPU_REDUCE_LIBS) t/lib/libdeviceemu.la t/lib/cudaemu/libcudart.la libkernels.la libbase.la
if HAVE_CUDART
GPU_BENCHES = %D%/bench/gpufirst %D%/bench/gpukernels %D%/bench/gpumodel %D%/bench/gpureduce
EXTRA_PROGRAMS += $(GPU_BENCHES)
contrib_bench_gpufirst_SOURCES = %D%/bench/gpufirst.c
contrib_bench_gpufirst_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
contrib_bench_gpufirst_LDADD = libcudablas.la libdevice.la $(GPU_LIBS)
contrib_bench_gpukernels_SOURCES = %D%/bench/gpukernels.c $(GPU_REPORT_SOURCES)
contrib_bench_gpukernels_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
contrib_bench_gpukernels_LDADD = libdevice.la $(GPU_LIBS)
contrib_bench_gpumodel_SOURCES = $(GPU_MODEL_SOURCES)
contrib_bench_gpumodel_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
contrib_bench_gpumodel_LDFLAGS = $(GPU_MODEL_LINK)
contrib_bench_gpumodel_LDADD = $(train_LDADD)
contrib_bench_gpureduce_SOURCES = $(GPU_REDUCE_SOURCES)
contrib_bench_gpureduce_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
contrib_bench_gpureduce_LDADD = $(GPU_REDUCE_LIBS) libdevice.la libkernels.la libbase.la $(CUDART_LIBS)
gpu-bench: $(GPU_BENCHES)
else
gpu-bench:
	@echo "make gpu-bench needs nvcc and libcudart_static: see what configure says of CUDA" >&2; false
endif
CLEANFILES += $(GPU_BENCHES)
.PHONY: gpu-bench

# The Python package: `make install` puts its source into PREFIX/share/slurm-ddp/python, for pip: its user alone knows
# into which Python and environment
pypackagedir = $(pkgdatadir)/python
EXTRA_DIST += %D%/python/README.md
dist_pypackage_DATA = %D%/python/backend.py %D%/python/elf.py %D%/python/pyproject.toml
pymodulesdir = $(pypackagedir)/slurm_ddp
dist_pymodules_DATA = \
	%D%/python/slurm_ddp/__init__.py \
	%D%/python/slurm_ddp/_lib.py \
	%D%/python/slurm_ddp/checkpoint.py \
	%D%/python/slurm_ddp/group.cpp \
	%D%/python/slurm_ddp/hf.py \
	%D%/python/slurm_ddp/job.py \
	%D%/python/slurm_ddp/lane.h %D%/python/slurm_ddp/libddp.h \
	%D%/python/slurm_ddp/lightning.py \
	%D%/python/slurm_ddp/metrics.py \
	%D%/python/slurm_ddp/rng.py \
	%D%/python/slurm_ddp/sampler.py \
	%D%/python/slurm_ddp/tensors.h %D%/python/slurm_ddp/torch.py \
	%D%/python/slurm_ddp/tree.py
