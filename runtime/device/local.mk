# runtime/device
noinst_LTLIBRARIES += libdevice.la
libdevice_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDART_CPPFLAGS)
DEVICE_SOURCES = \
	%D%/choice.c %D%/choice.h \
	%D%/cpu.c \
	%D%/device.c %D%/device.h \
	%D%/device_fault.c \
	%D%/device_impl.h \
	%D%/peak.c
DEVICE_CUDA_SOURCES = %D%/cuda.c %D%/cuda_error.c %D%/cuda_impl.h
if HAVE_CUDART
libdevice_la_SOURCES = $(DEVICE_SOURCES) $(DEVICE_CUDA_SOURCES)
else
libdevice_la_SOURCES = $(DEVICE_SOURCES) %D%/cuda_stub.c
endif

UNIT_TESTS += t/unit/device/choice.t
t_unit_device_choice_t_SOURCES = t/unit/device/choice.c
UNIT_TESTS += t/unit/device/faults.t
t_unit_device_faults_t_SOURCES = t/unit/device/faults.c
t_unit_device_faults_t_LDADD = $(DEVICE_TEST_LIBS)
UNIT_TESTS += t/unit/device/device.t
t_unit_device_device_t_SOURCES = t/unit/device/device.c t/lib/devicerig.c t/lib/devicerig.h
t_unit_device_device_t_CPPFLAGS = $(AM_CPPFLAGS) -DDDP_CUDA_EMULATED=1
t_unit_device_device_t_LDADD = $(DEVICE_TEST_LIBS)
if HAVE_CUDART
GPU_TESTS += t/gpu/device
t_gpu_device_SOURCES = t/unit/device/device.c t/lib/devicerig.c t/lib/devicerig.h
t_gpu_device_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_device_LDADD = libdevice.la $(GPU_LIBS)
endif
