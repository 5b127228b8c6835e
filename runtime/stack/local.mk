# runtime/stack: where a process waits
noinst_LTLIBRARIES += libstack.la
libstack_la_SOURCES = \
	%D%/answer.h \
	%D%/callname.c %D%/callname.h \
	%D%/threads.c %D%/threads.h

if HAVE_LIBDW
plugin_PROGRAMS += ddp-waits
ddp_waits_SOURCES = %D%/main.c %D%/stack.c %D%/stack.h
ddp_waits_CPPFLAGS = $(AM_CPPFLAGS) $(LIBDW_CFLAGS)
ddp_waits_LDADD = libstack.la libbase.la $(LIBDW_LIBS)
# ddp.so looks for it in its own folder.
all-local: .libs/ddp-waits
.libs/ddp-waits: ddp-waits
	$(AM_V_at)$(MKDIR_P) .libs && ln -sf ../ddp-waits $@
endif

UNIT_TESTS += t/unit/stack/callname.t
t_unit_stack_callname_t_SOURCES = t/unit/stack/callname.c
