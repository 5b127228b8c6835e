# t/lib: what tests share, the probes that they run, and the doubles
check_LIBRARIES += %D%/libtest.a
t_lib_libtest_a_SOURCES = \
	%D%/bootranks.c %D%/bootranks.h \
	%D%/ckptfolder.c %D%/ckptfolder.h \
	%D%/clock.c %D%/clock.h \
	%D%/commas.c %D%/commas.h \
	%D%/floats.c %D%/floats.h \
	%D%/folder.c %D%/folder.h \
	%D%/gathering.c %D%/gathering.h \
	%D%/golden.c %D%/golden.h \
	%D%/machines.c %D%/machines.h \
	%D%/machines_random.c \
	%D%/guardend.c %D%/guardend.h \
	%D%/memboot.c %D%/memboot.h \
	%D%/network.c %D%/network.h \
	%D%/placements.c %D%/placements.h \
	%D%/ranks.c %D%/ranks.h \
	%D%/reduction.c %D%/reduction.h \
	%D%/ref_deal.c \
	%D%/ref_match.c \
	%D%/ref_place.c %D%/ref_place.h \
	%D%/works.c %D%/works.h \
	%D%/ref_impl.h \
	t/unit/train/ref_model.c t/unit/train/ref_model.h \
	t/unit/ckpt/history.c t/unit/ckpt/history.h \
	t/unit/save/kept.c t/unit/save/kept.h \
	t/unit/save/rig.c t/unit/save/rig.h \
	t/unit/spank/elastic.c t/unit/spank/elastic.h \
	t/unit/spank/guard_task.c t/unit/spank/guard_task.h \
	t/unit/spank/making.c t/unit/spank/making.h \
	t/unit/spank/members.c t/unit/spank/members.h \
	t/unit/spank/stopping.c t/unit/spank/stopping.h \
	t/unit/spank/vars.c t/unit/spank/vars.h \
	t/unit/unit.h
# What a unit test links where its room says nothing else: all rooms, of which the linker takes what the test calls. In
# one archive, as libtool takes half a second to put together what stands in seventeen.
check_LTLIBRARIES += %D%/libunit.la
t_lib_libunit_la_SOURCES =
t_lib_libunit_la_LIBADD = libspankcore.la libtrain.la libmodelkernels.la libsave.la libcore.la \
	liboptimizer.la libgrads.la libcommnccl.la libcomm.la libboot.la libdevice.la libkernels.la librckpt.la librecord.la \
	librecordread.la libsched.la libdata.la libtopology.la libbase.la
LDADD = %D%/libtest.a %D%/libunit.la $(CUDART_LIBS) $(CMOCKA_LIBS) -lm
EXTRA_DIST +=  \
	%D%/abi %D%/abiprogram.c \
	%D%/boots.sh \
	%D%/chaos \
	%D%/circles \
	%D%/ckpt.py \
	%D%/ckptprobe.sh \
	%D%/cluster.sh \
	%D%/layering \
	%D%/manuals \
	%D%/mutants \
	%D%/mutate \
	%D%/nccl.sh \
	%D%/gptprobe.py \
	%D%/gputrain.sh \
	%D%/groupprobe.py \
	%D%/frameworkprobe.py \
	%D%/frameworkstop.py \
	%D%/frameworks.py \
	%D%/pyprobe.py \
	%D%/python.sh \
	%D%/promcheck \
	%D%/recordcheck \
	%D%/refuses.sh \
	%D%/requeue.sh \
	%D%/rooms \
	%D%/tap.sh \
	%D%/tracecheck \
	%D%/training.sh \
	%D%/victim \
	t/data/libddp.abi \
	t/data/linear.sha256 \
	t/data/record

# programs over the boot, the communicator and NCCL
check_PROGRAMS += %D%/bootprobe %D%/commbench %D%/flood %D%/ncclprobe %D%/opens %D%/peers %D%/placebench
t_lib_bootprobe_SOURCES = %D%/bootprobe.c
t_lib_bootprobe_LDADD = libboot.la libbase.la
t_lib_bootprobe_LDFLAGS = $(AM_LDFLAGS) -static
# times the communicator alone; no test
t_lib_commbench_SOURCES = %D%/commbench.c
t_lib_flood_SOURCES = %D%/flood.c
t_lib_flood_LDADD = libbase.la
t_lib_flood_LDFLAGS = $(AM_LDFLAGS) -static
t_lib_ncclprobe_SOURCES = %D%/ncclprobe.c %D%/ncclprobe.h %D%/ncclprobe_ops.c
t_lib_ncclprobe_LDADD = libcommnccl.la libcomm.la libboot.la libkernels.la libbase.la
t_lib_ncclprobe_LDFLAGS = $(AM_LDFLAGS) -static
t_lib_opens_SOURCES = %D%/opens.c
t_lib_opens_LDADD =
t_lib_peers_SOURCES = %D%/peers.c
t_lib_peers_LDADD =
# times the placement; no test
t_lib_placebench_SOURCES = %D%/placebench.c

# the guards of many nodes
check_PROGRAMS += %D%/guardscale
t_lib_guardscale_SOURCES = %D%/guardscale.c

# for t0009: the tables of settings, as the manual pages must have them
check_PROGRAMS += %D%/settings
t_lib_settings_SOURCES = %D%/settings.c

