# runtime/record: what libddp writes, and what is read of that
noinst_LTLIBRARIES += librecord.la librecordread.la
librecord_la_SOURCES = \
	%D%/line.h \
	%D%/number.c %D%/number.h \
	%D%/program.c %D%/program.h \
	%D%/prometheus.c %D%/prometheus.h \
	%D%/write.c %D%/write.h
librecord_la_LIBADD = $(JANSSON_LIBS)
librecordread_la_SOURCES = \
	%D%/goodput.c %D%/goodput.h \
	%D%/goodput_text.c \
	%D%/read.c %D%/read.h \
	%D%/read_impl.h \
	%D%/read_line.c \
	%D%/read_member.c \
	%D%/read_ranks.c
librecordread_la_LIBADD = $(JANSSON_LIBS)

UNIT_TESTS += t/unit/record/goodput.t
t_unit_record_goodput_t_SOURCES = t/unit/record/goodput.c
UNIT_TESTS += t/unit/record/program.t
t_unit_record_program_t_SOURCES = t/unit/record/program.c
UNIT_TESTS += t/unit/record/prometheus.t
t_unit_record_prometheus_t_SOURCES = t/unit/record/prometheus.c
UNIT_TESTS += t/unit/record/read.t
t_unit_record_read_t_SOURCES = t/unit/record/read.c
UNIT_TESTS += t/unit/record/write.t
t_unit_record_write_t_SOURCES = t/unit/record/write.c
