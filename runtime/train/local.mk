# runtime/train: the reference trainer
noinst_LTLIBRARIES += libtrain.la
libtrain_la_LIBADD = $(JANSSON_LIBS)
libtrain_la_SOURCES = \
	%D%/account.c %D%/account.h \
	%D%/config_json.c %D%/config_json.h \
	%D%/job.c %D%/job.h \
	%D%/live.c %D%/live.h \
	%D%/lm.c %D%/lm.h \
	%D%/lm_parts.c \
	%D%/loop.c %D%/loop.h \
	%D%/loop_ckpt.c %D%/loop_ckpt.h \
	%D%/loop_say.c %D%/loop_say.h \
	%D%/losslog.c %D%/losslog.h \
	%D%/model.c %D%/model.h \
	%D%/model_impl.h \
	%D%/model_params.c %D%/model_params.h \
	%D%/options.c %D%/options.h \
	%D%/prefetch.c %D%/prefetch.h \
	%D%/start.c %D%/start.h \
	%D%/tokens.c %D%/tokens.h

# the model on a GPU; what links libtrain's lm.o lists $(GMODEL_LIBS), or the emulator's kernels in their place
noinst_LTLIBRARIES += libgmodel.la libnogmodel.la
libgmodel_la_SOURCES = \
	%D%/gmodel.c %D%/gmodel.h \
	%D%/gmodel_copy.c \
	%D%/gmodel_impl.h \
	%D%/gmodel_layers.c \
	%D%/gmodel_memory.c \
	%D%/gmodel_pass.c
libnogmodel_la_SOURCES = %D%/gmodel_stub.c
if HAVE_CUDART
GMODEL_LIBS = libgmodel.la libcudablas.la libmodelcudakernels.la
else
GMODEL_LIBS = libnogmodel.la
endif

pkglibexec_PROGRAMS += train
train_SOURCES = %D%/main.c
train_LDADD = libtrain.la $(GMODEL_LIBS) libmodelkernels.la libddp.la libbase.la
# -static: our own libraries go in as archives, so that ./train in the build folder is the program itself.
train_LDFLAGS = $(AM_LDFLAGS) $(PIE_LDFLAGS) -static

UNIT_TESTS += t/unit/train/config_json.t
t_unit_train_config_json_t_SOURCES = t/unit/train/config_json.c
UNIT_TESTS += t/unit/train/live.t
t_unit_train_live_t_SOURCES = t/unit/train/live.c
UNIT_TESTS += t/unit/train/losslog.t
t_unit_train_losslog_t_SOURCES = t/unit/train/losslog.c
UNIT_TESTS += t/unit/train/model.t
t_unit_train_model_t_SOURCES = t/unit/train/model.c
UNIT_TESTS += t/unit/train/tokens.t
t_unit_train_tokens_t_SOURCES = t/unit/train/tokens.c
if HAVE_CXX
UNIT_TESTS += t/unit/train/gmodel.t
endif
t_unit_train_gmodel_t_SOURCES = t/unit/train/gmodel.c $(TENSOR_SOURCES)
t_unit_train_gmodel_t_CPPFLAGS = $(EMULATED_CPPFLAGS)
EXTRA_t_unit_train_gmodel_t_DEPENDENCIES = t/lib/blasltdouble/libcublasLt.la
t_unit_train_gmodel_t_LDFLAGS = $(AM_LDFLAGS) $(EMU_EXPORTS)
t_unit_train_gmodel_t_LDADD = libgmodel.la libtrain.la libmodelkernels.la t/lib/libdeviceemu.la $(EMULATED_LIBS)
if HAVE_CUDART
GPU_TESTS += t/gpu/gmodel
t_gpu_gmodel_SOURCES = t/unit/train/gmodel.c $(TENSOR_SOURCES)
t_gpu_gmodel_CPPFLAGS = $(GPU_CPPFLAGS)
t_gpu_gmodel_LDADD = libgmodel.la libtrain.la libmodelkernels.la libcudablas.la libdevice.la $(GPU_LIBS)
endif
