# spank: all but plugin.c and layout.c is free of Slurm, so that the unit tests need none
noinst_LTLIBRARIES += libspankcore.la
libspankcore_la_SOURCES = \
	%D%/activity.c %D%/activity.h \
	%D%/affinity.c %D%/affinity.h \
	%D%/arrange.c %D%/arrange.h \
	%D%/board.c %D%/board.h \
	%D%/cmdline.c %D%/cmdline.h \
	%D%/death.c %D%/death.h \
	%D%/environment.c %D%/environment.h \
	%D%/environment_renew.c \
	%D%/gather.c %D%/gather.h \
	%D%/gather_fold.c \
	%D%/gather_impl.h \
	%D%/gather_send.c \
	%D%/gather_server.c \
	%D%/guard.c %D%/guard.h \
	%D%/guard_activity.c \
	%D%/guard_child.c %D%/guard_child.h \
	%D%/guard_death.c \
	%D%/guard_door.c %D%/guard_door.h \
	%D%/guard_impl.h \
	%D%/guard_process.c %D%/guard_process.h \
	%D%/guard_halt.c %D%/guard_halt.h \
	%D%/guard_record.c %D%/guard_record.h \
	%D%/guard_srun.c \
	%D%/guard_stop.c %D%/guard_stop.h \
	%D%/guard_waits.c %D%/guard_waits.h \
	%D%/guard_watch.c \
	%D%/guards.c %D%/guards.h \
	%D%/guards_ask.c \
	%D%/guards_beat.c \
	%D%/guards_calls.c \
	%D%/guards_impl.h \
	%D%/guards_join.c \
	%D%/guards_link.c \
	%D%/guards_news.c \
	%D%/guards_nodes.c \
	%D%/guards_plan.c \
	%D%/guards_proof.c %D%/guards_proof.h \
	%D%/guards_roll.c \
	%D%/guards_round.c \
	%D%/guards_suspect.c \
	%D%/hiding.c %D%/hiding.h \
	%D%/hostlist.c %D%/hostlist.h \
	%D%/hostlist_compress.c \
	%D%/launcher.c %D%/launcher.h \
	%D%/lifeline.c %D%/lifeline.h %D%/lifeline_impl.h \
	%D%/lifeline_serve.c \
	%D%/listen.c %D%/listen.h \
	%D%/moves.c %D%/moves.h \
	%D%/mpi.c %D%/mpi.h \
	%D%/nccl.c %D%/nccl.h \
	%D%/port.c %D%/port.h \
	%D%/prepare.c %D%/prepare.h \
	%D%/seats.c %D%/seats.h \
	%D%/step.c %D%/step.h \
	%D%/task.c %D%/task.h \
	%D%/watchdog.c %D%/watchdog.h
libspankcore_la_LIBADD = libkeys.la libstack.la libtopology.la librecord.la librecordread.la libsched.la libbase.la \
	$(JANSSON_LIBS)
EXTRA_DIST += %D%/ddp.map

# what --ddp and the site file may say; in ddp, too
noinst_LTLIBRARIES += libkeys.la
libkeys_la_SOURCES = \
	%D%/keys/keys.c %D%/keys/keys.h \
	%D%/keys/site.c %D%/keys/site.h \
	%D%/keys/stop_key.c %D%/keys/stop_key.h

if HAVE_SLURM
plugin_LTLIBRARIES += ddp.la
ddp_la_SOURCES = %D%/layout.c %D%/layout.h %D%/plugin.c
ddp_la_CPPFLAGS = $(AM_CPPFLAGS) $(slurm_CPPFLAGS)
# Slurm's own functions are those of the program that loads the plugin: no libslurm.
ddp_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -Wl,--version-script=$(srcdir)/%D%/ddp.map
ddp_la_LIBADD = libspankcore.la
ddp_la_DEPENDENCIES = libspankcore.la %D%/ddp.map
endif

