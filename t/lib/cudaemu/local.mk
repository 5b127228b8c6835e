# t/lib/cudaemu: an emulated CUDA, and what is tested over it where there is no GPU
# against CUDA's own header where it is there
if HAVE_CUDART
EMU_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
else
EMU_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/%D%/include
endif
EMULATED_CPPFLAGS = $(EMU_CPPFLAGS) -DDDP_CUDA_EMULATED=1
EMULATED_CXXFLAGS = $(WARN_CXXFLAGS) -Wno-unknown-pragmas $(SAN_CFLAGS) $(ALIGN_CXXFLAGS) -ffp-contract=off \
	-fno-strict-aliasing -pthread
EXTRA_DIST += %D%/include/cuda_runtime_api.h

# its runtime library
check_LTLIBRARIES += %D%/libcudart.la
t_lib_cudaemu_libcudart_la_CPPFLAGS = $(EMU_CPPFLAGS)
EMU_RUNTIME_SOURCES = \
	%D%/foreign.h \
	%D%/runtime.c %D%/runtime.h %D%/runtime_impl.h \
	%D%/runtime_memory.c \
	%D%/runtime_streams.c \
	%D%/script.h
t_lib_cudaemu_libcudart_la_SOURCES = $(EMU_RUNTIME_SOURCES)

# the sources of runtime/device over that
check_LTLIBRARIES += t/lib/libdeviceemu.la
t_lib_libdeviceemu_la_CPPFLAGS = $(EMU_CPPFLAGS)
t_lib_libdeviceemu_la_SOURCES = $(DEVICE_SOURCES) $(DEVICE_CUDA_SOURCES)
DEVICE_TEST_LIBS = t/lib/libdeviceemu.la %D%/libcudart.la libbase.la $(CMOCKA_LIBS)

# launches of kernels that the C++ compiler has compiled
if HAVE_CXX
check_LIBRARIES += t/lib/libcudaemu.a t/lib/libemukernels.a
UNIT_TESTS += t/unit/kernels/cudaemu.t t/unit/kernels/cudaemu_wgmma.t
endif
t_lib_libcudaemu_a_SOURCES = \
	%D%/block.cc %D%/block.h \
	%D%/cudaemu.h %D%/emu.h \
	%D%/fiber.cc %D%/fiber.h \
	%D%/half.cc \
	%D%/launch.cc \
	%D%/warp.cc \
	%D%/wgmma.cc
t_lib_libcudaemu_a_CXXFLAGS = $(EMULATED_CXXFLAGS)
t_unit_kernels_cudaemu_t_SOURCES = t/unit/kernels/cudaemu.cc
t_unit_kernels_cudaemu_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_cudaemu_t_CXXFLAGS = $(EMULATED_CXXFLAGS)
t_unit_kernels_cudaemu_t_LDADD = $(EMULATED_LIBS)
t_unit_kernels_cudaemu_wgmma_t_SOURCES = t/unit/kernels/cudaemu_wgmma.cc
t_unit_kernels_cudaemu_wgmma_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_unit_kernels_cudaemu_wgmma_t_CXXFLAGS = $(EMULATED_CXXFLAGS)
t_unit_kernels_cudaemu_wgmma_t_LDADD = $(EMULATED_LIBS)
# all kernels, with the product over the double of cuBLASLt
t_lib_libemukernels_a_SOURCES = kernels/model/cuda/matmul.c $(EMU_KERNELS) $(EMU_MODEL_KERNELS)
t_lib_libemukernels_a_CPPFLAGS = $(BLASLT_DOUBLE_CPPFLAGS) -DDDP_CUDA_EMULATED=1 \
	-DCUBLASLT_LIBRARY='"$(abs_top_builddir)/t/lib/blasltdouble/.libs/libcublasLt.so"'
t_lib_libemukernels_a_CXXFLAGS = $(EMULATED_CXXFLAGS)

# what a test of kernels is linked with
EMULATED_LIBS = t/lib/libemukernels.a t/lib/libcudaemu.a %D%/libcudart.la libkernels.la libbase.la $(CMOCKA_LIBS) \
	-lstdc++ -lm
# for a program with libddp: all of them, before libddp's own
EMU_WHOLE_KERNELS = -Wl,--whole-archive,t/lib/libemukernels.a,--no-whole-archive
# of the program that opens the double
EMU_EXPORTS = -Wl,--export-dynamic-symbol=cudaemu_enqueue -Wl,--export-dynamic-symbol=cudaemu_is_device
GPU_TEST_SOURCES = t/lib/floats.c t/lib/floats.h t/lib/gputest.c t/lib/gputest.h
TENSOR_SOURCES = t/lib/floats.c t/lib/floats.h t/lib/tensors.c t/lib/tensors.h

