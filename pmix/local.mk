# pmix: users link libboot.la and libbase.la
noinst_LTLIBRARIES += libboot.la
libboot_la_CPPFLAGS = $(AM_CPPFLAGS) $(pmix_CPPFLAGS)
libboot_la_SOURCES = \
	%D%/boot.c %D%/boot.h \
	%D%/boot_card.c %D%/boot_card.h \
	%D%/boot_carried.c %D%/boot_carried.h \
	%D%/boot_client.c \
	%D%/boot_conn.c %D%/boot_conn.h \
	%D%/boot_given.c \
	%D%/boot_guard.c \
	%D%/boot_host.c %D%/boot_host.h \
	%D%/boot_impl.h \
	%D%/boot_local.c \
	%D%/boot_pmi.c \
	%D%/boot_protocol.c \
	%D%/boot_server.c %D%/boot_server.h \
	%D%/boot_server_impl.h \
	%D%/boot_single.c \
	%D%/boot_store.c %D%/boot_store.h \
	%D%/boot_wire.c %D%/boot_wire.h \
	%D%/world.c %D%/world.h
if HAVE_PMIX
libboot_la_SOURCES += %D%/boot_pmix.c
else
libboot_la_SOURCES += %D%/boot_pmix_stub.c
endif

UNIT_TESTS += t/unit/pmix/boot.t
t_unit_pmix_boot_t_SOURCES = t/unit/pmix/boot.c
UNIT_TESTS += t/unit/pmix/boot_card.t
t_unit_pmix_boot_card_t_SOURCES = t/unit/pmix/boot_card.c
UNIT_TESTS += t/unit/pmix/boot_host.t
t_unit_pmix_boot_host_t_SOURCES = t/unit/pmix/boot_host.c
UNIT_TESTS += t/unit/pmix/boot_strangers.t
t_unit_pmix_boot_strangers_t_SOURCES = t/unit/pmix/boot_strangers.c
UNIT_TESTS += t/unit/pmix/world.t
t_unit_pmix_world_t_SOURCES = t/unit/pmix/world.c
UNIT_TESTS += t/unit/pmix/boot_pmi.t
t_unit_pmix_boot_pmi_t_SOURCES = t/unit/pmix/boot_pmi.c
t_unit_pmix_boot_pmi_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=boot_host_card
