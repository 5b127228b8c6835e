# runtime/data
noinst_LTLIBRARIES += libdata.la
libdata_la_SOURCES = \
	%D%/data.c %D%/data.h \
	%D%/ledger.c %D%/ledger.h \
	%D%/sampler.c %D%/sampler.h

UNIT_TESTS += t/unit/data/data.t
t_unit_data_data_t_SOURCES = t/unit/data/data.c
UNIT_TESTS += t/unit/data/ledger.t
t_unit_data_ledger_t_SOURCES = t/unit/data/ledger.c
UNIT_TESTS += t/unit/data/sampler.t
t_unit_data_sampler_t_SOURCES = t/unit/data/sampler.c
EXTRA_DIST += t/data/sampler.txt
