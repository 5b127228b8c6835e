# runtime/core: settings, and what all ranks do alike
noinst_LTLIBRARIES += libcore.la
libcore_la_SOURCES = \
	%D%/config.c %D%/config.h \
	%D%/state.h \
	%D%/team.c %D%/team.h

UNIT_TESTS += t/unit/core/config.t
t_unit_core_config_t_SOURCES = t/unit/core/config.c
