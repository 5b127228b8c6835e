# runtime/record: read
noinst_LTLIBRARIES += librecordread.la
librecordread_la_SOURCES = \
	%D%/goodput.c %D%/goodput.h \
	%D%/read.c %D%/read.h \
	%D%/read_impl.h \
	%D%/read_line.c \
	%D%/read_member.c \
	%D%/read_ranks.c
librecordread_la_LIBADD = $(JANSSON_LIBS)

UNIT_TESTS += t/unit/record/read.t
t_unit_record_read_t_SOURCES = t/unit/record/read.c
UNIT_TESTS += t/unit/record/goodput.t
t_unit_record_goodput_t_SOURCES = t/unit/record/goodput.c
