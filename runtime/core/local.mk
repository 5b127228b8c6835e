# runtime/core: settings, and where values lie
noinst_LTLIBRARIES += libcore.la
libcore_la_SOURCES = \
	%D%/config.c %D%/config.h

UNIT_TESTS += t/unit/core/config.t
t_unit_core_config_t_SOURCES = t/unit/core/config.c
