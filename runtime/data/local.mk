# runtime/data
noinst_LTLIBRARIES += libdata.la
libdata_la_SOURCES = \
	%D%/data.c %D%/data.h \
	%D%/ledger.c %D%/ledger.h \
	%D%/sampler.c %D%/sampler.h

UNIT_TESTS += t/unit/data.t
t_unit_data_t_SOURCES = t/unit/data.c
UNIT_TESTS += t/unit/ledger.t
t_unit_ledger_t_SOURCES = t/unit/ledger.c
UNIT_TESTS += t/unit/sampler.t
t_unit_sampler_t_SOURCES = t/unit/sampler.c
EXTRA_DIST += t/data/sampler.txt