# programs over it
check_PROGRAMS += t/lib/deviceprobe t/lib/gpuprobe
t_lib_deviceprobe_SOURCES = t/lib/deviceprobe.c $(DEVICE_CUDA_SOURCES) $(EMU_RUNTIME_SOURCES)
t_lib_deviceprobe_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_deviceprobe_LDFLAGS = $(AM_LDFLAGS) -static $(EMU_WHOLE_KERNELS)
t_lib_deviceprobe_LDADD = t/lib/libcudaemu.a libddp.la libbase.la -lstdc++ -lm
EXTRA_t_lib_deviceprobe_DEPENDENCIES = t/lib/libemukernels.a
t_lib_gpuprobe_SOURCES = t/lib/gpuprobe.c $(DEVICE_CUDA_SOURCES) $(EMU_RUNTIME_SOURCES)
t_lib_gpuprobe_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_gpuprobe_LDFLAGS = $(AM_LDFLAGS) -static $(EMU_WHOLE_KERNELS)
t_lib_gpuprobe_LDADD = t/lib/libcudaemu.a libddp.la libbase.la -lstdc++ -lm
EXTRA_t_lib_gpuprobe_DEPENDENCIES = t/lib/libemukernels.a
if HAVE_CXX
check_PROGRAMS += t/lib/train-emu
endif
t_lib_train_emu_SOURCES = runtime/train/main.c $(DEVICE_CUDA_SOURCES) $(EMU_RUNTIME_SOURCES)
t_lib_train_emu_CPPFLAGS = $(EMULATED_CPPFLAGS)
t_lib_train_emu_LDFLAGS = $(train_LDFLAGS) $(EMU_WHOLE_KERNELS) $(EMU_EXPORTS)
t_lib_train_emu_LDADD = t/lib/libcudaemu.a libtrain.la libgmodel.la libmodelkernels.la libddp.la libbase.la -lstdc++ -lm
EXTRA_t_lib_train_emu_DEPENDENCIES = t/lib/libemukernels.a t/lib/blasltdouble/libcublasLt.la

# tests of what nvcc compiles
GPU_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
GPU_LIBS = libmodelcudakernels.la libcudakernels.la libkernels.la libbase.la $(CUDART_LIBS) $(CMOCKA_LIBS) -lstdc++ -lm
if HAVE_CUDART
EXTRA_PROGRAMS += $(GPU_TESTS)
gpu-tests: $(GPU_TESTS)
else
gpu-tests:
	@echo "make gpu-tests needs nvcc and libcudart_static: see what configure says of CUDA" >&2; false
endif
CLEANFILES += $(GPU_TESTS)

# for contrib/gpu-check, which may run the same tests over the emulator: what it builds, the tests of it, and scripts in
# their order
KERNEL_TESTS = $(filter t/unit/kernels/cuda_% t/unit/kernels/model/cuda_% t/unit/train/gmodel.t,$(UNIT_TESTS))
GPU_SHELL_TESTS = t/t8402-gpu-training.t t/t8405-gpu-ranks.t t/t8406-gpu-crossing.t
list-gpu-programs:
	@printf '%s\n' train ddp $(GPU_BENCHES) $(GPU_TESTS)
list-gpu-tests:
	@printf '%s\n' $(GPU_TESTS)
list-emulated-programs:
	@printf '%s\n' train ddp $(EMULATED_BENCHES) $(KERNEL_TESTS)
list-emulated-tests:
	@printf '%s\n' $(KERNEL_TESTS)
list-gpu-scripts list-emulated-scripts:
	@printf '%s\n' $(GPU_SHELL_TESTS)
.PHONY: gpu-tests list-gpu-programs list-gpu-tests list-gpu-scripts list-emulated-programs list-emulated-tests \
	list-emulated-scripts

# faults in kernels/cuda that tests must find (t8020): what a compiler needs to plant them
if HAVE_CXX
check_DATA = t/lib/mutants.env
endif
CLEANFILES += t/lib/mutants.env
t/lib/mutants.env: Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN){ echo "cxx='$(CXX)'"; \
	  echo "cxxflags='$(AM_CXXFLAGS) $(EMULATED_CXXFLAGS) $(CXXFLAGS)'"; \
	  echo "cppflags='$(DEFAULT_INCLUDES) $(EMULATED_CPPFLAGS) $(CPPFLAGS)'"; \
	  echo "link='$(LIBTOOL) --silent --tag=CXX --mode=link $(CXX) $(EMULATED_CXXFLAGS) $(CXXFLAGS) $(AM_LDFLAGS) \
	    $(LDFLAGS)'"; \
	  echo "libs='$(EMULATED_LIBS) $(LIBS)'"; } >$@