UNIT_TESTS += t/unit/spank/activity.t
t_unit_spank_activity_t_SOURCES = t/unit/spank/activity.c
UNIT_TESTS += t/unit/spank/affinity.t
t_unit_spank_affinity_t_SOURCES = t/unit/spank/affinity.c
UNIT_TESTS += t/unit/spank/arrange.t
t_unit_spank_arrange_t_SOURCES = t/unit/spank/arrange.c
UNIT_TESTS += t/unit/spank/board.t
t_unit_spank_board_t_SOURCES = t/unit/spank/board.c
UNIT_TESTS += t/unit/spank/compress.t
t_unit_spank_compress_t_SOURCES = t/unit/spank/compress.c
UNIT_TESTS += t/unit/spank/death.t
t_unit_spank_death_t_SOURCES = t/unit/spank/death.c
UNIT_TESTS += t/unit/spank/door.t
t_unit_spank_door_t_SOURCES = t/unit/spank/door.c
UNIT_TESTS += t/unit/spank/environment.t
t_unit_spank_environment_t_SOURCES = t/unit/spank/environment.c
UNIT_TESTS += t/unit/spank/fold.t
t_unit_spank_fold_t_SOURCES = t/unit/spank/fold.c
UNIT_TESTS += t/unit/spank/gather.t
t_unit_spank_gather_t_SOURCES = t/unit/spank/gather.c
UNIT_TESTS += t/unit/spank/generations.t
t_unit_spank_generations_t_SOURCES = t/unit/spank/generations.c
UNIT_TESTS += t/unit/spank/guard.t
t_unit_spank_guard_t_SOURCES = t/unit/spank/guard.c
t_unit_spank_guard_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fork,--wrap=cgroup_memory_kills
UNIT_TESTS += t/unit/spank/guard_again.t
t_unit_spank_guard_again_t_SOURCES = t/unit/spank/guard_again.c
t_unit_spank_guard_again_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=guards_open
UNIT_TESTS += t/unit/spank/guard_parts.t
t_unit_spank_guard_parts_t_SOURCES = t/unit/spank/guard_parts.c
UNIT_TESTS += t/unit/spank/guards.t
t_unit_spank_guards_t_SOURCES = t/unit/spank/guards.c
UNIT_TESTS += t/unit/spank/guards_plan.t
t_unit_spank_guards_plan_t_SOURCES = t/unit/spank/guards_plan.c
UNIT_TESTS += t/unit/spank/guards_state.t
t_unit_spank_guards_state_t_SOURCES = t/unit/spank/guards_state.c
UNIT_TESTS += t/unit/spank/hiding.t
t_unit_spank_hiding_t_SOURCES = t/unit/spank/hiding.c
UNIT_TESTS += t/unit/spank/hostlist.t
t_unit_spank_hostlist_t_SOURCES = t/unit/spank/hostlist.c
UNIT_TESTS += t/unit/spank/keys.t
t_unit_spank_keys_t_SOURCES = t/unit/spank/keys.c
UNIT_TESTS += t/unit/spank/launcher.t
t_unit_spank_launcher_t_SOURCES = t/unit/spank/launcher.c
UNIT_TESTS += t/unit/spank/lifeline.t
t_unit_spank_lifeline_t_SOURCES = t/unit/spank/lifeline.c
UNIT_TESTS += t/unit/spank/moves.t
t_unit_spank_moves_t_SOURCES = t/unit/spank/moves.c
UNIT_TESTS += t/unit/spank/mpi.t
t_unit_spank_mpi_t_SOURCES = t/unit/spank/mpi.c
UNIT_TESTS += t/unit/spank/nccl.t
t_unit_spank_nccl_t_SOURCES = t/unit/spank/nccl.c
UNIT_TESTS += t/unit/spank/port.t
t_unit_spank_port_t_SOURCES = t/unit/spank/port.c
UNIT_TESTS += t/unit/spank/proof.t
t_unit_spank_proof_t_SOURCES = t/unit/spank/proof.c
UNIT_TESTS += t/unit/spank/roll.t
t_unit_spank_roll_t_SOURCES = t/unit/spank/roll.c
UNIT_TESTS += t/unit/spank/seats.t
t_unit_spank_seats_t_SOURCES = t/unit/spank/seats.c
UNIT_TESTS += t/unit/spank/spares.t
t_unit_spank_spares_t_SOURCES = t/unit/spank/spares.c
UNIT_TESTS += t/unit/spank/step.t
t_unit_spank_step_t_SOURCES = t/unit/spank/step.c
UNIT_TESTS += t/unit/spank/suspension.t
t_unit_spank_suspension_t_SOURCES = t/unit/spank/suspension.c
UNIT_TESTS += t/unit/spank/suspects.t
t_unit_spank_suspects_t_SOURCES = t/unit/spank/suspects.c
UNIT_TESTS += t/unit/spank/stop.t
t_unit_spank_stop_t_SOURCES = t/unit/spank/stop.c
UNIT_TESTS += t/unit/spank/stops.t
t_unit_spank_stops_t_SOURCES = t/unit/spank/stops.c
UNIT_TESTS += t/unit/spank/strangers.t
t_unit_spank_strangers_t_SOURCES = t/unit/spank/strangers.c
UNIT_TESTS += t/unit/spank/watchdog.t
t_unit_spank_watchdog_t_SOURCES = t/unit/spank/watchdog.c
