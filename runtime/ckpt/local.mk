# runtime/ckpt
noinst_LTLIBRARIES += librckpt.la
librckpt_la_SOURCES = \
	%D%/checksum.c %D%/checksum.h \
	%D%/checksum_avx2.c \
	%D%/checksum_avx512.c \
	%D%/checksum_impl.h \
	%D%/checksum_widths.h \
	%D%/commit.c %D%/commit.h \
	%D%/committer.c %D%/committer.h \
	%D%/export.c %D%/export.h \
	%D%/files.c %D%/files.h \
	%D%/folder.c %D%/folder.h \
	%D%/manifest.c %D%/manifest.h \
	%D%/manifest_decode.c \
	%D%/manifest_impl.h \
	%D%/members.c %D%/members.h \
	%D%/put.c %D%/put.h \
	%D%/safetensors.c %D%/safetensors.h \
	%D%/savedir.c %D%/savedir.h \
	%D%/snapshot.c %D%/snapshot.h \
	%D%/store.c %D%/store.h \
	%D%/walk.c %D%/walk.h \
	%D%/writer.c %D%/writer.h
librckpt_la_LIBADD = $(JANSSON_LIBS)

UNIT_TESTS += t/unit/checksum.t
t_unit_checksum_t_SOURCES = t/unit/checksum.c
UNIT_TESTS += t/unit/files.t
t_unit_files_t_SOURCES = t/unit/files.c
UNIT_TESTS += t/unit/manifest.t
t_unit_manifest_t_SOURCES = t/unit/manifest.c
UNIT_TESTS += t/unit/manifest_limit.t
t_unit_manifest_limit_t_SOURCES = t/unit/manifest_limit.c
UNIT_TESTS += t/unit/safetensors.t
t_unit_safetensors_t_SOURCES = t/unit/safetensors.c
UNIT_TESTS += t/unit/savedir.t
t_unit_savedir_t_SOURCES = t/unit/savedir.c
UNIT_TESTS += t/unit/store_damage.t
t_unit_store_damage_t_SOURCES = t/unit/store_damage.c
UNIT_TESTS += t/unit/ckpt_commit.t
t_unit_ckpt_commit_t_SOURCES = t/unit/ckpt_commit.c
t_unit_ckpt_commit_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mkdirat,--wrap=renameat,--wrap=renameat2,--wrap=unlinkat \
	-Wl,--wrap=fsync,--wrap=fallocate,--wrap=pwrite,--wrap=open,--wrap=openat,--wrap=fdopendir
UNIT_TESTS += t/unit/ckpt_writer.t
t_unit_ckpt_writer_t_SOURCES = t/unit/ckpt_writer.c
t_unit_ckpt_writer_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite
UNIT_TESTS += t/unit/store.t
t_unit_store_t_SOURCES = t/unit/store.c
t_unit_store_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pread
