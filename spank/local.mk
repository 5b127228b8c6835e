# spank: all but plugin.c is free of Slurm, so that the unit tests need none
noinst_LTLIBRARIES += libspankcore.la
libspankcore_la_SOURCES = \
	%D%/affinity.c %D%/affinity.h \
	%D%/arrange.c %D%/arrange.h \
	%D%/board.c %D%/board.h \
	%D%/cmdline.c %D%/cmdline.h \
	%D%/environment.c %D%/environment.h \
	%D%/gather.c %D%/gather.h \
	%D%/gather_fold.c \
	%D%/gather_impl.h \
	%D%/gather_send.c \
	%D%/gather_server.c \
	%D%/hiding.c %D%/hiding.h \
	%D%/hostlist.c %D%/hostlist.h \
	%D%/hostlist_compress.c \
	%D%/nccl.c %D%/nccl.h \
	%D%/keys.c %D%/keys.h \
	%D%/port.c %D%/port.h \
	%D%/site.c %D%/site.h \
	%D%/step.c %D%/step.h \
	%D%/task.c %D%/task.h \
	%D%/watchdog.c %D%/watchdog.h
libspankcore_la_LIBADD = libtopology.la libbase.la $(JANSSON_LIBS)
EXTRA_DIST += %D%/ddp.map contrib/slurm/ddp.json contrib/slurm/plugstack.conf contrib/slurm/train.sbatch

if HAVE_SLURM
plugin_LTLIBRARIES += ddp.la
ddp_la_SOURCES = %D%/plugin.c
ddp_la_CPPFLAGS = $(AM_CPPFLAGS) $(slurm_CPPFLAGS)
# Slurm's own functions are those of the program that loads the plugin: no libslurm.
ddp_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,--version-script=$(srcdir)/%D%/ddp.map
ddp_la_LIBADD = libspankcore.la
ddp_la_DEPENDENCIES = libspankcore.la %D%/ddp.map
endif

UNIT_TESTS += t/unit/spank_affinity.t
t_unit_spank_affinity_t_SOURCES = t/unit/spank_affinity.c
UNIT_TESTS += t/unit/spank_arrange.t
t_unit_spank_arrange_t_SOURCES = t/unit/spank_arrange.c
UNIT_TESTS += t/unit/spank_board.t
t_unit_spank_board_t_SOURCES = t/unit/spank_board.c
UNIT_TESTS += t/unit/spank_compress.t
t_unit_spank_compress_t_SOURCES = t/unit/spank_compress.c
UNIT_TESTS += t/unit/spank_environment.t
t_unit_spank_environment_t_SOURCES = t/unit/spank_environment.c
UNIT_TESTS += t/unit/spank_fold.t
t_unit_spank_fold_t_SOURCES = t/unit/spank_fold.c
UNIT_TESTS += t/unit/spank_gather.t
t_unit_spank_gather_t_SOURCES = t/unit/spank_gather.c
UNIT_TESTS += t/unit/spank_hiding.t
t_unit_spank_hiding_t_SOURCES = t/unit/spank_hiding.c
UNIT_TESTS += t/unit/spank_hostlist.t
t_unit_spank_hostlist_t_SOURCES = t/unit/spank_hostlist.c
UNIT_TESTS += t/unit/spank_nccl.t
t_unit_spank_nccl_t_SOURCES = t/unit/spank_nccl.c
UNIT_TESTS += t/unit/spank_keys.t
t_unit_spank_keys_t_SOURCES = t/unit/spank_keys.c
UNIT_TESTS += t/unit/spank_port.t
t_unit_spank_port_t_SOURCES = t/unit/spank_port.c
UNIT_TESTS += t/unit/spank_step.t
t_unit_spank_step_t_SOURCES = t/unit/spank_step.c
UNIT_TESTS += t/unit/spank_strangers.t
t_unit_spank_strangers_t_SOURCES = t/unit/spank_strangers.c
UNIT_TESTS += t/unit/spank_watchdog.t
t_unit_spank_watchdog_t_SOURCES = t/unit/spank_watchdog.c
