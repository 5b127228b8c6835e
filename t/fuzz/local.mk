# t/fuzz: libFuzzer's targets, here with replay.c in its place
check_PROGRAMS += %D%/head %D%/lists %D%/manifest %D%/record %D%/runs
t_fuzz_head_SOURCES = %D%/head.c %D%/replay.c %D%/fuzz.h
t_fuzz_head_LDADD = librckpt.la libbase.la
t_fuzz_lists_SOURCES = %D%/lists.c %D%/replay.c %D%/fuzz.h
t_fuzz_lists_LDADD = libspankcore.la
t_fuzz_manifest_SOURCES = %D%/manifest.c %D%/replay.c %D%/fuzz.h
t_fuzz_manifest_LDADD = librckpt.la libbase.la
t_fuzz_record_SOURCES = %D%/record.c %D%/replay.c %D%/fuzz.h
t_fuzz_record_LDADD = libtopology.la libbase.la
t_fuzz_runs_SOURCES = %D%/runs.c %D%/replay.c %D%/fuzz.h $(REPORT_FILES)
t_fuzz_runs_LDADD = librecordread.la libbase.la -lm
EXTRA_DIST += %D%/json.dict t/t9010-fuzz.t \
	%D%/corpus-head %D%/corpus-lists %D%/corpus-manifest %D%/corpus-record %D%/corpus-runs
fuzz: all
	top_srcdir='$(abs_top_srcdir)' top_builddir='$(abs_top_builddir)' bash $(srcdir)/t/t9010-fuzz.t
.PHONY: fuzz
