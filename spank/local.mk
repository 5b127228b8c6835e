# spank: all but plugin.c and layout.c is free of Slurm, so that the unit tests need none
noinst_LTLIBRARIES += libspankcore.la
libspankcore_la_SOURCES = \
	%D%/affinity.c %D%/affinity.h \
	%D%/arrange.c %D%/arrange.h \
	%D%/board.c %D%/board.h \
	%D%/cmdline.c %D%/cmdline.h \
	%D%/environment.c %D%/environment.h \
	%D%/environment_renew.c \
	%D%/hiding.c %D%/hiding.h \
	%D%/launcher.c %D%/launcher.h \
	%D%/mpi.c %D%/mpi.h \
	%D%/nccl.c %D%/nccl.h \
	%D%/prepare.c %D%/prepare.h \
	%D%/task.c %D%/task.h \
	%D%/watchdog.c %D%/watchdog.h \
	%D%/gather/fold.c \
	%D%/gather/gather.c %D%/gather/gather.h \
	%D%/gather/impl.h \
	%D%/gather/send.c \
	%D%/gather/server.c \
	%D%/guard/activity.c \
	%D%/guard/child.c %D%/guard/child.h \
	%D%/guard/death.c \
	%D%/guard/door.c %D%/guard/door.h \
	%D%/guard/guard.c %D%/guard/guard.h \
	%D%/guard/halt.c %D%/guard/halt.h \
	%D%/guard/impl.h \
	%D%/guard/process.c %D%/guard/process.h \
	%D%/guard/program.c \
	%D%/guard/record.c %D%/guard/record.h \
	%D%/guard/signals.c \
	%D%/guard/srun.c \
	%D%/guard/stop.c %D%/guard/stop.h \
	%D%/guard/waits.c %D%/guard/waits.h \
	%D%/guard/watch.c \
	%D%/guards/activity.c %D%/guards/activity.h \
	%D%/guards/ask.c \
	%D%/guards/beat.c \
	%D%/guards/calls.c \
	%D%/guards/death.c %D%/guards/death.h \
	%D%/guards/guards.c %D%/guards/guards.h \
	%D%/guards/impl.h \
	%D%/guards/join.c \
	%D%/guards/link.c \
	%D%/guards/loss.c \
	%D%/guards/news.c \
	%D%/guards/nodes.c \
	%D%/guards/nodes_seat.c \
	%D%/guards/plan.c \
	%D%/guards/proof.c %D%/guards/proof.h \
	%D%/guards/roll.c \
	%D%/guards/round.c \
	%D%/guards/suspect.c \
	%D%/guards/verdict.c \
	%D%/net/lifeline.c %D%/net/lifeline.h \
	%D%/net/lifeline_impl.h \
	%D%/net/lifeline_serve.c \
	%D%/net/listen.c %D%/net/listen.h \
	%D%/net/port.c %D%/net/port.h \
	%D%/step/hostlist.c %D%/step/hostlist.h \
	%D%/step/hostlist_compress.c \
	%D%/step/moves.c %D%/step/moves.h \
	%D%/step/seats.c %D%/step/seats.h \
	%D%/step/step.c %D%/step/step.h
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
UNIT_TESTS += t/unit/spank/cmdline.t
t_unit_spank_cmdline_t_SOURCES = t/unit/spank/cmdline.c
UNIT_TESTS += t/unit/spank/compress.t
t_unit_spank_compress_t_SOURCES = t/unit/spank/compress.c
UNIT_TESTS += t/unit/spank/cut_off.t
t_unit_spank_cut_off_t_SOURCES = t/unit/spank/cut_off.c
UNIT_TESTS += t/unit/spank/death.t
t_unit_spank_death_t_SOURCES = t/unit/spank/death.c
UNIT_TESTS += t/unit/spank/door.t
t_unit_spank_door_t_SOURCES = t/unit/spank/door.c
UNIT_TESTS += t/unit/spank/environment.t
t_unit_spank_environment_t_SOURCES = t/unit/spank/environment.c
UNIT_TESTS += t/unit/spank/environment_renew.t
t_unit_spank_environment_renew_t_SOURCES = t/unit/spank/environment_renew.c
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
t_unit_spank_guard_parts_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=guard_door_cause,--wrap=kill
UNIT_TESTS += t/unit/spank/guard_roots.t
t_unit_spank_guard_roots_t_SOURCES = t/unit/spank/guard_roots.c
UNIT_TESTS += t/unit/spank/guards.t
t_unit_spank_guards_t_SOURCES = t/unit/spank/guards.c
UNIT_TESTS += t/unit/spank/guards_plan.t
t_unit_spank_guards_plan_t_SOURCES = t/unit/spank/guards_plan.c
UNIT_TESTS += t/unit/spank/guards_state.t
t_unit_spank_guards_state_t_SOURCES = t/unit/spank/guards_state.c
t_unit_spank_guards_state_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=recvmsg
UNIT_TESTS += t/unit/spank/guards_users.t
t_unit_spank_guards_users_t_SOURCES = t/unit/spank/guards_users.c
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
t_unit_spank_lifeline_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
UNIT_TESTS += t/unit/spank/listen.t
t_unit_spank_listen_t_SOURCES = t/unit/spank/listen.c
UNIT_TESTS += t/unit/spank/missing.t
t_unit_spank_missing_t_SOURCES = t/unit/spank/missing.c
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
UNIT_TESTS += t/unit/spank/silence.t
t_unit_spank_silence_t_SOURCES = t/unit/spank/silence.c
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
UNIT_TESTS += t/unit/spank/stop_end.t
t_unit_spank_stop_end_t_SOURCES = t/unit/spank/stop_end.c
UNIT_TESTS += t/unit/spank/stops.t
t_unit_spank_stops_t_SOURCES = t/unit/spank/stops.c
UNIT_TESTS += t/unit/spank/strangers.t
t_unit_spank_strangers_t_SOURCES = t/unit/spank/strangers.c
UNIT_TESTS += t/unit/spank/watchdog.t
t_unit_spank_watchdog_t_SOURCES = t/unit/spank/watchdog.c