# programs over libddp
check_PROGRAMS += %D%/apiprobe %D%/ckptprobe %D%/cutprobe %D%/flipprobe %D%/loopprobe
t_lib_apiprobe_SOURCES = %D%/apiprobe.c %D%/apiprobe.h %D%/apiprobe_calls.c %D%/apiprobe_steps.c %D%/apiprobe_wrong.c
t_lib_apiprobe_LDADD = libddp.la libbase.la
t_lib_apiprobe_LDFLAGS = $(AM_LDFLAGS) -static -Wl,--wrap=malloc,--wrap=aligned_alloc
t_lib_cutprobe_SOURCES = %D%/cutprobe.c
t_lib_cutprobe_LDADD = libddp.la libbase.la
t_lib_cutprobe_LDFLAGS = $(AM_LDFLAGS) -static
t_lib_flipprobe_SOURCES = %D%/flipprobe.c
t_lib_flipprobe_LDADD = libddp.la libbase.la
t_lib_flipprobe_LDFLAGS = $(AM_LDFLAGS) -static
t_lib_ckptprobe_SOURCES = %D%/ckptprobe.c
t_lib_ckptprobe_LDADD = libddp.la libbase.la
t_lib_ckptprobe_LDFLAGS = $(AM_LDFLAGS) -static -Wl,--wrap=checksum_copy -Wl,--wrap=malloc,--wrap=strdup \
	-Wl,--wrap=manifest_make
t_lib_loopprobe_SOURCES = %D%/loopprobe.c
t_lib_loopprobe_LDADD = libtrain.la libmodelkernels.la libddp.la libbase.la
t_lib_loopprobe_LDFLAGS = $(AM_LDFLAGS) -static

# the trainer and ddp bench, with calls that fail where a test wants it
check_PROGRAMS += t/unit/train-probe %D%/bench-probe
t_unit_train_probe_SOURCES = runtime/train/main.c %D%/train_probe.c
t_unit_train_probe_LDFLAGS = $(train_LDFLAGS) \
	-Wl,--wrap=ddp_batch_next_sized,--wrap=ddp_backward_end,--wrap=ddp_step_sized \
	-Wl,--wrap=ddp_grad_ready,--wrap=ddp_finalize \
	-Wl,--wrap=kernel_fold,--wrap=comm_gather_start \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
t_unit_train_probe_LDADD = $(train_LDADD)
t_lib_bench_probe_SOURCES = $(ddp_SOURCES) %D%/bench_probe.c
t_lib_bench_probe_LDFLAGS = $(ddp_LDFLAGS) -Wl,--wrap=ddp_allreduce,--wrap=ddp_wait
t_lib_bench_probe_LDADD = $(ddp_LDADD)

# checkpoints: their format, and faults on the way to the disk
check_PROGRAMS += %D%/ckptmake %D%/logits
t_lib_ckptmake_SOURCES = %D%/ckptmake.c
t_lib_logits_SOURCES = %D%/logits.c
check_LTLIBRARIES += %D%/fault.la
t_lib_fault_la_SOURCES = %D%/fault.c
t_lib_fault_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
t_lib_fault_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath $(abs_top_builddir)

# a second SPANK plugin
if HAVE_SLURM
check_LTLIBRARIES += %D%/enters.la
t_lib_enters_la_SOURCES = %D%/enters.c
t_lib_enters_la_CPPFLAGS = $(AM_CPPFLAGS) $(slurm_CPPFLAGS)
t_lib_enters_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
t_lib_enters_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath $(abs_top_builddir)
endif

# libpmix.so.2, as the boot opens it; -rpath: a shared library, although nothing is installed
if HAVE_PMIX
check_LTLIBRARIES += %D%/pmixdouble/libpmix.la
t_lib_pmixdouble_libpmix_la_SOURCES = %D%/pmixdouble/libpmix.c
t_lib_pmixdouble_libpmix_la_CPPFLAGS = $(AM_CPPFLAGS) $(pmix_CPPFLAGS)
t_lib_pmixdouble_libpmix_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
t_lib_pmixdouble_libpmix_la_LDFLAGS = $(AM_LDFLAGS) -rpath $(abs_top_builddir) -version-info 2:0:0
endif

# libnccl.so.2, as nccl_lib.c opens it
if HAVE_NCCL
check_LTLIBRARIES += %D%/nccldouble/libnccl.la
t_lib_nccldouble_libnccl_la_SOURCES = \
	%D%/nccldouble/double.h \
	%D%/nccldouble/libnccl.c \
	%D%/nccldouble/memory.c \
	%D%/nccldouble/move.c \
	%D%/nccldouble/script.c
t_lib_nccldouble_libnccl_la_CPPFLAGS = $(AM_CPPFLAGS) $(nccl_CPPFLAGS)
t_lib_nccldouble_libnccl_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
t_lib_nccldouble_libnccl_la_LIBADD = libkernels.la libbase.la
t_lib_nccldouble_libnccl_la_LDFLAGS = $(AM_LDFLAGS) -rpath $(abs_top_builddir) -version-info 2:0:0
endif

# cuBLASLt's double, whose path the emulated kernels know
if HAVE_CUBLASLT
BLASLT_DOUBLE_CPPFLAGS = $(EMU_CPPFLAGS) $(CUBLASLT_CPPFLAGS)
else
BLASLT_DOUBLE_CPPFLAGS = $(EMU_CPPFLAGS) -I$(top_srcdir)/%D%/blasltdouble/include
endif
EXTRA_DIST += %D%/blasltdouble/include/cublasLt.h
check_LTLIBRARIES += %D%/blasltdouble/libcublasLt.la
t_lib_blasltdouble_libcublasLt_la_SOURCES = %D%/blasltdouble/double.c kernels/cpu/cast.c
t_lib_blasltdouble_libcublasLt_la_CPPFLAGS = $(BLASLT_DOUBLE_CPPFLAGS)
t_lib_blasltdouble_libcublasLt_la_CFLAGS = $(AM_CFLAGS) -O2 -fvisibility=default
t_lib_blasltdouble_libcublasLt_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version -rpath $(abs_top_builddir)
